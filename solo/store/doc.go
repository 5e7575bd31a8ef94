// Package store knows the checkpoint stores of one machine: which of them are there (package presence), how fast they
// are, on which device, how much room is left beside what is promised to dumps, and which one a dump goes to. It knows no tasks:
// only what a dump of one would write, and whose it is. One goroutine owns it, that of the daemon.
package store
