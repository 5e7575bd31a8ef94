// Command testcount reads the output of `go test -json` and writes what a
// person wants of it: one line for each package, the output of what failed, the
// reasons of what was skipped, and at the end
//
//	N passed, N failed, N skipped
//
// A test with subtests counts through its subtests, unless it fails by itself.
// A package that does not build, panics outside its tests or runs out of time
// counts as one failure. The exit code is 1 when anything failed, when there
// was no test, or when the input was not what go test writes.
package main
