// Headrace-shim supervises the processes of one task; see package proc/shim.
package main
