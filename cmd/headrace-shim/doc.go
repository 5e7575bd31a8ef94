// Headrace-shim supervises the processes of one task (package proc/shim), and
// as headrace-shim consume feeds its command from a stream (package
// stream/consumer).
package main
