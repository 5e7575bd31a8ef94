package solo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"headrace"
	"headrace/serve"
	"headrace/tasklog"
	"headrace/wire"
)

const (
	logChunk  = 64 << 10
	followGap = 100 * time.Millisecond
)

// Logs sends what the daemon keeps of a task's output.
func (s *service) Logs(ctx context.Context, q *wire.LogsRequest, stream *connect.ServerStream[wire.LogChunk]) error {
	by := serve.CallerOf(ctx)
	id := headrace.TaskID(q.Id)
	snap, ok := s.board.get(id, by.Viewer())
	if !ok {
		return notFound(q.Id)
	}
	if snap.output != "" {
		return fmt.Errorf("%w: the output of task %s goes to %s; read it there", serve.ErrState, id, snap.output)
	}
	logs, err := s.logsOf(id, q)
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range logs {
			l.close()
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
		snap, there := s.board.get(id, by)
		ended := !there || snap.rec.State.Final()
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
	out := &logReader{path: stdout, stream: wire.Stream_STREAM_STDOUT, from: q.StdoutFrom, tail: q.Tail}
	errs := &logReader{path: stderr, stream: wire.Stream_STREAM_STDERR, from: q.StderrFrom, tail: q.Tail}
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

// logReader reads one log as it grows, from its beginning, or from an offset, or from
// its last lines. A log may be cut back or made anew when its task starts over; then
// what is new is read.
type logReader struct {
	path   string
	stream wire.Stream
	from   *int64  // nil when it has counted
	tail   *uint32 // so has this
	file   *os.File
	offset int64
	buf    []byte
}

func (l *logReader) close() {
	if l.file != nil {
		l.file.Close()
	}
}

// send sends what is there and has not been sent.
func (l *logReader) send(ctx context.Context, stream *connect.ServerStream[wire.LogChunk]) error {
	if err := l.open(); err != nil {
		return err
	}
	if err := l.begin(ctx, stream); err != nil || l.file == nil {
		return err
	}
	if l.buf == nil {
		l.buf = make([]byte, logChunk)
	}
	for ctx.Err() == nil {
		// What was dropped of a log that got too large is a hole.
		from, to, err := tasklog.Data(l.file, l.offset)
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		l.offset = from
		n, err := l.file.ReadAt(l.buf[:min(int64(len(l.buf)), to-from)], from)
		if n > 0 {
			l.offset += int64(n)
			chunk := &wire.LogChunk{Data: l.buf[:n], Stream: l.stream, Offset: from}
			if err := stream.Send(chunk); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
	}
	return context.Cause(ctx)
}

// begin finds where to begin, the first time. That is the beginning of a log that is
// not there yet.
func (l *logReader) begin(ctx context.Context, stream *connect.ServerStream[wire.LogChunk]) error {
	from, tail := l.from, l.tail
	l.from, l.tail = nil, nil
	if from == nil && tail == nil {
		return nil
	}
	if l.file != nil {
		size, err := l.file.Seek(0, io.SeekEnd)
		if from != nil {
			l.offset = min(*from, size)
		} else if err == nil {
			l.offset, err = tasklog.Tail(ctx, l.file, *tail)
		}
		if err != nil {
			return fmt.Errorf("look for the end of the log: %w", err)
		}
	}
	return stream.Send(&wire.LogChunk{Stream: l.stream, Offset: l.offset})
}

// open makes file the file that has the name now; none is no error.
func (l *logReader) open() error {
	var st unix.Stat_t
	err := unix.Lstat(l.path, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the log: %w", err)
	}
	if l.file != nil {
		var have unix.Stat_t
		if err := unix.Fstat(int(l.file.Fd()), &have); err != nil {
			return fmt.Errorf("look at the log: %w", err)
		}
		if have.Ino == st.Ino && have.Dev == st.Dev {
			l.offset = min(l.offset, st.Size)
			return nil
		}
		l.file.Close()
		l.file, l.offset = nil, 0
	}
	// The file belongs to the task's user: it must not lead elsewhere.
	fd, err := unix.Open(l.path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	l.file = os.NewFile(uintptr(fd), l.path)
	return nil
}
