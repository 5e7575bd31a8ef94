package solo

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"headrace"
	"headrace/disk"
	"headrace/proc"
)

// move is a dump or restore that waits for its turn at the device of its store or has
// it.
type move struct {
	*disk.Reader
	expect time.Duration
	name   string
	log    *slog.Logger
}

// overdue is how long a dump or restore keeps its turn at least, beyond some times what
// was expected. Its supervisor ends what hangs; but somebody may have stopped that.
const overdue = 10 * time.Minute

// dumping registers the dump of so much memory.
func (s *store) dumping(id headrace.TaskID, dirty int64) *move {
	return s.move(disk.Dump, id, s.estimate(dirty))
}

// restoring registers the restore of a checkpoint of so many bytes.
func (s *store) restoring(id headrace.TaskID, bytes int64) *move {
	return s.move(disk.Restore, id, s.RestoreOverhead+transfer(bytes, s.Read))
}

func (s *store) move(c disk.Class, id headrace.TaskID, expect time.Duration) *move {
	name := fmt.Sprintf("%s of %s", c, id)
	return &move{s.disks.Move(s.on, c, name, expect), expect, name, s.disks.Log}
}

// inTurn does what m is when it is its turn. It gives up its place when the task is
// gone before that, or ctx ends. What takes far too long goes on, and others as well.
// Without a move, because the checkpoint lies in what is no store any more, there is no
// turn to wait for.
func (m *move) inTurn(ctx context.Context, gone <-chan struct{}, do func() (bytes int64, err error)) error {
	if m == nil {
		_, err := do()
		return err
	}
	defer m.Close()
	turn, err := m.await(ctx, gone)
	if err != nil {
		return err
	}
	late := time.AfterFunc(overdue+8*m.expect, func() {
		turn.End(0)
		if m.log != nil {
			m.log.Error("it takes far too long, and others go on beside it", "what", m.name, "expected", m.expect)
		}
	})
	defer late.Stop()
	bytes, err := do()
	turn.End(bytes)
	return err
}

func (m *move) await(ctx context.Context, gone <-chan struct{}) (*disk.Turn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	turn, err := m.Begin(ctx)
	select {
	case <-gone:
		if err != nil {
			err = fmt.Errorf("%w: it ended before it was its turn", proc.ErrGone)
		}
	default:
	}
	return turn, err
}
