package solo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"headrace"
	"headrace/internal/crash"
	"headrace/proc"
	"headrace/serve"
	"headrace/solo/journal"
)

// recorder keeps records: a [journal.DB].
type recorder interface {
	Load() (journal.Contents, error)
	// Commit is atomic and durable when it returns nil.
	Commit(journal.Batch) error
	// Env returns the environment of a task that does not have it at hand (task.stored).
	// Unlike the others it may be called from any goroutine.
	Env(id headrace.TaskID) ([]string, error)
	Close() error
}

// ledger writes to the journal, and waits while there is no room for that.
type ledger struct {
	recorder
	dir string
	log *slog.Logger
	// madeMs is journal.Meta.MadeMs.
	madeMs int64
	// full: the file system of the state directory is. stuck: so full that the loop waits.
	full  bool
	stuck atomic.Bool
	// relieve, if set, makes room where that takes no record.
	relieve func()
	// unwanted are the tasks that were asked to be forgotten while the loop waits.
	mu       sync.Mutex
	unwanted []headrace.TaskID
}

// reserver is a journal that keeps space for bad times.
type reserver interface {
	KeepReserve() bool
	SpendReserve() bool
}

// write commits a batch. While the file system is full it waits: nothing may
// happen that is not recorded.
func (g *ledger) write(ctx context.Context, b journal.Batch) error {
	if b.Empty() {
		return nil
	}
	crash.Here("solo.commit.before")
	for {
		err := g.Commit(b)
		r, reserves := g.recorder.(reserver)
		if err == nil {
			crash.Here("solo.commit.after")
			g.stuck.Store(false)
			g.full = g.full && reserves // until the reserve is there again
			return nil
		}
		if !errors.Is(err, journal.ErrNoSpace) {
			return fmt.Errorf("%w; the daemon stops, tasks run on and are found again when it is started", err)
		}
		g.full = true
		g.log.Error("the state directory is full: make room", "dir", g.dir, "err", err)
		if reserves && r.SpendReserve() {
			continue
		}
		g.stuck.Store(true)
		if g.relieve != nil {
			g.relieve()
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return err
		}
	}
}

// stands is the error of calls that come while the loop waits for room. Root's that a task be forgotten waits with it: the
// logs of that go at once, and it may be these that take the room. It may be called from anywhere.
func (g *ledger) stands(c *call) error {
	if !g.stuck.Load() {
		return nil
	}
	if c.command == headrace.CommandForget && c.by.All {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.unwanted = append(g.unwanted, c.id)
		return nil
	}
	return fmt.Errorf("%w: the file system of %s is full, and what is done cannot be recorded; make room and ask again (root's headrace forget of tasks that have ended makes some)", serve.ErrBusy, g.dir)
}

// takeUnwanted hands over the tasks that were asked to be forgotten.
func (g *ledger) takeUnwanted() []headrace.TaskID {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.unwanted
	g.unwanted = nil
	return all
}

// keepReserve takes the reserve back once there is room for it.
func (g *ledger) keepReserve() {
	r, ok := g.recorder.(reserver)
	if !ok {
		return
	}
	kept := r.KeepReserve()
	if kept && g.full {
		g.log.Info("the state directory has room again")
	}
	g.full = !kept
}

// whole returns the specification of a task with all that it needs to be started. It
// reads the journal and may be called from any goroutine.
func (g *ledger) whole(spec proc.Spec, stored bool) (proc.Spec, error) {
	if !stored {
		return spec, nil
	}
	var err error
	spec.Env, err = g.Env(spec.ID)
	return spec, err
}
