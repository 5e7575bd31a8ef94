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
