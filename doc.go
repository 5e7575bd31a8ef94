// Package headrace is the vocabulary that every layer shares: names of tasks,
// jobs and nodes, priorities, task states, the operations and commands that lead
// from one to another, the mechanisms of preemption, the View (what is known) and
// the Order (what to do).
//
// It holds plain values only: no I/O, no clock, no goroutines, and nothing but
// the standard library. Sizes are bytes, bandwidths are bytes per second and
// times are durations, unless a comment says otherwise. A View never holds a
// point in time, only how long something has lasted, so that a jump of the
// wall clock cannot change a decision and a simulator can use the same types.
package headrace
