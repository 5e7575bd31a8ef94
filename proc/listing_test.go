package proc

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"headrace/internal/linux"
)

// TestListing: however many ask, the processes of the host are read once, and again when that is old or has failed.
func TestListing(t *testing.T) {
	var l listing
	reads := 0
	l.read = func() ([]linux.Stat, error) {
		reads++
		return []linux.Stat{{PID: 2, PPID: 1}, {PID: 3, PPID: 1}}, nil
	}
	ask := func(want int) {
		t.Helper()
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				if c, err := l.children(); err != nil || !slices.Equal(c[1], []int{2, 3}) {
					t.Errorf("%v, %v", c, err)
				}
			})
		}
		wg.Wait()
		if reads != want {
			t.Errorf("read %d times, want %d", reads, want)
		}
	}
	first := func() {
		t.Helper()
		if _, err := l.children(); err != nil {
			t.Error(err)
		}
		l.ended = time.Now().Add(time.Hour) // however slow this machine is, it does not become old
	}
	first()
	ask(1)
	l.ended = time.Now().Add(-listingValid)
	first()
	ask(2)

	l.ended = time.Time{}
	works, fails := l.read, errors.New("too many open files")
	l.read = func() ([]linux.Stat, error) { return nil, fails }
	if _, err := l.children(); !errors.Is(err, fails) {
		t.Error(err)
	}
	l.read = works
	first()
	ask(3)
}
