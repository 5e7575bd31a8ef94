// Command headrace runs commands by priority on one machine and preempts them
// without losing their work.
//
//	headrace solo &                          the daemon
//	headrace run --priority low -- make all  accept a task; prints its id
//	headrace ps                              what there is
//	headrace --help                          everything else
//
// # Exit codes
//
//	0    done
//	1    it failed
//	2    it was called wrongly: an unknown flag, a value out of range
//	3    no daemon listens
//	4    no such task, or several of that name
//	5    a container waits until its scheduler has room for it
//	130  interrupted
//
// headrace wait and headrace run --wait end with the task's exit code, or
// 128 + the signal that ended it, instead. headrace doctor ends with 1 when the
// machine lacks something.
//
// # Output
//
// Results are on standard output, everything else (errors, hints, the daemon's
// log) on standard error. --format json, before or after the verb, turns the
// results of run, ps, top, show, warm, cache, disks, cluster, cluster jobs, doctor,
// version, sim, trace describe, dfs status, ring, ls, fsck, drain, fill, remove and raise, and of
// the verbs that change a task into JSON: the messages of wire/headrace.proto as the
// daemon itself speaks them, where it is asked. Verbs that have none refuse it. The flag is not called --output because run --output FILE is where the
// task writes. An error is one line that says what to do next. There are
// colours only on a terminal, and none with NO_COLOR.
//
// # Layout
//
// Package cli starts root.go, ends with the exit codes and has what the programs
// share. root.go holds the global flags and wires the verbs; each verb has a file of
// its own, and those of traces, of the simulator and of the file system have packages:
// traces, simulate, filesystem. daemon.go is the connection and finds tasks by name,
// follow.go outlasts restarts of the daemon, input.go reads the flags about what a task
// reads, runwait.go waits for several tasks, values.go reads flags, tools.go finds the
// programs that the daemon needs. Package settings reads a daemon's file, split how an
// input is dealt, token the secret of a cluster; jsonout, outfile and lines write,
// screen shows frames on a terminal.
//
// testdata/script runs against a fake daemon (TestScript), testdata/alone without
// one (TestScriptAlone), testdata/real against the real one with real tasks
// (TestReal); go test -update rewrites the golden output.
package main
