// Package prefetch decides what is read into memory before its readers come, and what
// is let go: Next says which block of which job's input is read next on a device,
// Place on which node of a cluster a block is read, DropRef and CleanUp say who gives up
// references to blocks. These are the rules of ignem, section III. Like package policy it is pure, and all functions may be called
// concurrently.
package prefetch
