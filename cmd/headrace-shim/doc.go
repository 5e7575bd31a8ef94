// Headrace-shim supervises the processes of one task (package proc/shim). As
// headrace-shim attach it has a command run as a task and stays in its place
// (package proc/attach), and as headrace-shim consume it feeds a task's command from
// a stream (package stream/consumer).
package main
