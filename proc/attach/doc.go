// Package attach runs a command as a task of the daemon for a process that stays
// in its place. `headrace-shim attach -socket S -id ID -- COMMAND` is to its own
// parent what the command would be: it ends when the command ends, with its exit
// code, passes signals on, and when it is killed no process of the command is left.
// When the daemon is not there, refuses or is slow, attach becomes the command
// itself. The one difference: as a task the command has no standard input.
//
// # Request
//
// Attach connects to the daemon's socket (a unix stream socket) and sends one
// frame: four bytes of length, the highest first, and a Request in JSON. With the
// first byte come descriptors (SCM_RIGHTS): one end of a pair of connected unix
// stream sockets, the lifeline; then standard output and standard error, if they
// are anonymous pipes. The daemon reads it with Receive and starts the task with
// proc.Runtime.StartWith. It sends one frame with a Reply, an error when it does
// not run the command, and closes the connection.
//
// # Lifeline
//
// The other ends are attach and the task's supervisor, who need nobody else from
// then on. Each sends lines of JSON, a Message:
//
//	supervisor           attach
//	{"ready":true}  ->               nothing runs yet
//	                <-   {"go":true}    with "saved":true when it asks for another supervisor
//	                <-   {"signal":15}   any number, for the command's process group
//	{"saved":true}  ->               a checkpoint is about to count
//	{"saved":false} ->               it does not, or the command runs again
//	{"exit":3}      ->               the task has ended
//
// The supervisor waits for go before it starts the command (GoTimeout), attach for
// ready before it gives up (DefaultTimeout). Until it has sent go attach may close
// the lifeline and run the command itself; afterwards never. So the command runs
// once, whoever dies when.
//
// When the supervisor reads the end of the lifeline, attach has gone: it ends the
// task at once (proc.Exit.Abandoned). When attach reads the end without an exit,
// the supervisor has gone and the task with it: attach exits with code 137. Only if a
// checkpoint may be all that there is of it, attach asks the daemon for another supervisor
// first, for up to a minute (Request.Again), with a lifeline of its own. The
// supervisor keeps the lifeline while the task is checkpointed, and with it signals
// that came meanwhile; HUP, INT and TERM end a task that is checkpointed.
//
// The kernel tells attach the supervisor's pid with the line ready
// (SCM_CREDENTIALS). Attach then executes itself again as
//
//	headrace-shim attached -shim-pid PID -id ID -fd FD -socket S -- COMMAND
//
// so that its command line in /proc tells those who measure process trees where
// the command's processes are: below the supervisor.
package attach
