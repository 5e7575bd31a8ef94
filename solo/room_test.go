package solo

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"headrace"
	"headrace/disk"
	"headrace/internal/testkit"
	"headrace/limits"
	"headrace/policy"
	"headrace/serve"
	"headrace/wire"
)

// twoTasks starts a daemon with memory for one of two tasks, which run.
func (b *bed) twoTasks(con *conn) (first, second headrace.TaskID) {
	b.t.Helper()
	b.cfg.Slots, b.cfg.Memory = 2, 150<<20 // each has 100
	if err := b.startWith(con); err != nil {
		b.t.Fatal(err)
	}
	first, second = b.run(headrace.Normal), b.run(headrace.Normal)
	for _, id := range []headrace.TaskID{first, second} {
		b.awaitState(id, headrace.Running)
		b.await(id, "measured", hasResident)
	}
	return first, second
}

func hasResident(w *wire.Task) bool { return w.Usage.Resident > 0 }

func (b *bed) verb(do func(*wire.VerbRequest) (*wire.Task, error), id headrace.TaskID) *wire.Task {
	b.t.Helper()
	got, err := do(&wire.VerbRequest{Id: string(id)})
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

func (b *bed) checkpointNow(id headrace.TaskID) *wire.Task {
	b.t.Helper()
	return b.verb(func(r *wire.VerbRequest) (*wire.Task, error) { return b.tasks.Checkpoint(b.ctx(), r) }, id)
}

func (b *bed) restoreNow(id headrace.TaskID) *wire.Task {
	b.t.Helper()
	return b.verb(func(r *wire.VerbRequest) (*wire.Task, error) { return b.tasks.Restore(b.ctx(), r) }, id)
}

// TestRestoredMemoryIsTaken: the memory of a task that has just been restored is not given to the next one before anybody has
// measured it.
func TestRestoredMemoryIsTaken(t *testing.T) {
	b := newBed(t, policy.Wait)
	var silent atomic.Bool
	con := &conn{world: b.world}
	con.before = func(op string, _ headrace.TaskID) error {
		if op == "stats" && silent.Load() {
			return errors.New("no answer")
		}
		return nil
	}
	first, second := b.twoTasks(con)
	b.checkpointNow(first)
	b.checkpointNow(second)
	silent.Store(true)
	if w := b.restoreNow(first); w.State != "running" {
		t.Fatalf("it is %s: %s", w.State, w.Reason)
	}
	if w := b.restoreNow(second); w.State != "checkpointed" || w.Doing != "" {
		t.Errorf("with memory for one of them the second is %s %s", w.State, w.Doing)
	}
	silent.Store(false)
	b.await(first, "measured", hasResident)
	b.finish(first, 0)
	b.awaitState(second, headrace.Running)
}

// TestCompressedMemoryIsTaken: what a checkpoint takes on the storage is not what its task needs.
func TestCompressedMemoryIsTaken(t *testing.T) {
	b := newBed(t, policy.Wait)
	first, second := b.twoTasks(&conn{world: b.world})
	b.world.with(second, func(th *thing) { th.toRead = 10 << 20 })
	b.checkpointNow(second)
	if w := b.restoreNow(second); w.State != "checkpointed" || w.Doing != "" {
		t.Errorf("with memory for one of them the second is %s %s", w.State, w.Doing)
	}
	b.finish(first, 0)
	b.awaitState(second, headrace.Running)
}

// TestMemoryThatComesFromSwapIsTaken: while the memory of a resumed task is read from swap it is not given to another one.
func TestMemoryThatComesFromSwapIsTaken(t *testing.T) {
	b := newBed(t, policy.Wait)
	con := &conn{world: b.world}
	release := make(chan struct{})
	con.before = func(op string, _ headrace.TaskID) error {
		if op == "pagein" {
			<-release
		}
		return nil
	}
	first, second := b.twoTasks(con)
	b.checkpointNow(second)
	b.verb(func(r *wire.VerbRequest) (*wire.Task, error) { return b.tasks.Suspend(b.ctx(), r) }, first)
	b.world.with(first, func(th *thing) { th.resident, th.swapped = 10<<20, 90<<20 })
	b.await(first, "in swap", func(w *wire.Task) bool { return w.Usage.Swapped > 0 })
	b.verb(func(r *wire.VerbRequest) (*wire.Task, error) { return b.tasks.Resume(b.ctx(), r) }, first)
	b.await(first, "measured as it runs", func(w *wire.Task) bool { return w.State == "running" && w.Usage.Resident == 10<<20 })
	if w := b.restoreNow(second); w.State != "checkpointed" || w.Doing != "" {
		t.Errorf("with memory for one of them the second is %s %s", w.State, w.Doing)
	}
	close(release)
	b.await(first, "in memory", func(w *wire.Task) bool { return w.Usage.Resident == 100<<20 })
	b.finish(first, 0)
	b.awaitState(second, headrace.Running)
}

// TestNothingStartsBeforeAllIsMeasured: a daemon that begins does not take the memory of what runs for free.
func TestNothingStartsBeforeAllIsMeasured(t *testing.T) {
	b := newBed(t, policy.Wait)
	b.cfg.Slots, b.cfg.Memory = 2, 150<<20
	b.start()
	first := b.run(headrace.Normal)
	b.awaitState(first, headrace.Running)
	b.await(first, "measured", hasResident)
	second := b.run(headrace.Normal, func(q *wire.RunRequest) { q.Memory = 100 << 20 })
	b.shutdown()
	b.start()
	b.await(first, "measured", hasResident)
	if w := b.get(second); w.State != "pending" || w.Doing != "" {
		t.Errorf("with memory for one of them the second is %s %s", w.State, w.Doing)
	}
	b.world.with(second, func(th *thing) {
		if th.starts > 0 {
			t.Error("it was started")
		}
	})
	b.finish(first, 0)
	b.awaitState(second, headrace.Running)
}

// TestRoomOfAStoreIsPromisedOnce: what a dump that waits for its turn is to write is not offered to another one, and when a
// dump has its turn there has to be room still.
func TestRoomOfAStoreIsPromisedOnce(t *testing.T) {
	var space atomic.Int64
	space.Store(10 << 30)
	m, _, here := newMover(t, 3, func(b *bed) { b.space = func(string) int64 { return space.Load() } })
	seen := func(want int64) {
		t.Helper()
		testkit.Await(t, "the free room", func() bool {
			n, err := m.node.Info(m.ctx(), &wire.InfoRequest{})
			if err != nil {
				t.Fatal(err)
			}
			return n.Stores[0].Free == want
		})
	}
	for _, id := range here {
		m.await(id, "measured", hasResident)
	}
	space.Store(250 << 20) // each writes 100
	seen(250 << 20)
	m.ask(disk.Dump, here[0])
	m.ask(disk.Dump, here[1])
	m.awaitBegun(name(disk.Dump, here[0])) // it has looked how much room there is
	seen(50 << 20)
	if _, err := m.tasks.Checkpoint(m.ctx(), &wire.VerbRequest{Id: string(here[2])}); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("there is room for two of three: %v", err)
	}
	space.Store(180 << 20) // the first has written 70
	seen(50 << 20)
	space.Store(150 << 20)
	m.end(disk.Dump, here[0])
	m.awaitState(here[0], headrace.Checkpointed)
	m.awaitBegun(name(disk.Dump, here[1]))
	seen(50 << 20)
	m.end(disk.Dump, here[1])
	m.awaitState(here[1], headrace.Checkpointed)
}

// TestDumpLooksForRoomAtItsTurn: somebody else may have taken what there was when it was asked for.
func TestDumpLooksForRoomAtItsTurn(t *testing.T) {
	var space atomic.Int64
	space.Store(10 << 30)
	m, _, here := newMover(t, 2, func(b *bed) { b.space = func(string) int64 { return space.Load() } })
	for _, id := range here {
		m.await(id, "measured", hasResident)
	}
	m.ask(disk.Dump, here[0])
	m.ask(disk.Dump, here[1])
	m.awaitBegun(name(disk.Dump, here[0])) // there was room for it
	space.Store(50 << 20)
	m.end(disk.Dump, here[0])
	w := m.await(here[1], "refused", func(w *wire.Task) bool { return w.Doing == "" })
	if w.State != "running" || !strings.Contains(w.Reason, "checkpoints may take") {
		t.Errorf("it is %s: %s", w.State, w.Reason)
	}
	m.wantBegun(name(disk.Dump, here[0]))
}

// TestCheckpointsUnderWayCount: what a user's dumps that wait are to hold counts with the limit.
func TestCheckpointsUnderWayCount(t *testing.T) {
	needRoot(t)
	m, _, _ := newMover(t, 3, func(b *bed) {
		b.cfg.Limits = limits.NewSource(limitsFrom(t, "[limits]\ncheckpoint-bytes = 150MiB\n"))
	})
	var all []headrace.TaskID
	for range 2 {
		id := m.run(headrace.Normal, as("daemon")) // 100 MB
		m.await(id, "measured", hasResident)
		all = append(all, id)
	}
	m.askAs(1, all[0])
	_, err := m.loop.calls.ask(m.ctx(), &call{command: headrace.CommandCheckpoint, id: all[1], by: serve.Viewer{UID: 1}})
	if !errors.Is(err, serve.ErrBusy) {
		t.Errorf("beyond the limit, once the first is done: %v", err)
	}
	m.end(disk.Dump, all[0])
	m.awaitState(all[0], headrace.Checkpointed)
}
