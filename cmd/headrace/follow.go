package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"headrace"
	"headrace/cli"
	"headrace/wire"
	"headrace/wire/convert"
)

// errSevered: a stream ended although the task has not.
var errSevered = errors.New("the daemon ended the connection")

// follower waits for tasks and reads their logs. Since tasks outlive the
// daemon, it outlasts a restart of it.
type follower struct {
	*daemon
	// patience is how long the daemon may be away.
	patience cli.Span
	say      func(format string, args ...any)
}

func patienceFlag(cmd *cobra.Command, patience *cli.Span) {
	*patience = cli.Span(30 * time.Second)
	cmd.Flags().Var(patience, "reconnect", "how long to wait for a daemon that goes away")
}

// keep calls once until it succeeds or fails for another reason than that the
// daemon is away, or has so much of this user's under way that it refuses more for now: that
// may go on for as long as it likes. Once calls alive when it hears from the daemon.
func (f *follower) keep(ctx context.Context, once func(alive func()) error) error {
	var pause pauses
	var lost time.Time
	refused, said := false, false
	alive := func() { lost, pause, refused, said = time.Time{}, 0, false, false }
	for {
		err := once(alive)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case notNow(err):
			lost, said = time.Time{}, false
			if !refused {
				refused = true
				sayRefused(f.say, err)
			}
		case err == nil || !severed(err):
			return err
		case lost.IsZero(): // it may be back at once
			lost = time.Now()
		case !said:
			said = true
			why := "no answer from the daemon any more"
			if connect.IsWireError(err) { // it is somebody behind the daemon that is away
				why = err.Error()
			}
			f.say("%s; waiting up to %s for it to come back", why, time.Duration(f.patience))
		case time.Since(lost) > time.Duration(f.patience):
			if connect.IsWireError(err) {
				return err
			}
			return &wire.NoDaemonError{Socket: f.socket, Err: err}
		}
		if err := pause.wait(ctx); err != nil {
			return err
		}
	}
}

// severed reports whether err says that the connection broke rather than
// being the daemon's answer.
func severed(err error) bool {
	if errors.As(err, new(*cli.ExitError)) { // of this program: what came could not be written, say
		return false
	}
	if connect.CodeOf(err) == connect.CodeUnimplemented { // an old daemon's HTTP server, not its protocol
		return false
	}
	if errors.Is(err, errSevered) || !connect.IsWireError(err) {
		return true
	}
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeCanceled:
		return true
	}
	return false
}

// end waits until the task has ended and returns it.
func (f *follower) end(ctx context.Context, id string) (*wire.Task, error) {
	var last *wire.Task
	err := f.keep(ctx, func(alive func()) error {
		var err error
		last, err = f.endOnce(ctx, id, alive)
		return err
	})
	return last, err
}

func (f *follower) endOnce(ctx context.Context, id string, alive func()) (*wire.Task, error) {
	stream, err := f.Watch(ctx, &wire.WatchRequest{Id: id})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	for stream.Receive() {
		alive()
		for _, t := range stream.Msg().Tasks {
			if t.Id == id && ended(t) {
				return t, nil
			}
		}
		for _, gone := range stream.Msg().Forgotten {
			if gone == id {
				return nil, cli.Exit(cli.ExitNotFound, fmt.Errorf("task %s was forgotten", id))
			}
		}
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	return f.mustHaveEnded(ctx, id)
}

// mustHaveEnded checks when a stream that goes on as long as the task is over.
func (f *follower) mustHaveEnded(ctx context.Context, id string) (*wire.Task, error) {
	t, err := f.Get(ctx, &wire.GetRequest{Id: id})
	if err != nil {
		return nil, err
	}
	if !ended(t) {
		return nil, errSevered
	}
	return t, nil
}

// logs copies what the task has written, and what it writes to its end if that is to be followed. After a reconnection it
// goes on where it was: also whoever reads what is copied may have stood still for longer than the daemon waits. It
// changes req.
func (f *follower) logs(ctx context.Context, req *wire.LogsRequest, out, errOut io.Writer) error {
	return f.keep(ctx, func(alive func()) error {
		err := f.logsOnce(ctx, req, func(c *wire.LogChunk) error {
			alive()
			seen := c.Offset + int64(len(c.Data))
			if c.Stream == wire.Stream_STREAM_STDERR {
				req.StderrFrom, req.StderrLog = &seen, c.Log
			} else {
				req.StdoutFrom, req.StdoutLog = &seen, c.Log
			}
			return writeChunk(c.Stream, c.Data, req.Stream, out, errOut)
		})
		if err != nil || !req.Follow {
			return err
		}
		_, err = f.mustHaveEnded(ctx, req.Id)
		return err
	})
}

func (d *daemon) logsOnce(ctx context.Context, req *wire.LogsRequest, each func(*wire.LogChunk) error) error {
	stream, err := d.Logs(ctx, req)
	if err != nil {
		return err
	}
	defer stream.Close()
	for stream.Receive() {
		if err := each(stream.Msg()); err != nil {
			return cli.Exit(cli.ExitFailure, fmt.Errorf("write the log of %s: %w", req.Id, err))
		}
	}
	return stream.Err()
}

// writeChunk writes standard error to errOut, unless it was asked for alone.
func writeChunk(from wire.Stream, data []byte, which wire.Stream, out, errOut io.Writer) error {
	w := out
	if from == wire.Stream_STREAM_STDERR && which == wire.Stream_STREAM_BOTH {
		w = errOut
	}
	_, err := w.Write(data)
	return err
}

// exitOf returns what a shell would have as the task's exit code; never 0 for a task
// that did not end well.
func exitOf(t *wire.Task) int {
	switch {
	case convert.In(t, headrace.Done):
		return 0
	case t.ExitCode != 0:
		return int(t.ExitCode)
	case t.Signal != 0:
		return 128 + int(t.Signal)
	}
	return cli.ExitFailure
}

// verdict returns nil for a task that ended well, else an error with its exit code;
// what is not plain from the code is said.
func (a taskVerbs) verdict(t *wire.Task) error {
	code := exitOf(t)
	if code == 0 {
		return nil
	}
	if !convert.In(t, headrace.Failed) || t.Reason != "" {
		a.Say("task %s %s%s", t.Id, ending(convert.StateName(t)), because(t.Reason))
	}
	return cli.Exit(code, nil)
}

func ending(state string) string {
	if state == "failed" {
		return state
	}
	return "was " + state
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}
