package linux

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// OnOwnThread calls f on a thread that ends with it, so that what f does to the thread changes nothing else, and what it
// traces is let go. It returns what f does.
func OnOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The first thread does not end, and /proc/self is about it. It is kept
			// until f is done on another.
			done <- OnOwnThread(f)
			runtime.UnlockOSThread()
			return
		}
		done <- f() // without an unlock the thread ends with the goroutine
	}()
	return <-done
}
