package scan

import (
	"sync"
	"testing"
)

// TestMemory: who would have more than there is waits, but everybody gets a share; what
// nobody uses is given up first, and who is gone does not wait.
func TestMemory(t *testing.T) {
	const slot = 4 << 10
	var mu sync.Mutex
	m := newMemory(&Config{Lock: &mu, Forget: func(uint32) {}, Memory: 10 * slot, Share: 4 * slot}, func(uid uint32) bool { return uid == 1 })
	mu.Lock()
	defer mu.Unlock()
	here := func() bool { return false }
	take := func(n int, uid uint32) *arena {
		t.Helper()
		a, err := m.takeArena(slot, n, uid, here)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	kept := take(6, 1)
	m.putArena(kept) // for this user, who has streams
	if again := take(5, 1); again != kept {
		t.Error("memory that is kept for a user was not used")
	}
	m.putArena(kept)
	large := take(9, 2) // for which that is given up
	if m.used != 9*slot || len(m.pool) != 0 {
		t.Errorf("%d bytes are used, %d are kept", m.used, len(m.pool))
	}
	small := take(4, 1) // the share
	if _, err := m.takeArena(slot, 5, 1, func() bool { return true }); err != errEnded {
		t.Errorf("who is gone: %v", err)
	}
	got := make(chan *arena)
	looked := 0
	go func() {
		mu.Lock()
		defer mu.Unlock()
		a, err := m.takeArena(slot, 100, 1, func() bool { looked++; return false })
		if err != nil || a.n != 10 {
			t.Errorf("%+v, %v", a, err)
		}
		got <- a
	}()
	for looked == 0 {
		mu.Unlock()
		mu.Lock()
	}
	m.dropArena(large)
	for looked < 2 { // there is still not enough
		mu.Unlock()
		mu.Lock()
	}
	m.dropArena(small)
	mu.Unlock()
	a := <-got
	mu.Lock()
	m.dropArena(a)
	if m.used != 0 || len(m.usedBy) != 0 {
		t.Errorf("%d bytes are left, of %v", m.used, m.usedBy)
	}
}
