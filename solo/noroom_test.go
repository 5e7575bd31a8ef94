package solo

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/testkit"
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
		if op == "start" && tries.Add(1) <= 2*maxStartFailures {
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
	if n := tries.Load(); n != 2*maxStartFailures+1 {
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
		{exit: proc.Exit{Code: 126, StartError: "fork: resource temporarily unavailable", Lacking: true}, runs: 2 * maxStartFailures},
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

// TestInVainOverRestart: a daemon that begins knows for whom others have left in vain.
func TestInVainOverRestart(t *testing.T) {
	b := newBed(t, policy.Kill)
	b.clock = &fakeClock{now: time.Hour, date: time.Unix(1e9, 0)} // it is not a minute later, however slow the machine is
	broken := func() *conn {
		return &conn{world: b.world, before: func(op string, id headrace.TaskID) error {
			if op == "start" && id == "t2" {
				return fmt.Errorf("start: %w", unix.EAGAIN)
			}
			return nil
		}}
	}
	if err := b.startWith(broken()); err != nil {
		t.Fatal(err)
	}
	low := b.run(headrace.Low)
	b.awaitState(low, headrace.Running)
	high := b.run(headrace.High)
	b.await(low, "back", func(w *wire.Task) bool { return w.Preemptions == 1 && w.State == "running" && w.Doing == "" })
	b.crash()
	if err := b.startWith(broken()); err != nil {
		t.Fatal(err)
	}
	b.await(high, "waiting for what is free", func(w *wire.Task) bool { return strings.Contains(w.Reason, "in vain") })
	if n := b.get(low).Preemptions; n != 1 {
		t.Errorf("others were made to leave %d times", n)
	}
	b.shutdown()
	if err := b.startWith(&conn{world: b.world}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.tasks.Resume(b.ctx(), &wire.VerbRequest{Id: string(high)}); err != nil {
		t.Fatal(err)
	}
	b.awaitState(high, headrace.Running) // a user has it go on: others leave again
}

// TestNobodyLeavesInVainForEver: who cannot be started has others leave ever more seldom, so
// that their work ends, and gets what is free. Time passes only while the other runs and nothing is done to either, however slow the machine is.
func TestNobodyLeavesInVainForEver(t *testing.T) {
	b := newBed(t, policy.Kill)
	clk := &fakeClock{now: time.Hour, date: time.Unix(1e9, 0)}
	b.clock = clk
	var broken atomic.Value
	broken.Store(headrace.TaskID(""))
	var tries atomic.Int64
	c := &conn{world: b.world}
	c.before = func(op string, id headrace.TaskID) error {
		if op == "start" && id == broken.Load() {
			tries.Add(1)
			return fmt.Errorf("start: %w", unix.EAGAIN)
		}
		return nil
	}
	const needs = 200 * time.Second
	var over atomic.Bool
	hasRun := make(chan struct{})
	var once sync.Once
	b.watchView(func(v headrace.View) {
		quiet := false
		for _, task := range v.Tasks {
			if task.Starting || task.Leaving {
				quiet = false
				break
			}
			if task.ID == "t1" && task.State == headrace.Running {
				quiet = true
				if task.Running >= needs && tries.Load() > 0 {
					once.Do(func() { close(hasRun) })
				}
			}
		}
		if quiet || over.Load() {
			clk.advance(time.Second, time.Second)
		}
	})
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	b.awaitState(b.run(headrace.Low), headrace.Running)
	broken.Store(headrace.TaskID("t2"))
	b.run(headrace.High)
	select {
	case <-hasRun:
	case <-time.After(patience):
		t.Fatalf("it was made to leave %d times, and has never run for %v", b.get("t1").Preemptions, needs)
	}
	if n := b.get("t1").Preemptions; n < 2 {
		t.Errorf("it was made to leave %d times: who fails once is to have another try", n)
	}
	b.finish("t1", 0)
	over.Store(true)
	before := tries.Load()
	testkit.Await(t, "a try in the free slot", func() bool { return tries.Load() > before })
}
