// Package proc runs one task's process tree: an inert Spec, a live Task; start,
// suspend, resume, checkpoint, restore, kill, measure.
//
// # Processes
//
// Every task has a supervisor, headrace-shim, which outlives the daemon:
//
//	headrace-shim    pid 1 of a pid namespace of its own, private /proc
//	  init           session leader, reaper of the task's orphans
//	    command      the user's program, in a process group of its own
//
// CRIU is run by the shim inside the task's namespaces and dumps init and
// everything below it; the shim itself is never dumped. So getpid() agrees with
// /proc inside the task, a restored tree finds its pids free whatever else runs
// on the machine, and the kernel ends the whole tree if the shim is killed.
// After a checkpoint the shim stays, without processes, until the task is
// restored or thrown away; if it is gone (a reboot) a new one takes its place.
//
// Without root there are no namespaces: the shim is only the subreaper of the
// tree. Such a task can be suspended and killed, not checkpointed.
//
// A task may be attached to a process that stays where the command would be (Spec,
// Attached; package proc/attach): the two end together, and a checkpoint of such a
// task is restored by the shim that has taken it.
//
// # Files
//
// A task's directory holds its logs (stdout, stderr), the socket on which its
// shim listens (shim.sock), its progress file, and, once it has ended, how it
// ended (exit.json); begun says when its command was last about to be started or restored. The daemon keeps nothing else that it could not find again.
//
// All methods of Task are safe for concurrent use; operations on one task are
// carried out one after the other, in the order in which the shim got them.
package proc
