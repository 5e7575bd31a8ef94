package solo

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/policy"
	"headrace/proc"
	"headrace/wire"
)

// hasty is a clock whose boot time passes a hundred times as fast.
type hasty struct {
	systemClock
	began time.Duration
}

func (h hasty) boot() time.Duration { return h.began + 100*(h.systemClock.boot()-h.began) }

// TestShortageAtStart: a task waits, however long, until there is room to start it, on a disk or in the machine.
func TestShortageAtStart(t *testing.T) {
	for _, err := range []error{unix.ENOSPC, unix.EAGAIN, unix.EMFILE, context.DeadlineExceeded} {
		t.Run(err.Error(), func(t *testing.T) { shortageAtStart(t, err) })
	}
}

func shortageAtStart(t *testing.T, short error) {
	b := newBed(t, policy.Suspend)
	b.clock = hasty{began: systemClock{}.boot()}
	var tries atomic.Int64
	c := &conn{world: b.world}
	c.before = func(op string, _ headrace.TaskID) error {
		if op == "start" && tries.Add(1) <= 3*maxStartFailures {
			return fmt.Errorf("start t1: %w", short)
		}
		return nil
	}
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	id := b.run(headrace.Normal)
	b.await(id, "waiting", func(t *wire.Task) bool {
		return t.State == "pending" && strings.HasPrefix(t.Reason, "waits ") && strings.Contains(t.Reason, short.Error())
	})
	b.awaitState(id, headrace.Running)
	if n := tries.Load(); n != 3*maxStartFailures+1 {
		t.Errorf("it was tried %d times", n)
	}
}

// TestStartThatFails: a command that cannot be started ends the task, whatever the words of the error. What may be a limit
// of the user's own is tried some times, and what the machine lacks for as long as it takes.
func TestStartThatFails(t *testing.T) {
	const words = "start in directory /no space left on device: no such file or directory"
	for _, c := range []struct {
		exit        proc.Exit
		fails, runs int64
	}{
		{exit: proc.Exit{Code: 126, StartError: words}, fails: 1},
		{exit: proc.Exit{Code: 126, StartError: "true: cannot allocate memory", MayPass: true}, fails: maxStartFailures},
		{exit: proc.Exit{Code: 126, StartError: "fork: resource temporarily unavailable", Lacking: true}, runs: 3 * maxStartFailures},
	} {
		t.Run(c.exit.StartError, func(t *testing.T) {
			b := newBed(t, policy.Suspend)
			b.clock = hasty{began: systemClock{}.boot()}
			var tries atomic.Int64
			k := &conn{world: b.world}
			k.after = func(op string, id headrace.TaskID) error {
				if op == "start" && tries.Add(1) != c.runs {
					b.world.with(id, func(x *thing) { b.world.end(x, c.exit) })
				}
				return nil
			}
			if err := b.startWith(k); err != nil {
				t.Fatal(err)
			}
			id := b.run(headrace.Normal)
			if c.runs > 0 {
				b.awaitState(id, headrace.Running)
				return
			}
			if got := b.awaitState(id, headrace.Failed); got.Reason != c.exit.StartError || tries.Load() != c.fails {
				t.Errorf("after %d tries: %s", tries.Load(), got.Reason)
			}
		})
	}
}
