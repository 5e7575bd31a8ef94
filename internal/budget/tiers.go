package budget

import (
	"errors"
	"fmt"
	"sync"
)

// ErrOver: a holder, its owner or all together would have too many. The text says which.
var ErrOver = errors.New("too many")

// Tiers bounds how many of something a holder may have, all holders of one owner together,
// and all together. 0: no bound. Not safe for concurrent use.
type Tiers struct {
	// What is counted, such as "blocks", for refusals.
	What             string
	Each, Owner, All int64

	owners map[string]int64
	all    int64
}

// Take takes n more for a holder that has had some, or nothing: the error is an ErrOver.
func (t *Tiers) Take(owner string, had, n int64) error {
	over := func(who string, has, most int64) error {
		return fmt.Errorf("%w %s: with %d more %s would have %d, and may have %d", ErrOver, t.What, n, who, has+n, most)
	}
	switch {
	case n <= 0:
	case t.Each > 0 && had+n > t.Each:
		return over("it", had, t.Each)
	case t.Owner > 0 && t.owners[owner]+n > t.Owner:
		return over("its owner "+owner, t.owners[owner], t.Owner)
	case t.All > 0 && t.all+n > t.All:
		return over("all together", t.all, t.All)
	}
	if t.owners == nil {
		t.owners = map[string]int64{}
	}
	if t.owners[owner] += n; t.owners[owner] == 0 {
		delete(t.owners, owner)
	}
	t.all += n
	return nil
}

// Give gives back what was taken.
func (t *Tiers) Give(owner string, n int64) { _ = t.Take(owner, 0, -n) }

// Taken returns what all have together, and how many owners have something.
func (t *Tiers) Taken() (all int64, owners int) { return t.all, len(t.owners) }

// SharedTiers are Tiers that are safe for concurrent use, of something of which a holder has
// all at once.
type SharedTiers struct {
	Tiers Tiers

	mu sync.Mutex
}

// Take takes n for an owner, or nothing: the error is an ErrOver.
func (t *SharedTiers) Take(owner string, n int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Tiers.Take(owner, 0, n)
}

// Give gives back what was taken.
func (t *SharedTiers) Give(owner string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Tiers.Give(owner, n)
}

// Taken returns what all have together, and how many owners have something.
func (t *SharedTiers) Taken() (all int64, owners int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Tiers.Taken()
}
