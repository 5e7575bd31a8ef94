package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"headrace/wire"
)

// applications are the last answers of the manager about the containers of applications that
// have some. turn, with a capacity of 1, is held by whoever uses it.
type applications struct {
	turn   chan struct{}
	all    map[string]answer
	failed time.Time // the last attempt that has
	err    error     // of the last attempt
	told   told
}

// answer is what the manager has said of one application.
type answer struct {
	containers []*wire.Container
	at         time.Time
	wanted     time.Time // somebody has asked about it
}

// told is what applications have told of the progress of their containers. Safe for
// concurrent use.
type told struct {
	mu  sync.Mutex
	all map[string]*wire.ContainerProgress
}

// mostProgress is how much is kept for one report; a manager takes no more.
const mostProgress = 20_000

// Progress passes on how far containers of a user are, with the next report. What that
// does not reach is lost: applications tell it again and again.
func (a *Agent) Progress(user string, shares map[string]float64) {
	t := &a.apps.told
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[string]*wire.ContainerProgress{}
	}
	for container, share := range shares {
		if len(t.all) < mostProgress {
			t.all[container] = &wire.ContainerProgress{Container: container, User: user, Share: share}
		}
	}
}

// take returns what was told since the last call.
func (t *told) take() []*wire.ContainerProgress {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Collect(maps.Values(t.all))
	t.all = nil
	return all
}

// Application returns what the manager knows of the containers of an application. It
// asks at most once a second about each that has some, for all callers. While the manager cannot be
// reached, what it said last counts for as long as containers stay put aside without it: an application
// master is not to take them for dead meanwhile. Some minutes after that answer an error comes with
// it, and at last alone. The result is not to be changed.
func (a *Agent) Application(ctx context.Context, scheduler, application string) ([]*wire.Container, error) {
	all, err := a.containers(ctx, application)
	var ours []*wire.Container
	for _, c := range all {
		if c.Hosting.GetScheduler() == scheduler && c.Hosting.GetApplication() == application {
			ours = append(ours, c)
		}
	}
	return ours, err
}

func (a *Agent) containers(ctx context.Context, application string) ([]*wire.Container, error) {
	s, timing := &a.apps, &a.cfg.timing
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now := time.Now()
	if known, ok := s.all[application]; ok {
		known.wanted = now
		s.all[application] = known
	}
	if now.Sub(s.all[application].at) >= timing.fresh && now.Sub(s.failed) >= timing.fresh {
		s.ask(ctx, a, application)
	}
	known := s.all[application]
	age := time.Since(known.at)
	if s.err == nil || age <= timing.stale {
		return known.containers, nil
	}
	if limit := a.asideFor(); limit > 0 && age > limit {
		known.containers = nil
	}
	return known.containers, fmt.Errorf("nothing new is known of containers on other machines: %w", s.err)
}

func (s *applications) ask(ctx context.Context, a *Agent, application string) {
	call, cancel := context.WithTimeout(ctx, a.cfg.timing.call)
	defer cancel()
	res, err := a.client.Containers(call, &wire.ContainersRequest{Application: application})
	s.err = err
	switch now := time.Now(); {
	case err != nil && ctx.Err() != nil: // it was the caller who gave up: the next one asks again
	case err != nil:
		s.failed = now
	default:
		maps.DeleteFunc(s.all, func(_ string, known answer) bool { return now.Sub(known.wanted) > a.cfg.timing.stale })
		if delete(s.all, application); len(res.Containers) > 0 { // else the name may be anything
			s.all[application] = answer{containers: res.Containers, at: now, wanted: now}
		}
	}
}
