package budget

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
)

func TestBudget(t *testing.T) {
	b := New("things", 10, 15)
	refused := func(uid uint32, n int64, all bool) {
		t.Helper()
		var r *Refusal
		if err := b.Take(uid, n); !errors.As(err, &r) || r.All != all || !strings.Contains(err.Error(), "things") {
			t.Errorf("user %d takes %d: %v", uid, n, err)
		}
	}
	take := func(uid uint32, n int64) {
		t.Helper()
		if err := b.Take(uid, n); err != nil {
			t.Errorf("user %d takes %d: %v", uid, n, err)
		}
	}
	take(1001, 10)
	refused(1001, 1, false)
	take(1002, 5)
	refused(1002, 1, true)
	refused(1003, 1, true)
	take(0, 10)
	refused(0, 1, false)
	if own := uint32(os.Geteuid()); own != 0 {
		take(own, 10)
		b.Give(own, 10)
	}
	b.Give(1001, 4)
	take(1003, 4)
	refused(1003, 1, true)
	b.Give(0, 10)
	b.Give(1001, 6)
	b.Give(1002, 5)
	b.Give(1003, 4)
	if n := b.Users(); n != 0 || b.all != 0 {
		t.Errorf("%d users, %d of all, after everything was given back", n, b.all)
	}
}

func TestBudgetOfMany(t *testing.T) {
	b := New("things", 3, 20)
	var wg sync.WaitGroup
	for uid := range uint32(32) {
		wg.Go(func() {
			for range 1000 {
				if b.Take(5000+uid%8, 1) == nil {
					b.Give(5000+uid%8, 1)
				}
			}
		})
	}
	wg.Wait()
	if b.Users() != 0 || b.all != 0 {
		t.Errorf("something is left: %v", b.used)
	}
}

// TestOrdinary: root and the daemon's own user are not limited, and take nothing of what others have.
func TestOrdinary(t *testing.T) {
	b := Ordinary("things", 2, 3)
	for _, uid := range []uint32{0, uint32(os.Geteuid())} {
		if err := b.Take(uid, 100); err != nil {
			t.Errorf("user %d: %v", uid, err)
		}
	}
	if b.Take(7001, 3) == nil || b.Take(7001, 2) != nil || b.Take(7002, 2) == nil || b.Take(7002, 1) != nil {
		t.Error("ordinary users are not limited as in any budget")
	}
	b.Give(0, 100)
	if b.Users() != 2 {
		t.Errorf("%d users have something", b.Users())
	}
}
