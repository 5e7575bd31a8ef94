// Package sim runs the experiments on simulated clusters (headrace/sim): the figures of
// checkpoint-preemption, what warming and order gain, what cost does on work that nobody tuned
// on (package shapes), and how far the simulator is off the daemon for the same small workload.
package sim
