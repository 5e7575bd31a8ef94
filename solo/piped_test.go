package solo

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"headrace"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/wire"
)

// piped makes a file as headrace run does, and returns a change that makes it a task's input.
func (b *bed) piped() (f *os.File, change func(*wire.RunRequest)) {
	b.t.Helper()
	f, err := MakePiped(b.cfg.StateDir)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { f.Close(); os.Remove(f.Name()) })
	return f, func(q *wire.RunRequest) { q.Stdin = f.Name() }
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// TestPipedInputLastsAsLongAsItsTask: a client that is gone, restarts of the daemon, a kill to
// make room and a new start, a checkpoint and a restore, and a loss that a user can mend leave
// it; the end for good takes it.
func TestPipedInputLastsAsLongAsItsTask(t *testing.T) {
	b := newBed(t, policy.Kill)
	b.start()
	f, in := b.piped()
	id := b.run(headrace.Low, in)
	f.Close()
	b.awaitState(id, headrace.Running)
	kept := func(when string) {
		t.Helper()
		if !isThere(f.Name()) {
			t.Fatalf("its input is gone %s", when)
		}
	}
	urgent := b.run(headrace.High)
	b.awaitState(id, headrace.Pending)
	kept("when it was killed to make room")
	b.crash()
	b.start()
	kept("when the daemon was killed")
	b.finish(urgent, 0)
	b.awaitState(id, headrace.Running)
	b.world.vanish(id)
	b.awaitState(id, headrace.Running)
	kept("when it started again after a loss")
	q := &wire.VerbRequest{Id: string(id)}
	if _, err := b.tasks.Checkpoint(b.ctx(), q); err != nil {
		t.Fatal(err)
	}
	b.shutdown()
	b.start()
	kept("when it was checkpointed and the daemon started again")
	if _, err := b.tasks.Restore(b.ctx(), q); err != nil {
		t.Fatal(err)
	}
	b.awaitState(id, headrace.Running)
	b.finish(id, 3)
	b.awaitState(id, headrace.Failed)
	testkit.Await(t, "the end of its input", func() bool { return !isThere(f.Name()) })
}

func TestPipedInputOfALostTask(t *testing.T) {
	b := newBed(t, policy.Wait)
	b.start()
	f, in := b.piped()
	id := b.run(headrace.Normal, in, never)
	f.Close()
	b.awaitState(id, headrace.Running)
	q := &wire.VerbRequest{Id: string(id)}
	if _, err := b.tasks.Checkpoint(b.ctx(), q); err != nil {
		t.Fatal(err)
	}
	if _, err := b.tasks.Restore(b.ctx(), q); err != nil {
		t.Fatal(err)
	}
	b.awaitState(id, headrace.Running)
	b.world.vanish(id)
	b.awaitState(id, headrace.Lost)
	b.shutdown()
	b.start()
	if !isThere(f.Name()) {
		t.Fatal("its input is gone, and it can be restored")
	}
	if _, err := b.tasks.Forget(b.ctx(), q); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "the end of its input", func() bool { return !isThere(f.Name()) })
}

// TestPipedInputThatNoTaskHas goes when a daemon starts, unless its client still has it. That
// of other daemons stays.
func TestPipedInputThatNoTaskHas(t *testing.T) {
	b, other := newBed(t, policy.Wait), newBed(t, policy.Wait)
	left, _ := b.piped()
	left.Close()
	open, _ := b.piped()
	others, _ := other.piped()
	others.Close()
	b.start()
	if isThere(left.Name()) {
		t.Error("what nobody has is left")
	}
	if !isThere(open.Name()) {
		t.Error("what a client is about to hand in is gone")
	}
	if !isThere(others.Name()) {
		t.Error("what belongs to another daemon is gone")
	}
}

// TestPipedInputOfAnother: naming the file of another user as input does not have it removed.
func TestPipedInputOfAnother(t *testing.T) {
	needRoot(t)
	b := newBed(t, policy.Wait)
	b.start()
	f, in := b.piped()
	if err := f.Chown(4003, 4003); err != nil {
		t.Fatal(err)
	}
	id := b.run(headrace.Normal, in)
	b.awaitState(id, headrace.Running)
	b.finish(id, 0)
	b.awaitState(id, headrace.Done)
	b.shutdown() // waits for what runs beside the loop
	if !isThere(f.Name()) {
		t.Error("the file of another user was removed")
	}
}
