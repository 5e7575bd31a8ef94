package scan

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
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
	if m.used != 9*slot || m.going != 0 || len(m.pool) != 0 {
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
	for m.going > 0 {
		m.room.Wait()
	}
	if m.used != 0 || len(m.usedBy) != 0 {
		t.Errorf("%d bytes are left, of %v", m.used, m.usedBy)
	}
}

// TestUsedMemoryIsWiped: what was read into memory that a user keeps is gone before it
// serves another scan, and what nobody has written to is left alone.
func TestUsedMemoryIsWiped(t *testing.T) {
	const size = 4 << 10
	var mu sync.Mutex
	m := newMemory(&Config{Lock: &mu, Forget: func(uint32) {}}, func(uint32) bool { return true })
	here := func() bool { return false }
	equipped := func(slots int) *slotPool {
		t.Helper()
		r := newSlotPool(&m, 1)
		if err := r.equip(size, slots, here); err != nil {
			t.Fatal(err)
		}
		return &r
	}
	first := equipped(5)
	a := first.arena
	mu.Lock()
	slots := first.takeSome(4)
	slots[3].input = &input{} // dealt in place
	for _, s := range slots[:3] {
		copy(s.bytes(), "secret")
	}
	mu.Unlock()
	first.drop(slots)
	mu.Lock()
	first.end()
	mu.Unlock()
	if a.used != 3*size {
		t.Errorf("%d bytes are taken for used, want %d", a.used, 3*size)
	}
	second := equipped(2)
	if second.arena != a {
		t.Fatal("the memory was not kept")
	}
	if i := bytes.Index(a.mem, []byte("secret")); i >= 0 {
		t.Errorf("what was read before is still there, at byte %d", i)
	}
	mu.Lock()
	defer mu.Unlock()
	second.end()
}

// TestShortOfMemory: who needs memory waits while there are no descriptors for it.
func TestShortOfMemory(t *testing.T) {
	var mu sync.Mutex
	var said bytes.Buffer
	m := newMemory(&Config{Lock: &mu, Forget: func(uint32) {}, Log: slog.New(slog.NewTextHandler(&said, nil))}, func(uint32) bool { return false })
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	looked := 0
	mu.Lock()
	defer mu.Unlock()
	got := make(chan error)
	go func() {
		mu.Lock()
		defer mu.Unlock()
		a, err := m.takeArena(4<<10, 4, 1, func() bool { looked++; return false })
		if err == nil {
			m.dropArena(a)
		}
		got <- err
	}()
	for said.Len() == 0 {
		mu.Unlock()
		select {
		case err := <-got:
			t.Fatal(err)
		default:
		}
		mu.Lock()
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	m.room.Broadcast()
	mu.Unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
	mu.Lock()
	for m.going > 0 {
		m.room.Wait()
	}
	if looked != 2 {
		t.Errorf("it has looked %d times", looked)
	}
}
