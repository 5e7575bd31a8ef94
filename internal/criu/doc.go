// Package criu finds CRIU on this machine, learns by trying whether it works
// here, and puts what it says into words that a person can act on.
//
// CRIU writes a process tree to files and makes it run again from them
// (https://criu.org). Headrace needs 4.2 or later: earlier ones cannot dump a
// process that holds a TCP socket on recent kernels. scripts/get-criu installs it
// into a prefix of its own.
//
// Smoke starts the calling program again, with the variable HEADRACE_CRIU_SMOKE
// in its environment and as the first process of new namespaces. An init
// function of this package sees the variable, does the work and exits, before
// main and before anything that main would do. So every program that is linked
// with this package can call Smoke, tests included, and needs no hook.
package criu
