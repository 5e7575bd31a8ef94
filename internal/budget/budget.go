package budget

import (
	"fmt"
	"os"
	"sync"
)

// Budget is how much of something each user may have at a time. It is safe for
// concurrent use.
type Budget struct {
	what         string
	each, others int64
	ordinary     bool // the privileged are not limited

	mu   sync.Mutex
	used map[uint32]int64
	all  int64 // that of all users but the privileged
}

// New makes a budget. What is counted, such as "open connections", is for
// refusals. Each is for one user; others for all together but root and the
// daemon's own user, who are limited by each alone: nobody can take their part.
func New(what string, each, others int64) *Budget {
	return &Budget{what: what, each: each, others: others, used: map[uint32]int64{}}
}

// Ordinary makes a budget by which root and the daemon's own user are not limited.
func Ordinary(what string, each, others int64) *Budget {
	b := New(what, each, others)
	b.ordinary = true
	return b
}

// free tells whether a user is not limited.
func (b *Budget) free(uid uint32) bool { return b.ordinary && Privileged(uid) }

// Privileged tells whether a user has a part that others cannot take: root, and the
// user that the daemon runs as.
func Privileged(uid uint32) bool { return uid == 0 || uid == uint32(os.Geteuid()) }

// Refusal says which limit was reached.
type Refusal struct {
	What  string
	Limit int64
	// All: it is the one of all users together.
	All bool
}

func (r *Refusal) Error() string {
	if r.All {
		return fmt.Sprintf("all users together have %d %s, as many as are kept for them; try again soon, or ask root to see whose they are", r.Limit, r.What)
	}
	return fmt.Sprintf("you have %d %s, as many as one user may; end some and try again (root is not held up by it)", r.Limit, r.What)
}

// Take takes n for a user, or nothing and says why not: the error is a *Refusal.
func (b *Budget) Take(uid uint32, n int64) error {
	if b.free(uid) {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used[uid]+n > b.each {
		return &Refusal{What: b.what, Limit: b.each}
	}
	if !Privileged(uid) {
		if b.all+n > b.others {
			return &Refusal{What: b.what, Limit: b.others, All: true}
		}
		b.all += n
	}
	b.used[uid] += n
	return nil
}

// Give gives back what was taken.
func (b *Budget) Give(uid uint32, n int64) {
	if b.free(uid) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used[uid] -= n; b.used[uid] == 0 {
		delete(b.used, uid)
	}
	if !Privileged(uid) {
		b.all -= n
	}
}

// Users returns how many have something.
func (b *Budget) Users() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.used)
}
