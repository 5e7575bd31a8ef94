// Package swf reads the Standard Workload Format, in which the Parallel Workloads Archive has the logs of
// parallel machines, and which simulators of Slurm read. See docs/traces.md.
package swf
