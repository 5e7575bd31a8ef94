// Package preempt is the experiments on preemption with tasks of one machine:
//
//   - (a) light tasks (os-assisted-preemption, figure 2),
//   - (b) both tasks with large dirty memory under a limit (figures 3 and 4),
//   - (c) two k-means jobs over storage bandwidths (checkpoint-preemption, figures 4
//     and 6),
//   - (d) a second checkpoint with a tenth of the memory changed (table 3).
//
// The sojourn time of the urgent task is the time from its submission to its end, the
// makespan that from the submission of the low-priority task to the end of both
// (os-assisted-preemption, section IV-B). Policies are compared within one repeat, in
// which they run one after another in random order.
//
// Results.Measurements is what the simulator needs to know of storage and mechanisms.
package preempt
