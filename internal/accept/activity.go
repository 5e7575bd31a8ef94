package accept

import (
	"cmp"
	"sync/atomic"
	"time"
)

// Stalled is how long somebody may take nothing of what is sent before the connection counts as idle.
const Stalled = 10 * time.Second

// An Activity says for a Crowd since when a connection does nothing: it waits to be told what to do, or has been stuck in sending
// for as long as Stalled (default that of this package). It is safe for concurrent use, but one goroutine at a time sends.
type Activity struct {
	Stalled time.Duration

	waiting atomic.Int64 // since when: Unix time in ns, 0 while there is something to do
	sending atomic.Int64 // since when, 0 while nothing is sent
}

// Wait notes that there is nothing to do from now on.
func (a *Activity) Wait() { a.waiting.Store(time.Now().UnixNano()) }

// Work notes that there is something to do.
func (a *Activity) Work() { a.waiting.Store(0) }

// Send calls f, which sends.
func (a *Activity) Send(f func() (int64, error)) (int64, error) {
	a.sending.Store(time.Now().UnixNano())
	defer a.sending.Store(0)
	return f()
}

// Idle returns since when nothing is done, and whether that is so.
func (a *Activity) Idle() (since time.Time, idle bool) {
	if at := a.waiting.Load(); at != 0 {
		return time.Unix(0, at), true
	}
	at := time.Unix(0, a.sending.Load())
	return at, at.UnixNano() != 0 && time.Since(at) >= cmp.Or(a.Stalled, Stalled)
}
