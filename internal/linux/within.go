package linux

import "time"

// EndTime is how long an end, of a daemon or of a part of it, waits for what a disk or a file server does not answer.
const EndTime = 10 * time.Second

// Within calls f and reports whether it came back within d. What stands in the kernel, because a
// disk or a file server does not answer, nothing can interrupt: then f goes on in a goroutine of
// its own, and what it does later must harm nobody.
func Within(d time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}
