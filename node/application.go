package node

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"headrace/wire"
)

// applications are the last answers of the manager about the containers of applications that
// have some. turn, with a capacity of 1, is held by whoever uses it.
type applications struct {
	turn   chan struct{}
	all    map[question]answer
	failed time.Time // the last attempt that has
	err    error     // of the last attempt
	told   told
}

// question is what is asked of an application.
type question struct {
	application string
	aside       bool // without containers that only run
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
	all map[string]map[string]float64 // by user and container
	n   int
}

const (
	// mostProgress is how much is kept for one report; a manager takes no more.
	mostProgress = 20_000
	// mostNames is how many names of applications are remembered that may be anything.
	mostNames = 1000
)

// Progress passes on how far containers are by the word of a user, with the next report; the manager
// believes it of the user's own. What that
// does not reach is lost: applications tell it again and again.
func (a *Agent) Progress(user string, shares map[string]float64) {
	t := &a.apps.told
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[string]map[string]float64{}
	}
	of := t.all[user]
	if of == nil {
		of = map[string]float64{}
		t.all[user] = of
	}
	for container, share := range shares {
		_, known := of[container]
		// Nobody takes more than half of what others leave, as only the manager can tell whose a container is.
		if known || len(of) < mostProgress-t.n && wire.CheckName("container", container) == nil {
			if !known {
				t.n++
			}
			of[container] = share
		}
	}
}

// take returns what was told since the last call.
func (t *told) take() []*wire.ContainerProgress {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*wire.ContainerProgress
	for user, of := range t.all {
		for container, share := range of {
			all = append(all, &wire.ContainerProgress{Container: container, User: user, Share: share})
		}
	}
	t.all, t.n = nil, 0
	return all
}

// Application returns what the manager knows of the containers of an application, or with aside of
// those that do not only run; an older manager tells of all. It
// asks at most once a second about each that has some, for all callers. While the manager cannot be
// reached, what it said last counts for as long as containers stay put aside without it: an application
// master is not to take them for dead meanwhile. Some minutes after that answer an error comes with
// it, and at last alone. The result is not to be changed.
func (a *Agent) Application(ctx context.Context, scheduler, application string, aside bool) ([]*wire.Container, error) {
	all, err := a.containers(ctx, question{application, aside})
	var ours []*wire.Container
	for _, c := range all {
		if c.Hosting.GetScheduler() == scheduler && c.Hosting.GetApplication() == application {
			ours = append(ours, c)
		}
	}
	return ours, err
}

func (a *Agent) containers(ctx context.Context, q question) ([]*wire.Container, error) {
	s, timing := &a.apps, &a.cfg.timing
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now := time.Now()
	if known, ok := s.all[q]; ok {
		known.wanted = now
		s.all[q] = known
	}
	if now.Sub(s.all[q].at) >= timing.fresh && now.Sub(s.failed) >= timing.fresh {
		s.ask(ctx, a, q)
	}
	known := s.all[q]
	age := time.Since(known.at)
	if s.err == nil || age <= timing.stale {
		return known.containers, nil
	}
	if limit := a.asideFor(); limit > 0 && age > limit {
		known.containers = nil
	}
	return known.containers, fmt.Errorf("nothing new is known of containers on other machines: %w", s.err)
}

func (s *applications) ask(ctx context.Context, a *Agent, q question) {
	call, cancel := context.WithTimeout(ctx, a.cfg.timing.call)
	defer cancel()
	res, err := a.client.Containers(call, &wire.ContainersRequest{Application: q.application, Aside: q.aside})
	s.err = err
	switch now := time.Now(); {
	case err != nil && ctx.Err() != nil: // it was the caller who gave up: the next one asks again
	case err != nil:
		s.failed = now
	default:
		maps.DeleteFunc(s.all, func(_ question, known answer) bool { return now.Sub(known.wanted) > a.cfg.timing.stale })
		delete(s.all, q)
		if len(res.Containers) > 0 || len(s.all) < mostNames && len(q.application) <= wire.MaxName {
			s.all[q] = answer{containers: res.Containers, at: now, wanted: now}
		}
	}
}
