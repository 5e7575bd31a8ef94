package solo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"headrace/internal/crash"
	"headrace/proc"
)

// ledger writes to the journal, and waits while there is no room for that.
type ledger struct {
	journal
	dir string
	log *slog.Logger
	// full: the file system of the state directory is.
	full bool
}

// reserver is a journal that keeps space for bad times.
type reserver interface {
	keepReserve() bool
	spendReserve() bool
}

// write commits a batch. While the file system is full it waits: nothing may
// happen that is not recorded.
func (g *ledger) write(ctx context.Context, b batch) error {
	if b.empty() {
		return nil
	}
	crash.Here("solo.commit.before")
	for {
		err := g.commit(b)
		r, reserves := g.journal.(reserver)
		if err == nil {
			crash.Here("solo.commit.after")
			g.full = g.full && reserves // until the reserve is there again
			return nil
		}
		if !errors.Is(err, errNoSpace) {
			return fmt.Errorf("%w; the daemon stops, tasks run on and are found again when it is started", err)
		}
		g.full = true
		g.log.Error("the state directory is full: make room", "dir", g.dir, "err", err)
		if reserves && r.spendReserve() {
			continue
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return err
		}
	}
}

// keepReserve takes the reserve back once there is room for it.
func (g *ledger) keepReserve() {
	r, ok := g.journal.(reserver)
	if !ok {
		return
	}
	kept := r.keepReserve()
	if kept && g.full {
		g.log.Info("the state directory has room again")
	}
	g.full = !kept
}

// whole is the specification of a task with all that it needs to be started. It
// reads the journal and may be called from any goroutine.
func (g *ledger) whole(spec proc.Spec, stored bool) (proc.Spec, error) {
	if !stored {
		return spec, nil
	}
	var err error
	spec.Env, err = g.env(spec.ID)
	return spec, err
}
