package rig

import (
	"context"
	"time"
)

// Sample asks again and again, at that distance, until the returned function is called, which
// returns what was answered. What is answered with false is left out.
func Sample[T any](ctx context.Context, every time.Duration, ask func(context.Context) (T, bool)) func() []T {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan []T, 1)
	go func() {
		var all []T
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				done <- all
				return
			case <-tick.C:
			}
			if x, ok := ask(ctx); ok {
				all = append(all, x)
			}
		}
	}()
	return func() []T {
		cancel()
		return <-done
	}
}
