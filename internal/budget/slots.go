package budget

import (
	"context"
	"sync"
)

// Places bounds how many of something each user has at a time; more of them wait.
// It is safe for concurrent use.
type Places struct {
	// Most is how many one user may have, more than 0.
	Most int

	mu   sync.Mutex
	open map[uint32]*places
}

// places are those of one user.
type places struct {
	taken chan struct{}
	users int // that have one or wait for one
}

// Begin waits for a place, which end gives back.
func (s *Places) Begin(ctx context.Context, uid uint32) (end func(), err error) {
	s.mu.Lock()
	p := s.open[uid]
	if p == nil {
		p = &places{taken: make(chan struct{}, s.Most)}
		if s.open == nil {
			s.open = map[uint32]*places{}
		}
		s.open[uid] = p
	}
	p.users++
	s.mu.Unlock()
	select {
	case p.taken <- struct{}{}:
		return func() { <-p.taken; s.leave(uid, p) }, nil
	case <-ctx.Done():
		s.leave(uid, p)
		return nil, ctx.Err()
	}
}

func (s *Places) leave(uid uint32, p *places) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.users--; p.users == 0 {
		delete(s.open, uid)
	}
}
