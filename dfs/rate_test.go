package dfs

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestRate: all together get no more than there is, none of them waits behind those who came later, and idle time is not saved up.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rate{bytes: 10 << 20}
		time.Sleep(time.Hour)
		began := time.Now()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 160 {
					if err := r.take(t.Context(), 64<<10); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took < 7900*time.Millisecond || took > 8100*time.Millisecond {
			t.Errorf("80 MB at 10 MB/s took %v", took)
		}
		r.take(t.Context(), 10<<20)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := r.take(ctx, 1); err == nil {
			t.Error("it did not wait")
		}
		if err := (&rate{}).take(t.Context(), 1<<40); err != nil {
			t.Error(err)
		}
	})
}
