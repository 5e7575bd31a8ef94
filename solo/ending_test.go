package solo

import (
	"fmt"
	"sync"
	"testing"

	"headrace"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/proc"
	"headrace/wire"
)

// TestConnectionsOfTheEnded: what has ended, however, is not held by a dump any more, but for what
// may be brought back.
func TestConnectionsOfTheEnded(t *testing.T) {
	b := newBed(t, policy.Wait)
	locked := func(id headrace.TaskID) (is bool) {
		b.world.with(id, func(t *thing) { is = t.locked })
		return is
	}
	lose := func(change func(*wire.RunRequest), from headrace.TaskState) headrace.TaskID {
		id := b.bringTo(headrace.Running, change)
		if from == headrace.Checkpointed {
			q := &wire.VerbRequest{Id: string(id)}
			if _, err := b.tasks.Checkpoint(b.ctx(), q); err != nil {
				t.Fatal(err)
			}
			if _, err := b.tasks.Restore(b.ctx(), q); err != nil {
				t.Fatal(err)
			}
			b.awaitState(id, headrace.Running)
		}
		b.world.with(id, func(t *thing) { t.locked = true })
		b.world.vanish(id)
		b.awaitState(id, headrace.Lost)
		return id
	}
	id := lose(never, headrace.Running)
	testkit.Await(t, "the end of the lock", func() bool { return !locked(id) })
	b.shutdown()
	b.world.with(id, func(t *thing) { t.locked = true }) // that daemon has not come to it
	kept := lose(never, headrace.Checkpointed)
	testkit.Await(t, "the end of the lock, by the next daemon", func() bool { return !locked(id) })
	b.shutdown()
	b.start()
	if !locked(kept) {
		t.Error("the connections are gone of a task that may be brought back")
	}
}

// TestEndThatIsNotTold: a task that has no processes any more, and whose end is not on record, is asked to
// leave a few times, and another one leaves in its place.
func TestEndThatIsNotTold(t *testing.T) {
	for op, pol := range map[string]policy.Name{"suspend": policy.Suspend, "checkpoint": policy.Checkpoint} {
		t.Run(op, func(t *testing.T) {
			b := newBed(t, pol)
			b.cfg.Slots = 2
			c := &conn{world: b.world}
			var mu sync.Mutex
			var ending headrace.TaskID
			asked := 0
			c.before = func(was string, id headrace.TaskID) error {
				mu.Lock()
				defer mu.Unlock()
				if was == op && ending == "" {
					ending = id
				}
				if was != op || id != ending {
					return nil
				}
				asked++
				return fmt.Errorf("%s task %s: %w", op, id, proc.ErrGone)
			}
			if err := b.startWith(c); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				b.awaitState(b.run(headrace.Low), headrace.Running)
			}
			urgent := b.run(headrace.High)
			b.awaitState(urgent, headrace.Running)
			mu.Lock()
			if asked < 1 || asked > 4 {
				t.Errorf("it was asked %d times to leave", asked)
			}
			mu.Unlock()
			if got := b.get(ending).State; got != "running" {
				t.Errorf("it is %s, and nothing of it runs", got)
			}
			b.finish(ending, 0)
			b.awaitState(ending, headrace.Done)
		})
	}
}
