// Package work has the workloads that the tasks of the experiments run as processes of
// their own (headrace-lab bench-task).
//
// They are deterministic: the last line of the output is a checksum of all that was
// computed, which is the same for the same flags. A preemption that corrupts a task is
// a failed run and not a fast one. A workload tells how much of it is done to the daemon,
// by marks to the experiment, and writes down what it has used.
package work
