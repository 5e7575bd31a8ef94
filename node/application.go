package node

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"connectrpc.com/connect"

	"headrace/internal/budget"
	"headrace/wire"
)

// applications are the last answers of the manager about the containers of applications that
// have some. Each question is asked by one caller of an account at a time, who holds one of the account's places and one of
// the turns; a manager that is slow to answer one does not keep the others from theirs. Nobody waits for a question that
// another account asks, which may wait for the places of that.
type applications struct {
	places budget.Slots[string] // by account
	turn   chan struct{}
	told   told

	mu     sync.Mutex
	all    map[question]answer
	asking map[attempt]chan struct{} // closed when it is over
	failed time.Time                 // the last attempt that has
	err    error                     // of the last attempt
}

// question is what is asked of an application.
type question struct {
	application string
	aside       bool // without containers that only run
}

// attempt is a question that an account has asked.
type attempt struct {
	user string
	question
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
	// mostAsking is how many questions the manager has of this machine at a time, mostOfOne how many of these of one account.
	mostAsking, mostOfOne = 8, mostAsking / 2
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
// asks at most once a second about each that has some, for all callers, and tells what it knows when ctx ends. Whatever the
// account of user asks, others' questions have their turn. While the manager cannot be
// reached, what it said last counts for as long as containers stay put aside without it: an application
// master is not to take them for dead meanwhile. Some minutes after that answer an error comes with
// it, and at last alone. The result is not to be changed.
func (a *Agent) Application(ctx context.Context, user, scheduler, application string, aside bool) ([]*wire.Container, error) {
	all, err := a.containers(ctx, attempt{user, question{application, aside}})
	var ours []*wire.Container
	for _, c := range all {
		if c.Hosting.GetScheduler() == scheduler && c.Hosting.GetApplication() == application {
			ours = append(ours, c)
		}
	}
	return ours, err
}

// Ended returns those of some applications that have ended for good, as far as the manager knows; an older manager tells of none.
func (a *Agent) Ended(ctx context.Context, applications []string) ([]string, error) {
	call, cancel := context.WithTimeout(ctx, a.cfg.timing.call)
	defer cancel()
	res, err := a.client.Ended(call, &wire.EndedRequest{Applications: applications})
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		return nil, nil
	}
	return res.GetApplications(), err
}

func (a *Agent) containers(ctx context.Context, q attempt) ([]*wire.Container, error) {
	s := &a.apps
	wait, cancel := context.WithTimeout(ctx, a.cfg.timing.call)
	defer cancel()
	for wait.Err() == nil {
		other, due := s.begin(q, a.cfg.timing.fresh)
		if !due {
			break
		}
		if other == nil {
			s.ask(wait, a, q)
			break
		}
		select { // then it is asked again if the other has given up
		case <-other:
		case <-wait.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, err := s.all[q.question], s.err
	age := time.Since(known.at)
	if err == nil && age >= a.cfg.timing.fresh {
		err = wait.Err()
	}
	if err == nil || age <= a.cfg.timing.stale {
		return known.containers, nil
	}
	if limit := a.asideFor(); limit > 0 && age > limit {
		known.containers = nil
	}
	return known.containers, fmt.Errorf("nothing new is known of containers on other machines: %w", err)
}

// begin returns whether the manager is to be asked, and who of that account is asking it already; with nil it is the caller who
// does, by ask.
func (s *applications) begin(q attempt, fresh time.Duration) (other chan struct{}, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.all[q.question]; ok {
		known.wanted = time.Now()
		s.all[q.question] = known
	}
	if !s.due(q.question, fresh) {
		return nil, false
	}
	if other = s.asking[q]; other == nil {
		s.asking[q] = make(chan struct{})
	}
	return other, true
}

// due tells whether the manager is to be asked; mu must be held.
func (s *applications) due(q question, fresh time.Duration) bool {
	return time.Since(s.all[q].at) >= fresh && time.Since(s.failed) >= fresh
}

// ask asks the manager when it is its turn, unless ctx ends or somebody else has an answer before. The answer counts although ctx
// ends during the call: it would be asked for again.
func (s *applications) ask(ctx context.Context, a *Agent, q attempt) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.asking[q])
		delete(s.asking, q)
	}()
	end, err := s.places.Begin(ctx, q.user)
	if err != nil {
		return
	}
	defer end()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return
	}
	s.mu.Lock()
	due := s.due(q.question, a.cfg.timing.fresh)
	s.mu.Unlock()
	if !due {
		return
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.timing.call)
	defer cancel()
	res, err := a.client.Containers(call, &wire.ContainersRequest{Application: q.application, Aside: q.aside})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	now := time.Now()
	if err != nil {
		s.failed = now
		return
	}
	maps.DeleteFunc(s.all, func(_ question, known answer) bool { return now.Sub(known.wanted) > a.cfg.timing.stale })
	delete(s.all, q.question)
	if len(res.Containers) > 0 || len(s.all) < mostNames && len(q.application) <= wire.MaxName {
		s.all[q.question] = answer{containers: res.Containers, at: now, wanted: now}
	}
}
