package solo

import (
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/policy"
	"headrace/proc"
	"headrace/solo/board"
	"headrace/solo/journal"
	"headrace/solo/store"
	"headrace/wire"
)

func TestPreemption(t *testing.T) {
	for _, c := range []struct {
		policy  policy.Name
		away    headrace.TaskState
		doing   []string // what the history of the low task shows
		keepsIt bool     // its work
	}{
		{policy.Suspend, headrace.Suspended, []string{"pending", "starting", "running", "suspending", "suspended", "resuming", "running", "done"}, true},
		{policy.Checkpoint, headrace.Checkpointed, []string{"pending", "starting", "running", "checkpointing", "checkpointed", "restoring", "running", "done"}, true},
		{policy.Kill, headrace.Pending, []string{"pending", "starting", "running", "killing", "pending", "starting", "running", "done"}, false},
	} {
		t.Run(string(c.policy), func(t *testing.T) {
			b := newBed(t, c.policy)
			b.start()
			low := b.run(headrace.Low, never)
			b.await(low, "at work", func(w *wire.Task) bool { return w.Usage.GetRunning() > 0 }) // which can be lost
			high := b.run(headrace.High)
			b.awaitState(high, headrace.Running)
			away := b.awaitState(low, c.away)
			if away.Preemptions != 1 {
				t.Errorf("preemptions = %d, want 1", away.Preemptions)
			}
			if lost := away.LostWall > 0; lost == c.keepsIt {
				t.Errorf("lost work: %v s", away.LostWall)
			}
			b.finish(high, 0)
			b.awaitState(high, headrace.Done)
			b.awaitState(low, headrace.Running)
			b.finish(low, 0)
			b.awaitState(low, headrace.Done)
			var states []string
			for _, e := range b.get(low).History {
				states = append(states, e.State)
			}
			if !slices.Equal(states, c.doing) {
				t.Errorf("history\n%v, want\n%v", states, c.doing)
			}
			b.world.with(low, func(th *thing) {
				if want := 1; c.keepsIt && th.starts != want {
					t.Errorf("started %d times, want %d", th.starts, want)
				}
				if len(th.images[b.cfg.StateDir+"/checkpoints"]) > 0 {
					t.Log("images are removed in the background")
				}
			})
		})
	}
}

func TestEnds(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.start()
	for _, c := range []struct {
		end    func(id headrace.TaskID)
		change func(*wire.RunRequest)
		state  headrace.TaskState
		code   int32
		reason string
	}{
		{func(id headrace.TaskID) { b.finish(id, 0) }, never, headrace.Done, 0, ""},
		{func(id headrace.TaskID) { b.finish(id, 3) }, never, headrace.Failed, 3, "exit code 3"},
		{b.world.vanish, never, headrace.Lost, 0, "its supervisor was killed"},
	} {
		id := b.run(headrace.Normal, c.change)
		b.awaitState(id, headrace.Running)
		c.end(id)
		got := b.awaitState(id, c.state)
		if got.ExitCode != c.code || got.Reason != c.reason || got.EndedMs == 0 {
			t.Errorf("%s: code %d, reason %q, ended %d; want %d, %q", c.state, got.ExitCode, got.Reason, got.EndedMs, c.code, c.reason)
		}
	}
	id := b.run(headrace.Normal, func(q *wire.RunRequest) { q.Argv = []string{"/does/not/exist"} })
	if got := b.awaitState(id, headrace.Failed); got.ExitCode != 127 || !strings.Contains(got.Reason, "no such file") {
		t.Errorf("a command that does not exist: code %d, reason %q", got.ExitCode, got.Reason)
	}
}

// Who waits is told for what, in words of this machine.
func TestReasonOfWhoWaits(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.cfg.Slots = 2
	b.start()
	for _, p := range []headrace.Priority{headrace.Low, headrace.High} {
		b.awaitState(b.run(p), headrace.Running)
	}
	large := b.run(headrace.High, func(q *wire.RunRequest) { q.Cpus = 2 })
	const want = "waits for room: all that may leave on this machine would not make enough"
	got := b.await(large, "a reason", func(task *wire.Task) bool { return task.Reason != "" && task.Reason != board.WaitsForSlot })
	if got.Reason != want {
		t.Errorf("the reason is %q, want %q", got.Reason, want)
	}
}

func TestVanishedIsRestarted(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.start()
	id := b.run(headrace.Normal)
	b.awaitState(id, headrace.Running)
	b.world.vanish(id)
	b.await(id, "started again", func(w *wire.Task) bool {
		return w.State == "running" && len(w.History) > 4
	})
	if _, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.tasks.Restore(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
		t.Fatal(err)
	}
	b.awaitState(id, headrace.Running)
	b.world.vanish(id)
	got := b.await(id, "back from its checkpoint", func(w *wire.Task) bool {
		return slices.ContainsFunc(w.History, func(e *wire.Event) bool {
			return e.State == "checkpointed" && strings.Contains(e.Reason, "supervisor was killed")
		})
	})
	if got.Held {
		t.Error("it is held")
	}
	b.awaitState(id, headrace.Running)
	b.world.with(id, func(th *thing) {
		if th.starts != 2 {
			t.Errorf("started %d times from the beginning, want 2", th.starts)
		}
	})
}

func TestVerbs(t *testing.T) {
	b := newBed(t, policy.Suspend)
	b.start()
	id := b.run(headrace.Normal)
	b.awaitState(id, headrace.Running)
	q := &wire.VerbRequest{Id: string(id)}

	got, err := b.tasks.Suspend(b.ctx(), q)
	if err != nil || got.State != "suspended" || !got.Held {
		t.Fatalf("suspend: %v, %v", got, err)
	}
	if s := b.world.state(id); s != headrace.Suspended {
		t.Fatalf("suspend returned, but the processes are %s", s)
	}
	if got, err = b.tasks.Suspend(b.ctx(), q); err != nil || got.State != "suspended" {
		t.Fatalf("second suspend: %v, %v", got, err)
	}
	other := b.run(headrace.Low)
	b.awaitState(other, headrace.Running)

	// Resume takes the slot from the other task, in its turn.
	if got, err = b.tasks.Resume(b.ctx(), q); err != nil || got.Held {
		t.Fatalf("resume: %v, %v", got, err)
	}
	b.awaitState(id, headrace.Running)
	b.awaitState(other, headrace.Suspended)

	if got, err = b.tasks.Checkpoint(b.ctx(), q); err != nil || got.State != "checkpointed" || !got.Held || got.Checkpoint == nil {
		t.Fatalf("checkpoint: %v, %v", got, err)
	}
	b.awaitState(other, headrace.Running)
	if got, err = b.tasks.Restore(b.ctx(), q); err != nil || got.Held {
		t.Fatalf("restore: %v, %v", got, err)
	}
	b.awaitState(id, headrace.Running)
	if got, err = b.tasks.Kill(b.ctx(), q); err != nil || got.State != "killed" || got.Signal != 15 {
		t.Fatalf("kill: %v, %v", got, err)
	}
	for name, verb := range map[string]func() error{
		"suspend":    func() error { _, err := b.tasks.Suspend(b.ctx(), q); return err },
		"resume":     func() error { _, err := b.tasks.Resume(b.ctx(), q); return err },
		"checkpoint": func() error { _, err := b.tasks.Checkpoint(b.ctx(), q); return err },
		"kill":       func() error { _, err := b.tasks.Kill(b.ctx(), q); return err },
	} {
		if err := verb(); connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "ended already") {
			t.Errorf("%s of an ended task: %v", name, err)
		}
	}
	if _, err := b.tasks.Forget(b.ctx(), q); err != nil {
		t.Fatal("forget:", err)
	}
	if _, err := b.tasks.Get(b.ctx(), &wire.GetRequest{Id: q.Id}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("get of a forgotten task: %v", err)
	}
	if next := b.run(headrace.Normal); next == id {
		t.Errorf("id %s was used again", id)
	}
	if _, err := b.tasks.Forget(b.ctx(), &wire.VerbRequest{Id: string(other)}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("forget of a task that has not ended: %v", err)
	}
}

func TestPendingVerbs(t *testing.T) {
	b := newBed(t, policy.Wait)
	b.start()
	first := b.run(headrace.Normal)
	b.awaitState(first, headrace.Running)
	second := b.run(headrace.Normal)
	q := &wire.VerbRequest{Id: string(second)}
	if _, err := b.tasks.Checkpoint(b.ctx(), q); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("checkpoint of a task that has not started: %v", err)
	}
	if got, err := b.tasks.Suspend(b.ctx(), q); err != nil || got.State != "pending" || !got.Held {
		t.Fatalf("suspend of a pending task: %v, %v", got, err)
	}
	b.finish(first, 0)
	b.awaitState(first, headrace.Done)
	third := b.run(headrace.Low)
	b.awaitState(third, headrace.Running)
	got, err := b.tasks.Resume(b.ctx(), q)
	if err != nil || got.Held || got.State != "pending" || got.Reason == "" {
		t.Fatalf("resume without a free slot: %v, %v", got, err)
	}
	if got, err := b.tasks.Kill(b.ctx(), q); err != nil || got.State != "killed" {
		t.Fatalf("kill of a pending task: %v, %v", got, err)
	}
	h := b.run(headrace.Normal, held)
	b.finish(third, 0)
	b.awaitState(third, headrace.Done)
	if got := b.get(h); got.State != "pending" || !got.Held {
		t.Errorf("a held task: %v", got)
	}
	if got, err := b.tasks.Resume(b.ctx(), &wire.VerbRequest{Id: string(h)}); err != nil || got.State != "running" {
		t.Fatalf("resume with a free slot returns when it runs: %v, %v", got, err)
	}
}

func TestNotCheckpointable(t *testing.T) {
	b := newBed(t, policy.Checkpoint)
	b.start()
	low := b.run(headrace.Low)
	b.awaitState(low, headrace.Running)
	b.world.with(low, func(th *thing) { th.noDump = proc.ErrNotCheckpointable })
	_, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(low)})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Fatalf("checkpoint: %v", err)
	}
	if got := b.awaitState(low, headrace.Running); got.NoCheckpoint == "" || got.Held {
		t.Errorf("no_checkpoint %q, held %v", got.NoCheckpoint, got.Held)
	}
	// The policy takes something else, and the urgent task is not stuck.
	high := b.run(headrace.High)
	b.awaitState(high, headrace.Running)
	b.awaitState(low, headrace.Suspended)
}

// What passes while a task runs keeps it from being checkpointed for seconds only.
func TestNotCheckpointableNow(t *testing.T) {
	b := newBed(t, policy.Checkpoint)
	clk := &fakeClock{now: time.Hour, date: time.Unix(1e9, 0)}
	b.clock = clk
	b.start()
	low := b.run(headrace.Low)
	b.awaitState(low, headrace.Running)
	b.world.with(low, func(th *thing) { th.noDump = proc.ErrCheckpointLater })
	_, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(low)})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "at the moment") {
		t.Fatalf("checkpoint: %v", err)
	}
	b.world.with(low, func(th *thing) { th.noDump = nil })
	high := b.run(headrace.High)
	b.awaitState(low, headrace.Suspended) // not now
	b.awaitState(high, headrace.Running)
	b.finish(high, 0)
	b.awaitState(low, headrace.Running)
	clk.advance(laterFor, laterFor)
	b.run(headrace.High)
	b.awaitState(low, headrace.Checkpointed)
}

// Nor does it for longer because the daemon is started again meanwhile.
func TestNotCheckpointableNowAndARestart(t *testing.T) {
	b := newBed(t, policy.Checkpoint)
	b.start()
	low := b.run(headrace.Low)
	b.awaitState(low, headrace.Running)
	b.world.with(low, func(th *thing) { th.noDump = proc.ErrCheckpointLater })
	if _, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(low)}); err == nil {
		t.Fatal("it was checkpointed")
	}
	b.world.with(low, func(th *thing) { th.noDump = nil })
	b.crash()
	b.start()
	b.run(headrace.High)
	b.awaitState(low, headrace.Checkpointed)
}

// What went wrong with a task is shown while it holds, and kept in its history.
func TestTroublePasses(t *testing.T) {
	b := newBed(t, policy.Checkpoint)
	clk := &fakeClock{now: time.Hour, date: time.Unix(1e9, 0)}
	b.clock = clk
	b.start()
	id := b.run(headrace.Low)
	usual := b.awaitState(id, headrace.Running).Reason
	for _, c := range []struct {
		why  error
		hold time.Duration
	}{{proc.ErrNoSpace, store.FullFor}, {proc.ErrCheckpointLater, laterFor}} {
		b.world.with(id, func(th *thing) { th.noDump = c.why })
		if _, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id)}); err == nil {
			t.Fatal("it was checkpointed")
		}
		b.pass(clk, c.hold-1)
		if got := b.get(id); got.State != "running" || got.Reason != "checkpoint failed: "+c.why.Error() {
			t.Errorf("%v: it is %s: %q", c.why, got.State, got.Reason)
		}
		clk.advance(1, 1)
		got := b.await(id, "no trouble any more", func(t *wire.Task) bool { return t.Reason == usual })
		if got.NoCheckpoint != "" {
			t.Errorf("%v: it is said not to be checkpointed although it would be: %s", c.why, got.NoCheckpoint)
		}
		if last := got.History[len(got.History)-1]; last.State != journal.Trouble || last.Reason != "checkpoint failed: "+c.why.Error() {
			t.Errorf("%v: the history ends with %v", c.why, last)
		}
	}
}

func TestStoreFull(t *testing.T) {
	b := newBed(t, policy.Checkpoint)
	b.start()
	low := b.run(headrace.Low)
	b.awaitState(low, headrace.Running)
	b.world.with(low, func(th *thing) { th.noDump = proc.ErrNoSpace })
	high := b.run(headrace.High)
	b.awaitState(high, headrace.Running)
	if got := b.awaitState(low, headrace.Suspended); got.NoCheckpoint != "" {
		t.Errorf("a full store is not the task's fault: %q", got.NoCheckpoint)
	}
}

func TestRestoreWithoutImage(t *testing.T) {
	for _, c := range []struct {
		change func(*wire.RunRequest)
		want   headrace.TaskState
	}{
		{never, headrace.Lost},
		{func(*wire.RunRequest) {}, headrace.Running},
	} {
		b := newBed(t, policy.Cost)
		b.start()
		id := b.run(headrace.Normal, c.change)
		b.awaitState(id, headrace.Running)
		if _, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
			t.Fatal(err)
		}
		b.world.with(id, func(th *thing) { clear(th.images) })
		if _, err := b.tasks.Restore(b.ctx(), &wire.VerbRequest{Id: string(id)}); connect.CodeOf(err) != connect.CodeDataLoss {
			t.Errorf("restore: %v", err)
		}
		b.awaitState(id, c.want)
	}
}
