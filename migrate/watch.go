package migrate

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
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
	if err == nil {
		err = m.sweepEnded(ctx, at, &swept, log)
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

// mostSwept is how many entries that wait are looked at, and how many removed, in one round for their applications: all
// machines of a cluster do the same. Tests make it smaller.
var mostSwept = 200

// mostAsked is about how many applications is asked in one round.
const mostAsked = 10_000

// sweepEnded removes what waits for applications that have ended for good. What somebody has claimed meanwhile stays: it is
// offered again or used up. Only a scheduler can tell that an application is not attempted again; what it does not tell of waits
// as long as Ages say. An entry that is not readable waits as well.
func (m *Mover) sweepEnded(ctx context.Context, at *Archive, s *Swept, log *slog.Logger) error {
	if m.Ended == nil {
		return nil
	}
	ready, err := at.names(ctx, Ready)
	if err != nil {
		return err
	}
	// Those that cannot be read must not take the looks of others for ever.
	rand.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
	known, looks := map[string]string{}, 0
	waiting := map[string][]Entry{} // by application
	for _, e := range ready {
		app, ok := m.applications[e.ID]
		if !ok && looks < mostSwept {
			looks++
			of, err := at.manifest(ctx, e)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil {
				app = of.App
			}
			ok = err == nil || errors.Is(err, ErrForged) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion)
		}
		if ok {
			known[e.ID] = app
		}
		if app != "" && (len(waiting[app]) > 0 || len(waiting) < mostAsked) {
			waiting[app] = append(waiting[app], e)
		}
	}
	m.applications = known
	if len(waiting) == 0 {
		return nil
	}
	ended, err := m.Ended(ctx, slices.Sorted(maps.Keys(waiting)))
	if err != nil { // nothing is wrong with the archive
		log.Debug("which applications have ended is not known", "err", err)
		return nil
	}
	removed := 0
	for _, app := range ended {
		for _, e := range waiting[app] {
			if removed++; removed > mostSwept {
				return nil
			}
			if err := at.sweepOne(ctx, e, s); err != nil {
				return err
			}
		}
	}
	return nil
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
