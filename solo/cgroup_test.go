package solo

import (
	"errors"
	"fmt"
	"testing"

	"headrace"
	"headrace/policy"
	"headrace/solo/journal"
	"headrace/wire"
)

// TestNoLimits: what of a task's cgroup cannot be had is told with the task, also by a
// later daemon, until a later start has it all.
func TestNoLimits(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.start()
	id := b.run(headrace.Normal, func(q *wire.RunRequest) { q.IoWeight = 100 })
	if got := b.awaitState(id, headrace.Running); got.IoWeight != 100 || got.NoLimits != "" {
		t.Errorf("at first: weight %d, no limits: %q", got.IoWeight, got.NoLimits)
	}
	b.loop.cgroupMade(id, errors.Join(errors.New("no memory"), errors.New("no I/O weight")))
	const want = "no memory; no I/O weight"
	b.await(id, want, func(t *wire.Task) bool { return t.NoLimits == want })
	b.shutdown()
	b.start()
	if got := b.get(id).NoLimits; got != want {
		t.Errorf("after a restart of the daemon: %q", got)
	}
	b.loop.cgroupMade(id, nil)
	b.await(id, "all limits", func(t *wire.Task) bool { return t.NoLimits == "" })

	// What its supervisor says comes to it, for as long as that says so.
	outside := func(why string) { b.world.with(id, func(t *thing) { t.shim.outside = why }) }
	outside("it is outside")
	b.await(id, "outside", func(t *wire.Task) bool { return t.NoLimits == "it is outside" })
	b.loop.cgroupMade(id, errors.New("no memory"))
	b.await(id, "both", func(t *wire.Task) bool { return t.NoLimits == "no memory; it is outside" })
	outside("")
	b.await(id, "no memory", func(t *wire.Task) bool { return t.NoLimits == "no memory" })
}

// TestContinued: how often somebody continued a suspended task is told with the task and
// counted over restarts of the daemon and of its supervisor; the history has it once for
// each suspension.
func TestContinued(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.start()
	id := b.run(headrace.Normal)
	b.awaitState(id, headrace.Running)
	heard := func(bySupervisor int, want uint32) *wire.Task {
		t.Helper()
		b.world.mu.Lock()
		b.world.thing(id).shim.continued = bySupervisor
		b.world.mu.Unlock()
		return b.await(id, fmt.Sprint("continued ", want), func(t *wire.Task) bool { return t.Continued == want })
	}
	events := func(task *wire.Task) (n int) {
		for _, e := range task.History {
			if e.State == journal.StoppedAgain {
				n++
			}
		}
		return n
	}
	suspend := func() {
		t.Helper()
		if _, err := b.tasks.Suspend(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
			t.Fatal(err)
		}
		b.awaitState(id, headrace.Suspended)
	}
	suspend()
	if got := b.get(id); got.Continued != 0 || got.LastContinuedMs != 0 {
		t.Errorf("continued %d times before anybody did", got.Continued)
	}
	heard(2, 2)
	if got := heard(5, 5); events(got) != 1 || got.LastContinuedMs < got.SubmittedMs || got.State != headrace.Suspended.String() {
		t.Errorf("%d events, last at %d: %v", events(got), got.LastContinuedMs, got.History)
	}
	b.shutdown()
	b.start()
	b.awaitState(id, headrace.Suspended)
	heard(6, 6)
	heard(1, 7) // a new supervisor
	if _, err := b.tasks.Resume(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
		t.Fatal(err)
	}
	b.awaitState(id, headrace.Running)
	suspend()
	if got := heard(2, 8); events(got) != 2 {
		t.Errorf("%d events in two suspensions: %v", events(got), got.History)
	}
}
