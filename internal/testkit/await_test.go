package testkit

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// fakeTest is a test that has almost no time left and may fail.
type fakeTest struct {
	testing.TB
	cleanup func()
	said    string
}

func (f *fakeTest) Helper()                     {}
func (f *fakeTest) Logf(string, ...any)         {}
func (f *fakeTest) Cleanup(do func())           { f.cleanup = do }
func (f *fakeTest) Deadline() (time.Time, bool) { return time.Now().Add(time.Second), true }
func (f *fakeTest) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// run runs a part of the fake test to its end.
func (f *fakeTest) run(part func()) string {
	done := make(chan struct{})
	go func() {
		defer close(done)
		part()
	}()
	<-done
	return f.said
}

func TestAwait(t *testing.T) {
	f := &fakeTest{}
	n := 0
	if said := f.run(func() { Await(f, "it", func() bool { n++; return true }) }); said != "" || n != 1 {
		t.Errorf("what is so from the start was asked for %d times: %q", n, said)
	}
	n = 0
	Await(t, "the third time", func() bool { n++; return n == 3 })
	said := f.run(func() { Await(f, "it", func() bool { return false }, 7, func() string { return "seen at the end" }) })
	if said != "waited in vain for it\n7\nseen at the end" {
		t.Errorf("%q", said)
	}
}

func TestNoLeaks(t *testing.T) {
	f := &fakeTest{}
	NoLeaks(f)
	end := make(chan struct{})
	go func() { <-end }()
	if said := f.run(f.cleanup); !strings.Contains(said, "TestNoLeaks") {
		t.Errorf("a leak: %q", said)
	}
	close(end)
	f.said = ""
	before := runtime.NumGoroutine()
	NoLeaks(f)
	if f.cleanup(); f.said != "" || runtime.NumGoroutine() > before {
		t.Errorf("no leak: %q", f.said)
	}
}

func TestLonger(t *testing.T) {
	f := &fakeTest{}
	n := 0
	if said := f.run(func() { Longer(f, time.Second, func(time.Duration) error { n++; return nil }) }); said != "" || n != 1 {
		t.Errorf("what is so at once was tried %d times: %q", n, said)
	}
	var limits []time.Duration
	said := f.run(func() {
		Longer(f, time.Second, func(limit time.Duration) error { limits = append(limits, limit); return errors.New("never") })
	})
	if said != "with 16s: never" || fmt.Sprint(limits) != "[1s 4s 16s]" {
		t.Errorf("%q after %v", said, limits)
	}
}
