// Package testkit is what tests of several packages need: the programs, built once,
// commands that end with the test, waiting for what nobody tells of, whether goroutines
// are left, and signals that are not ignored. Nothing but tests imports it.
package testkit
