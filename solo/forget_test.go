package solo

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"headrace"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/solo/board"
	"headrace/wire"
)

// inLoop returns what the loop finds out.
func inLoop[T any](b *bed, find func(l *loop) T) T {
	found := make(chan T, 1)
	b.loop.post(func() { found <- find(b.loop) })
	return <-found
}

// losesSaved has a task end as lost that can be restored from its checkpoint.
func (b *bed) losesSaved() headrace.TaskID {
	b.t.Helper()
	id := b.run(headrace.Low, never)
	b.awaitState(id, headrace.Running)
	b.checkpointNow(id)
	b.restoreNow(id)
	b.awaitState(id, headrace.Running)
	b.world.vanish(id)
	b.awaitState(id, headrace.Lost)
	return id
}

// TestAskedBehindForget: what is asked of a task while it is being forgotten finds none when that is done, and has nothing of it
// come back.
func TestAskedBehindForget(t *testing.T) {
	b := newBed(t, policy.Suspend)
	con := &conn{world: b.world}
	began, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	con.before = func(op string, _ headrace.TaskID) error {
		if op == "remove" {
			once.Do(func() { close(began) })
			<-goOn
		}
		return nil
	}
	if err := b.startWith(con); err != nil {
		t.Fatal(err)
	}
	id := b.losesSaved()
	b.awaitState(b.run(headrace.High), headrace.Running) // has the slot
	q := &wire.VerbRequest{Id: string(id)}
	ctx := b.ctx()
	var forgotten error
	asked := make(chan error)
	var wg sync.WaitGroup
	wg.Go(func() { _, forgotten = b.tasks.Forget(ctx, q) })
	<-began
	verbs := []func() error{
		func() error { _, err := b.tasks.Restore(ctx, q); return err },
		func() error { _, err := b.tasks.Suspend(ctx, q); return err },
		func() error { _, err := b.tasks.Checkpoint(ctx, q); return err },
		func() error { _, err := b.tasks.Kill(ctx, q); return err },
		func() error { _, err := b.tasks.Forget(ctx, q); return err },
	}
	for _, ask := range verbs {
		go func() { asked <- ask() }()
	}
	testkit.Await(t, "all to wait", func() bool {
		return len(verbs) == inLoop(b, func(l *loop) int { return len(l.tasks.all[id].queue) })
	})
	close(goOn)
	for range verbs {
		if err := <-asked; connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("what was asked meanwhile: %v", err)
		}
	}
	if wg.Wait(); forgotten != nil {
		t.Error("forget:", forgotten)
	}
	waits := b.run(headrace.High)
	b.await(waits, "told why it waits", func(w *wire.Task) bool { return w.Reason != board.WaitsForSlot })
	list, err := b.tasks.List(ctx, &wire.ListRequest{All: true})
	if err != nil || len(list.Tasks) != 2 {
		t.Errorf("there are %v (%v), want the two others", list, err)
	}
}

// TestCheckpointsOfTheLostCount: what could be brought back counts with what its owner, and a store, has, and goes when too many
// have ended since.
func TestCheckpointsOfTheLostCount(t *testing.T) {
	b := newBed(t, policy.Suspend)
	b.cfg.KeepEnded = 1
	b.start()
	lost := b.losesSaved()
	held := func() [2]int64 {
		return inLoop(b, func(l *loop) (held [2]int64) {
			l.admission.uses = nil
			return [2]int64{l.admission.useOf(l.tasks.all[lost].rec.UID).CheckpointBytes, l.nodeStatus().Stores[0].Used}
		})
	}
	if got, want := held(), int64(100<<20); got != [2]int64{want, want} {
		t.Errorf("its owner and the store have %d bytes, want %d each", got, want)
	}
	later := b.run(headrace.Normal)
	b.awaitState(later, headrace.Running)
	b.finish(later, 0)
	testkit.Await(t, "the lost one to be forgotten", func() bool {
		_, err := b.tasks.Get(b.ctx(), &wire.GetRequest{Id: string(lost)})
		return connect.CodeOf(err) == connect.CodeNotFound
	})
	b.world.with(lost, func(th *thing) {
		for store, images := range th.images {
			if len(images) > 0 {
				t.Errorf("its checkpoints in %s stay", store)
			}
		}
	})
}

// TestEndedAreConcludedInTurn: a daemon that starts with many ended tasks does not ask for all of them at once.
func TestEndedAreConcludedInTurn(t *testing.T) {
	b := newBed(t, policy.Wait)
	const n = 20
	b.cfg.Slots = n
	b.start()
	for range n {
		id := b.run(headrace.Normal)
		b.awaitState(id, headrace.Running)
		b.finish(id, 0)
		b.awaitState(id, headrace.Done)
	}
	b.shutdown()
	b.world.reboot()
	b.boot = "boot-2"
	con := &conn{world: b.world}
	var concluded atomic.Int32
	goOn := make(chan struct{})
	con.concluding = func(headrace.TaskID) {
		concluded.Add(1)
		<-goOn
	}
	if err := b.startWith(con); err != nil {
		t.Fatal(err)
	}
	b.awaitState(b.run(headrace.Normal), headrace.Running)
	if got := concluded.Load(); got > 1 {
		t.Errorf("%d are concluded at once", got)
	}
	close(goOn)
	testkit.Await(t, "the others", func() bool { return concluded.Load() == n })
}

// TestHeldAreNotFollowed: what is in memory of the input of a task that does not wait to run is not looked at.
func TestHeldAreNotFollowed(t *testing.T) {
	b := newBed(t, policy.Wait)
	b.start()
	path := testkit.File(t, testkit.OpenDir(t), "input", 1, 0o644)
	reads := func(q *wire.RunRequest) { q.Input = &wire.Input{Paths: []string{path}, NoWarm: true} }
	b.awaitState(b.run(headrace.High), headrace.Running)
	kept := b.run(headrace.Normal, reads, held)
	waits := b.run(headrace.Normal, reads)
	followed := func(id headrace.TaskID) bool {
		return inLoop(b, func(l *loop) bool { return l.tasks.all[id].followed })
	}
	testkit.Await(t, "the one that waits to be followed", func() bool { return followed(waits) })
	if followed(kept) {
		t.Error("one that is held is followed")
	}
	if _, err := b.tasks.Resume(context.Background(), &wire.VerbRequest{Id: string(kept)}); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "it to be followed when it waits", func() bool { return followed(kept) })
}
