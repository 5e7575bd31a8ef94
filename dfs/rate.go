package dfs

import (
	"context"
	"sync"
	"time"
)

// rate spreads bytes over time, so many a second; none: it does not. Those who wait are served in the order in which they came.
type rate struct {
	bytes int64

	mu   sync.Mutex
	next time.Time // when the next bytes may go
}

// take waits until n bytes may go, or ctx ends.
func (r *rate) take(ctx context.Context, n int) error {
	if r.bytes <= 0 {
		return nil
	}
	r.mu.Lock()
	now := time.Now()
	if r.next.Before(now) { // what was not used is lost
		r.next = now
	}
	wait := r.next.Sub(now)
	r.next = r.next.Add(time.Duration(float64(n) / float64(r.bytes) * float64(time.Second)))
	r.mu.Unlock()
	if wait <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
