package store

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"headrace/disk"
)

// TestPromises: what dumps are to write is counted once, from when they were decided until a look shows it.
func TestPromises(t *testing.T) {
	now := time.Hour
	a, _ := newStores(t, func() time.Duration { return now })
	s, same, other := &Store{fs: 1, free: 1000}, &Store{fs: 1, free: 1000}, &Store{fs: 2, free: 1000}
	want := func(when string, room int64) {
		t.Helper()
		if got := a.Room(s); got != room || a.Room(same) != room || a.Room(other) != 1000 {
			t.Errorf("%s: room for %d, in another directory of the file system %d, elsewhere %d; want %d", when, got, a.Room(same), a.Room(other), room)
		}
	}
	look := func(free int64) {
		now += time.Second
		s.lookedAt, s.free, same.free = now, free, free
		a.seen(s)
	}
	one, two := a.Promise(s, 300), a.Promise(s, 400)
	want("both wait", 300)
	one.Begin(1000)
	want("the first begins", 300)
	look(800)
	want("it has written some", 300)
	now += time.Second
	one.End(now, 350)
	want("it has ended, and was larger", 250)
	look(650)
	want("that shows", 250)
	two.Begin(650)
	two.End(now, 0)
	look(650)
	want("the second has failed", 650)
	if len(a.promised) > 0 {
		t.Errorf("%d promises are left", len(a.promised))
	}
	s.free = -1
	if got := a.Room(s); got != -1 {
		t.Errorf("unknown room is %d", got)
	}
}

// A dump that never ends keeps others waiting for a while only.
func TestOverdueTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &Store{disks: &disk.Scheduler{}, on: disk.Device{Name: "d"}}
		hangs, waits := st.move(0, disk.Dump, "t1", time.Minute), st.move(0, disk.Dump, "t2", time.Minute)
		over, began := make(chan struct{}), time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			InTurn(t.Context(), hangs, nil, func() (int64, error) { <-over; return 1, nil })
		})
		synctest.Wait()
		err := InTurn(t.Context(), waits, nil, func() (int64, error) { return 1, nil })
		if took := time.Since(began); err != nil || took != 90*time.Second+4*time.Minute {
			t.Errorf("it was its turn after %v, %v", took, err)
		}
		close(over)
		all.Wait()
	})
}
