// Package lab runs the experiments of the papers on preemption and on reading,
// and the demonstration, against the real daemon: one process of its own for each
// configuration, with its own state directory, spoken to over its socket.
//
// # Parts
//
//   - Task is what a task of an experiment runs: deterministic workloads whose
//     answers are checked after every run, so that a preemption that corrupts a
//     task is a failed run and not a fast one.
//   - The environment is real and temporary: a swap file, storage of a given
//     bandwidth, caches dropped where storage is what is measured. Everything it
//     makes carries the process id in its name; a later run removes what a
//     crashed one has left.
//   - Preempt runs the experiments: (a) light tasks (os-assisted-preemption,
//     figure 2), (b) both tasks with large dirty memory under a limit (figures 3
//     and 4), (c) two k-means jobs over storage bandwidths (checkpoint-preemption,
//     figures 4 and 6) and (d) a second checkpoint with a tenth of the memory
//     changed (table 3).
//   - Read, Warm and Order run those on reading: many readers of one disk (veloxdfs,
//     figures 1, 4, 5 and 8), a day of a cluster with its inputs cold, warmed and in
//     memory (ignem, section IV), and two jobs on the same data (quartet, section 5).
//     They read from a modelled hard disk (package slowdisk), or from a device.
//   - Sim runs those on simulated clusters (package sim): checkpoint-preemption's
//     figures 3 and 5, what warming and order gain, how fast the simulator is, and how
//     far it is off the daemon for the same small workload.
//   - Yarn runs those on a real YARN cluster (package lab/yarn), with its own
//     preemption and with Headrace's: a pair of jobs (os-assisted-preemption, section
//     IV) and a workload (checkpoint-preemption, figures 8 to 12).
//   - Results, ReaderResults, WarmResults, OrderResults, SimResults and YarnResults hold every single run. Tables, aims and the page are computed from
//     them and from nothing else, so that a report can be made again from the file.
//   - Read lets many readers read from one disk, with regions of their own and from
//     a stream (veloxdfs, figures 1, 4, 5 and 8, for one node), on a device of this
//     machine and on a modelled hard disk (package slowdisk). What the processes of
//     a run use is counted by a cgroup; every consumer counts the records that it
//     was given, and a record that is missing or was given twice is a failed run.
//   - Demo is the short version for people: real text, one policy after the other.
//
// # Measures
//
// The sojourn time of the urgent task is the time from its submission to its
// end, the makespan that from the submission of the low-priority task to the end
// of both (os-assisted-preemption, section IV-B). Both are taken by the client's
// monotonic clock, from before the call that submits to the arrival of the event
// that tells of the end. Policies are compared within one repeat, in which they
// run one after another in random order; a ratio is the median over the repeats
// of the ratios within each.
package lab
