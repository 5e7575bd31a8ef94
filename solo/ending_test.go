package solo

import (
	"fmt"
	"sync"
	"testing"

	"headrace"
	"headrace/internal/crash"
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

// TestCommittedAndNotAnswered: the supervisor, or its init, dies when a checkpoint is durable and before it has
// answered. The task goes on from there.
func TestCommittedAndNotAnswered(t *testing.T) {
	lost := func(w *world, id headrace.TaskID) { // its init has died
		w.mu.Lock()
		defer w.mu.Unlock()
		w.end(w.thing(id), proc.Exit{Code: 137, Signal: 9, Lost: true})
	}
	vanish := func(w *world, id headrace.TaskID) { w.vanish(id) }
	for name, c := range map[string]struct {
		dies        func(*world, headrace.TaskID)
		late, crash bool
		then        bool // the daemon dies when it has taken in that there was no answer, and the supervisor after that
		restart     func(*wire.RunRequest)
	}{
		"the supervisor":                     {dies: vanish, restart: never},
		"the supervisor, it may start again": {dies: vanish},
		"init":                               {dies: lost, restart: never},
		"told later":                         {dies: vanish, late: true, restart: never},
		"init, and the daemon":               {dies: lost, crash: true, restart: never},
		"told to the next daemon":            {dies: vanish, late: true, then: true, restart: never},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, policy.Wait)
			conn := &conn{world: b.world}
			conn.after = func(op string, id headrace.TaskID) error {
				if op != "checkpoint" {
					return nil
				}
				if !c.late {
					c.dies(b.world, id)
				}
				if c.crash {
					conn.cut()
				}
				return fmt.Errorf("checkpoint task %s: %w", id, proc.ErrGone)
			}
			if err := b.startWith(conn); err != nil {
				t.Fatal(err)
			}
			id := b.run(headrace.Normal, func(q *wire.RunRequest) {
				if c.restart != nil {
					c.restart(q)
				}
			})
			b.awaitState(id, headrace.Running)
			q := &wire.VerbRequest{Id: string(id)}
			if c.crash {
				go b.tasks.Checkpoint(b.ctx(), q) // there is no answer
				testkit.Await(t, "the end of the daemon", conn.dead)
				b.shutdown()
				b.start()
			} else if _, err := b.tasks.Checkpoint(b.ctx(), q); err == nil {
				t.Error("the checkpoint has succeeded")
			}
			if c.then {
				b.crash()
			}
			if c.late {
				c.dies(b.world, id)
			}
			if c.then {
				b.start()
			}
			if got := b.awaitState(id, headrace.Checkpointed); got.Checkpoint == nil {
				t.Errorf("it is %v", got)
			}
			if _, err := b.tasks.Restore(b.ctx(), q); err != nil {
				t.Fatal(err)
			}
			b.awaitState(id, headrace.Running)
			b.world.with(id, func(x *thing) {
				if x.starts != 1 || x.restores != 1 {
					t.Errorf("it was started %d times and restored %d times", x.starts, x.restores)
				}
			})
			b.finish(id, 0)
			b.awaitState(id, headrace.Done)
		})
	}
}

// TestNothingCommitted: a supervisor that dies before anything of a checkpoint is durable has lost its task.
func TestNothingCommitted(t *testing.T) {
	b := newBed(t, policy.Wait)
	c := &conn{world: b.world}
	c.before = func(op string, id headrace.TaskID) error {
		if op == "checkpoint" {
			b.world.vanish(id)
		}
		return nil
	}
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	id := b.run(headrace.Normal, never)
	b.awaitState(id, headrace.Running)
	if _, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id)}); err == nil {
		t.Error("the checkpoint has succeeded")
	}
	b.awaitState(id, headrace.Lost)
}

// TestRealCommittedAndNotAnswered: a real supervisor is killed when the checkpoint is committed and the task is about to be ended.
func TestRealCommittedAndNotAnswered(t *testing.T) {
	m := newMachine(t, policy.Wait)
	if !m.image {
		t.Skip("without root or CRIU there are no checkpoints")
	}
	m.launch(crash.Env + "=shim.before-kill")
	gated, goOn := m.gated(40)
	id := m.run(headrace.Normal, never, gated)
	m.awaitState(id, headrace.Running)
	q := &wire.VerbRequest{Id: string(id)}
	if _, err := m.tasks.Checkpoint(m.ctx(), q); err == nil {
		t.Error("the checkpoint has succeeded")
	}
	m.awaitState(id, headrace.Checkpointed)
	if _, err := m.tasks.Restore(m.ctx(), q); err != nil {
		t.Fatal(err)
	}
	goOn()
	m.awaitState(id, headrace.Done)
	m.wantCount(id, 40)
}
