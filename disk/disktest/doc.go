// Package disktest has stand-ins for devices, for tests: the files from which
// disk.Devices learns of them, a modelled head for readers that take turns, and
// loop devices of the test's own.
package disktest
