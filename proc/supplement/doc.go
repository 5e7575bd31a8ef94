// Package supplement keeps beside CRIU's images what they lack of a stopped process
// tree, and gives it back to the restored tree before that runs:
//
//   - timerfds. CRIU saves how long a timer has to go, and one whose tick is unread
//     has nothing to go: a periodic one would never tick again. One that was set to
//     a moment would expire up to a second early, and once more if it had expired.
//     After a dump that takes long any other would, by as much as the dump took longer than the restore.
//   - the CPUs that a thread may use (taskset), its I/O priority (ionice) and timer
//     slack, and what a process leaves out of core dumps.
//   - whose the sockets are, which CRIU makes as root, those of their options that it does not know, and the multicast groups
//     that they have joined.
//
// Locks the images have, and a restore loses those on files that are mapped ([LostLocks]).
//
// A [Record] is made by [Take] when CRIU has dumped the tree and is kept with the image.
// [Record.PutBack] is called when CRIU has restored it. CRIU holds the tree then, both times, so that nobody
// can continue it. Both need the right to trace the processes.
package supplement
