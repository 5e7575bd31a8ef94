package solo

import (
	"context"
	"fmt"
	"time"

	"headrace"
	"headrace/disk"
	"headrace/proc"
	"headrace/solo/journal"
)

// serves returns for whom a task is dumped: users have equal shares of a device. It is who asks for it, else
// the owner of the task that is to have its room; what another scheduler orders is nobody's in particular.
func (o *operations) serves(t *task, in *journal.Intent, c *call) (uid uint32) {
	switch u := o.tasks.all[in.For]; {
	case c != nil && c.ordered:
		return 0
	case c != nil:
		return c.by.UID
	case u != nil:
		return u.rec.UID
	}
	return t.rec.UID
}

// dumping registers the dump of so many bytes, that is done for a user.
func (s *store) dumping(uid uint32, id headrace.TaskID, bytes int64) *disk.Reader {
	return s.move(uid, disk.Dump, id, s.estimate(bytes))
}

// restoring registers the restore of a checkpoint of so many bytes, of a task of a user.
func (s *store) restoring(uid uint32, id headrace.TaskID, bytes int64) *disk.Reader {
	return s.move(uid, disk.Restore, id, s.RestoreOverhead+transfer(bytes, s.Read))
}

func (s *store) move(uid uint32, c disk.Class, id headrace.TaskID, expect time.Duration) *disk.Reader {
	return s.disks.Move(uid, s.on, c, fmt.Sprintf("%s of %s", c, id), expect)
}

// inTurn does a dump or restore when it is its turn. It gives up its place when the task is
// gone before that, or ctx ends. What takes far too long goes on, and others as well.
// A move of nil, because the checkpoint lies in what is no store any more, has no
// turn to wait for.
func inTurn(ctx context.Context, move *disk.Reader, gone <-chan struct{}, do func() (bytes int64, err error)) error {
	if move == nil {
		_, err := do()
		return err
	}
	defer move.Close()
	turn, err := begin(ctx, move, gone)
	if err != nil {
		return err
	}
	bytes, err := do()
	turn.End(bytes)
	return err
}

// begin waits for the turn of a dump or restore, unless the task is gone before.
func begin(ctx context.Context, move *disk.Reader, gone <-chan struct{}) (*disk.Turn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	turn, err := move.Begin(ctx)
	select {
	case <-gone:
		if err != nil {
			err = fmt.Errorf("%w: it ended before it was its turn", proc.ErrGone)
		}
	default:
	}
	return turn, err
}
