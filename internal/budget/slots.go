package budget

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
)

// Slots bounds how many of something each user has at a time; more of them wait.
// It is safe for concurrent use.
type Slots[User comparable] struct {
	// Most is how many one user may have, more than 0; Waiting how many more of them may
	// wait, 0: any number.
	Most, Waiting int

	mu   sync.Mutex
	open map[User]*userSlots
}

// userSlots are those of one user.
type userSlots struct {
	taken chan struct{}
	users int // that have one or wait for one
}

// Begin waits for a slot, which end gives back. It fails with ErrOver where too many wait.
func (s *Slots[User]) Begin(ctx context.Context, user User) (end func(), err error) {
	s.mu.Lock()
	p := s.open[user]
	if p == nil {
		p = &userSlots{taken: make(chan struct{}, s.Most)}
		if s.open == nil {
			s.open = map[User]*userSlots{}
		}
		s.open[user] = p
	}
	if most := s.Most + cmp.Or(s.Waiting, math.MaxInt-s.Most); p.users >= most {
		s.mu.Unlock()
		return nil, fmt.Errorf("%w at a time: %d are under way or wait; try again when some have ended", ErrOver, most)
	}
	p.users++
	s.mu.Unlock()
	select {
	case p.taken <- struct{}{}:
		return func() { <-p.taken; s.leave(user, p) }, nil
	case <-ctx.Done():
		s.leave(user, p)
		return nil, ctx.Err()
	}
}

func (s *Slots[User]) leave(user User, p *userSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.users--; p.users == 0 {
		delete(s.open, user)
	}
}
