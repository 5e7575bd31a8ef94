// Package shim is the supervisor of one task. Its program, headrace-shim, plays several parts (and for
// packages attach and consumer those of attached tasks and of a stream's reading end):
//
//	headrace-shim supervise   owns the task: logs, exit code, accounting; pid 1
//	                          of the task's pid namespace; answers the daemon
//	headrace-shim init        the root of the dumped tree: session leader, reaper
//	headrace-shim exec        sets limits, becomes the user, opens the user's
//	                          files, and becomes the command
//	headrace-shim in-cgroups  becomes a program, CRIU for one, in the cgroups of
//	                          a task
//	headrace-shim dump        runs CRIU and the page server for one checkpoint, so
//	                          that nothing that goes wrong there can end the task
//	headrace-shim take-locks  has restored processes take locks again that a restore has lost
//	headrace-shim swap-probe  measures swap with memory of its own
//
// Inside the supervisor, from the bottom: processes are those of the task, and their
// cgroup; life is what is known of the task, up to the record of its end; an operation
// is what is done, one at a time, and called off by a kill; the stopper stops and
// continues, and a halt is one stop: SIGTSTP and a grace for those that handle it, then
// SIGSTOP; one dump and one restoration run CRIU, and end it when it makes no progress;
// task is all of these, and the supervisor itself only answers the daemon.
//
// The supervisor takes no decisions. It does one operation on its tree at a
// time; a kill interrupts a dump. That of an attached task (package attach) asks
// before it starts the command, passes signals on, and ends the task when whoever
// it is attached to has gone.
package shim
