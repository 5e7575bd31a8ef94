package accept

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestActivity: who waits is idle at once, who cannot send after a time.
func TestActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Activity
		is := func(want bool, since time.Time) {
			t.Helper()
			if at, idle := a.Idle(); idle != want || idle && !at.Equal(since) {
				t.Errorf("idle %v since %v, want %v since %v", idle, at, want, since)
			}
		}
		is(false, time.Time{})
		began := time.Now()
		a.Wait()
		time.Sleep(time.Second)
		is(true, began)
		a.Work()
		is(false, time.Time{})
		began = time.Now()
		if n, err := a.Send(func() (int64, error) {
			time.Sleep(Stalled - time.Nanosecond)
			is(false, time.Time{})
			time.Sleep(time.Nanosecond)
			is(true, began)
			return 7, nil
		}); n != 7 || err != nil {
			t.Error(n, err)
		}
		is(false, time.Time{})
	})
}
