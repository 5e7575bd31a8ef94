// Package books keeps the books of a node: what its tasks hold now and later, what may
// still go to swap, what its stores have room and time for, and what acts on tasks would
// free. A Ledger is the books of all nodes of a view; what happens on one node changes no
// other's. It knows what is there, not what it costs, who comes first or which policy
// decides. The ledger fills its own memory again with each view: what was had of it
// before must not be used any more.
package books
