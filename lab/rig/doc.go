// Package rig is what the experiments work with: temporary, real, and removed in the
// end, by the next run if need be.
//
//   - A Scratch is a directory with everything that the kernel holds for it: swap files,
//     loop devices, throttles, cgroups, mounts, processes. Its name has the process id.
//   - A Daemon is headrace solo in a process of its own with its own state directory,
//     spoken to over its socket. It runs jobs, whose answers are checked.
//   - A Store is a place for checkpoints of a measured speed; a Disk is one to read from,
//     modelled (package slowdisk) or a device, with counters.
//   - A Bench has all of these for one experiment.
//
// Times are taken by our own monotonic clock, from before the call that submits to the
// arrival of the event that tells of the end.
package rig
