package testkit

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is how long it takes at most until what must happen has: the machine may
// be busy.
const patience = 2 * time.Minute

// Await looks at what has just begun as often as poll says, and then ever more seldom: to look costs
// as much as what is waited for, where it is a request, a walk through /proc or a command. It sleeps as long as a look
// takes, so that the other half is left to what is waited for, but no longer than longest.
const poll, seldom, longest = 2 * time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond

// deadline returns when a test gives up: patience from now, or in time to say so before
// the end of all tests.
func deadline(t testing.TB) time.Time {
	at := time.Now().Add(patience)
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := t.Deadline(); ok && end.Add(-time.Second).Before(at) {
			at = end.Add(-time.Second)
		}
	}
	return at
}

// Await polls for what nobody tells of. If it does not come to be, the test ends with
// what was awaited, and with about: a func() string is called for it.
func Await(t testing.TB, what string, is func() bool, about ...any) {
	t.Helper()
	began, end := time.Now(), deadline(t)
	for {
		look := time.Now()
		if is() {
			return
		}
		took := time.Since(look)
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s%s", what, describe(about))
		}
		time.Sleep(max(min(max(poll, time.Since(began)/16), seldom), min(took, longest)))
	}
}

func describe(about []any) string {
	var b strings.Builder
	for _, a := range about {
		if f, ok := a.(func() string); ok {
			a = f()
		}
		fmt.Fprintf(&b, "\n%v", a)
	}
	return b.String()
}

// Longer tries what is to happen within a limit, or what a limit is not to end, with a short one and then with longer ones: on a machine
// that is busy a short one may be over before anything was done. What fails with each fails the test.
func Longer(t testing.TB, limit time.Duration, try func(limit time.Duration) error) {
	t.Helper()
	const longest = 15 * time.Second
	for ; ; limit *= 4 {
		err := try(limit)
		if err == nil {
			return
		}
		if limit >= longest {
			t.Fatalf("with %v: %v", limit, err)
		}
		t.Logf("with %v, which is not the last: %v", limit, err)
	}
}

// NoLeaks checks, after everything that is cleaned up later than it is called for,
// that there are no more goroutines than now.
func NoLeaks(t testing.TB) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		Await(t, fmt.Sprintf("the end of all goroutines but %d", before),
			func() bool { return runtime.NumGoroutine() <= before },
			Stacks)
	})
}

// Stacks returns what all goroutines do, for an Await of their end.
func Stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}
