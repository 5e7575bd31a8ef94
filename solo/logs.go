package solo

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/serve"
	"headrace/tasklog"
	"headrace/wire"
)

const followGap = 100 * time.Millisecond

// Logs sends what the daemon keeps of a task's output.
func (s *service) Logs(ctx context.Context, q *wire.LogsRequest, stream *connect.ServerStream[wire.LogChunk]) error {
	by := serve.CallerOf(ctx)
	id := headrace.TaskID(q.Id)
	snap, ok := s.board.Get(id, by.Viewer())
	if !ok {
		return notFound(q.Id)
	}
	if snap.Output != "" {
		return fmt.Errorf("%w: the output of task %s goes to %s; read it there", serve.ErrState, id, snap.Output)
	}
	logs, err := s.logsOf(id, q)
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range logs {
			l.Close()
		}
	}()
	return s.sendLogs(ctx, id, by.Viewer(), logs, q.Follow, stream)
}

func (s *service) sendLogs(ctx context.Context, id headrace.TaskID, by serve.Viewer, logs []*logReader, follow bool,
	stream *connect.ServerStream[wire.LogChunk]) error {
	again := time.NewTicker(followGap)
	defer again.Stop()
	for {
		// Whether it has ended is asked before reading, so that nothing which was
		// written before the end is missed.
		snap, there := s.board.Get(id, by)
		ended := !there || snap.Record.State.Final()
		for _, l := range logs {
			if err := l.send(ctx, stream); err != nil {
				return err
			}
		}
		if ended || !follow {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.loop.dead:
			return serve.ErrStopping
		}
	}
}

func (s *service) logsOf(id headrace.TaskID, q *wire.LogsRequest) ([]*logReader, error) {
	if q.GetStdoutFrom() < 0 || q.GetStderrFrom() < 0 {
		return nil, serve.Refusal("the offsets to go on from are below 0")
	}
	stdout, stderr := s.loop.rt.Logs(id)
	out := &logReader{tasklog.Reader{Path: stdout, From: q.StdoutFrom, FromLog: q.StdoutLog, Tail: q.Tail}, wire.Stream_STREAM_STDOUT}
	errs := &logReader{tasklog.Reader{Path: stderr, From: q.StderrFrom, FromLog: q.StderrLog, Tail: q.Tail}, wire.Stream_STREAM_STDERR}
	switch q.Stream {
	case wire.Stream_STREAM_BOTH:
		return []*logReader{out, errs}, nil
	case wire.Stream_STREAM_STDOUT:
		return []*logReader{out}, nil
	case wire.Stream_STREAM_STDERR:
		return []*logReader{errs}, nil
	}
	return nil, serve.Refusal("stream %d is unknown; give STREAM_BOTH, STREAM_STDOUT or STREAM_STDERR", q.Stream)
}

// logReader reads one log for a client.
type logReader struct {
	tasklog.Reader
	stream wire.Stream
}

// send sends what is there and has not been sent.
func (l *logReader) send(ctx context.Context, to *connect.ServerStream[wire.LogChunk]) error {
	return l.Read(ctx, func(data []byte, offset int64) error {
		return to.Send(&wire.LogChunk{Data: data, Stream: l.stream, Offset: offset, Log: l.ID()})
	})
}
