// Package testkit is what tests of several packages need: the programs, built once,
// commands that end with the test, waiting for what nobody tells of, limits that a busy machine may not keep, whether goroutines
// or descriptors are left, a file system that does not answer, an address at which nobody is, signals that are not ignored, a machine that goes down, and an ordinary user. Nothing but tests imports it.
package testkit
