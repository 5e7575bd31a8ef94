// Package workload says what a workload is: tasks with what they ask for, how long they
// run and what they wait for, and what became of them. Readers of traces give tasks to a
// Sink; Gather makes a Workload of them.
package workload
