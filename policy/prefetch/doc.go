// Package prefetch decides what is read into memory before its readers come, and what
// is let go: Next says which block of which job's input is read next on a device,
// DropRef and CleanUp say who gives up references to blocks. These are the rules of
// ignem, section III. Like package policy it is pure, and all functions may be called
// concurrently.
package prefetch
