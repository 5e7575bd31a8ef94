// Package needs finds out which files a tree of processes has open or mapped: what
// another machine must have at the same paths before the tree can be restored there.
//
// It is linked into the supervisor of every task, so it needs nothing but the kernel's
// own tables of a process.
package needs
