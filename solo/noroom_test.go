package solo

import (
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

// TestFullDiskAtStart: a task waits, however long, until there is room to start it.
func TestFullDiskAtStart(t *testing.T) {
	b := newBed(t, policy.Suspend)
	b.clock = hasty{began: systemClock{}.boot()}
	var tries atomic.Int64
	c := &conn{world: b.world}
	c.before = func(op string, _ headrace.TaskID) error {
		if op == "start" && tries.Add(1) <= 3*maxStartFailures {
			return fmt.Errorf("mkdir tasks/t1: %w", unix.ENOSPC)
		}
		return nil
	}
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	id := b.run(headrace.Normal)
	b.await(id, "waiting for room on the disk", func(t *wire.Task) bool {
		return t.State == "pending" && strings.Contains(t.Reason, "waits for room on a disk that is full") && strings.Contains(t.Reason, "no space left")
	})
	b.awaitState(id, headrace.Running)
	if n := tries.Load(); n != 3*maxStartFailures+1 {
		t.Errorf("it was tried %d times", n)
	}
}
