// Package consumer is the reading end of a stream: the part of headrace-shim that
// runs a task's command on what it reads, and its client of the daemon's stream
// socket (package stream/protocol).
//
// # Client
//
// A Client is one attempt of one consumer of a stream. Next takes the next unit;
// its bytes are read progressively, from memory shared with the daemon or from the
// page cache. What has been read is reported as it goes. Finish ends the attempt, durably.
//
// A goroutine of the client keeps the connection. When the daemon goes away it
// comes back by itself, and goes on where it was, for it keeps the list of units
// and the position: whoever reads does not notice. Disconnect and Reconnect do
// the same on request, so that the process holds no socket, no shared memory and
// no input file meanwhile and can be checkpointed.
//
// # Runner
//
//	headrace-shim consume --socket S --stream ID --consumer I --attempt A -- COMMAND [ARG ...]
//
// Run is this program. For a stream of records it starts the command once and
// writes the units to its standard input; those that lie in a file are spliced. For a stream of files it runs the
// command once for each, with {} in its arguments replaced by the path, or the
// path as a last argument. It ends as the command does, once the daemon has
// recorded that; but a command that is told to end (SIGTERM) before it has read everything, and
// ends with 0, counts as ended by the signal: what lies in the pipe at its end was processed by nobody. A consumer of records for which nothing is left when it comes
// does not run the command, unless it is the first one.
//
// # Suspending and checkpointing the runner
//
// The supervisor of a task (package proc/shim) sends SIGTSTP to each process,
// waits a little for those that have a handler for it, sends SIGSTOP to what
// still runs, and SIGCONT to all to continue. The runner disconnects, which
// keeps the exact position, and then puts the default action of SIGTSTP back in
// place: the supervisor sees that there is no handler left to wait for, and stops
// the process. The runner does not stop itself: a SIGCONT that came between its
// last look and its own SIGSTOP would be lost, and it would stay stopped for good.
//
// Timers of the Go runtime are kept out of everything that has to go on after a
// checkpoint: a timer that was set before one belongs to the clock of a boot that
// may be over.
package consumer
