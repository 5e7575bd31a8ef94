package budget

import (
	"context"
	"sync"
)

// Slots bounds how many of something each user has at a time; more of them wait.
// It is safe for concurrent use.
type Slots struct {
	// Most is how many one user may have, more than 0.
	Most int

	mu   sync.Mutex
	open map[uint32]*userSlots
}

// userSlots are those of one user.
type userSlots struct {
	taken chan struct{}
	users int // that have one or wait for one
}

// Begin waits for a slot, which end gives back.
func (s *Slots) Begin(ctx context.Context, uid uint32) (end func(), err error) {
	s.mu.Lock()
	p := s.open[uid]
	if p == nil {
		p = &userSlots{taken: make(chan struct{}, s.Most)}
		if s.open == nil {
			s.open = map[uint32]*userSlots{}
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

func (s *Slots) leave(uid uint32, p *userSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.users--; p.users == 0 {
		delete(s.open, uid)
	}
}
