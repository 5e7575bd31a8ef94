package node

import (
	"context"
	"time"

	"headrace/wire"
)

// applications is the last answer of the manager about containers. turn, with a
// capacity of 1, is held by whoever uses it.
type applications struct {
	turn  chan struct{}
	last  []*wire.Container
	at    time.Time // of last; zero: there is none
	tried time.Time
	err   error // of the last attempt
}

// Application is what the manager knows of the containers of an application. It asks
// at most once a second, for all callers. While the manager cannot be reached, what it
// said last counts for two minutes: an application master is not to take its
// containers for dead because a manager is started again. The result is not to be
// changed.
func (a *Agent) Application(ctx context.Context, scheduler, application string) ([]*wire.Container, error) {
	all, err := a.containers(ctx)
	if err != nil {
		return nil, err
	}
	var ours []*wire.Container
	for _, c := range all {
		if c.Hosting.GetScheduler() == scheduler && c.Hosting.GetApplication() == application {
			ours = append(ours, c)
		}
	}
	return ours, nil
}

func (a *Agent) containers(ctx context.Context) ([]*wire.Container, error) {
	s := &a.apps
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if time.Since(s.tried) >= a.cfg.timing.fresh {
		s.ask(ctx, a)
	}
	if s.err != nil && (s.at.IsZero() || time.Since(s.at) > a.cfg.timing.stale) {
		return nil, s.err
	}
	return s.last, nil
}

func (s *applications) ask(ctx context.Context, a *Agent) {
	call, cancel := context.WithTimeout(ctx, a.cfg.timing.call)
	defer cancel()
	res, err := a.client.Containers(call, &wire.ContainersRequest{})
	if ctx.Err() != nil && err != nil {
		s.err = err
		return // it was the caller who gave up: the next one asks again
	}
	s.tried, s.err = time.Now(), err
	if err == nil {
		s.last, s.at = res.Containers, s.tried
	}
}
