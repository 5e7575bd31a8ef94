// Package request turns what clients of the daemon ask for into what is recorded and run: with defaults filled in, as
// whom the task runs decided, and with no better limits than its caller has. What cannot be is refused with what
// to do. It knows no tasks but the one that is asked for.
package request
