package migrate

import (
	"context"
	"log/slog"
	"time"
)

const (
	// sweepEvery is how often a node looks after what died machines have left in the
	// archive; sweepAgain how soon it looks again when it could not.
	sweepEvery = 5 * time.Minute
	sweepAgain = 30 * time.Second
)

// Watch sweeps the archive now and then until ctx ends, and knows whether it can be used.
func (m *Mover) Watch(ctx context.Context, log *slog.Logger) {
	for {
		pause := sweepEvery
		if m.Sweep(ctx, log) != nil {
			pause = sweepAgain
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// Sweep looks once after what died machines have left in the archive.
func (m *Mover) Sweep(ctx context.Context, log *slog.Logger) error {
	var swept Swept
	at, err := m.reach(ctx)
	if err == nil {
		swept, err = at.Sweep(ctx, Ages{})
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		m.leave(at)
	}
	m.note(err, log)
	if swept.Offered+swept.Removed > 0 {
		log.Info("left behind in the archive", "archive", m.Name, "offered again", swept.Offered, "removed", swept.Removed)
	}
	return err
}

// note writes one line when the archive cannot be used any more, and one when it can
// again.
func (m *Mover) note(err error, log *slog.Logger) {
	m.noted.Lock()
	defer m.noted.Unlock()
	before := m.problem
	m.problem = ""
	if err != nil {
		m.problem = err.Error()
	}
	switch {
	case before == "" && err != nil:
		log.Warn("the archive cannot be used; containers go on on their own machines only, and it is tried again", "archive", m.Name, "err", err)
	case before != "" && err == nil:
		log.Info("the archive can be used again", "archive", m.Name)
	}
}

// Problem tells why the archive could not be used when it was last looked at; empty when
// it could.
func (m *Mover) Problem() string {
	m.noted.Lock()
	defer m.noted.Unlock()
	return m.problem
}
