package solo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
	b.awaitState(urgent, headrace.Running)
	b.finish(urgent, 0)
	b.awaitState(id, headrace.Running)
	b.world.vanish(id)
	testkit.Await(t, "its third start", func() (again bool) {
		b.world.with(id, func(x *thing) { again = x.starts == 3 })
		return again
	})
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

// TestPipedInputLooksUsed: who cleans /var/tmp by age does not take what a task waits to read.
func TestPipedInputLooksUsed(t *testing.T) {
	b := newBed(t, policy.Wait)
	f, in := b.piped()
	old := time.Now().Add(-40 * 24 * time.Hour)
	if err := os.Chtimes(f.Name(), old, old); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.awaitState(b.run(headrace.Normal), headrace.Running)
	b.run(headrace.Normal, in)
	f.Close()
	b.shutdown()
	b.start()
	testkit.Await(t, "a use of it", func() bool {
		var st unix.Stat_t
		if err := unix.Stat(f.Name(), &st); err != nil {
			t.Fatal(err)
		}
		if st.Mtim.Nano() != old.UnixNano() {
			t.Fatal("a restore would take it for another file")
		}
		return time.Since(time.Unix(st.Atim.Unix())) < time.Hour
	})
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
	b.start()
	b.shutdown()
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

// TestPipedInputWhileRecordsAreAway: records that are moved away and put back find what their tasks wait for.
func TestPipedInputWhileRecordsAreAway(t *testing.T) {
	b := newBed(t, policy.Wait)
	db := filepath.Join(b.cfg.StateDir, "state.db")
	b.start()
	f, in := b.piped()
	id := b.run(headrace.Normal, in, held)
	f.Close()
	b.shutdown()
	if err := os.Rename(db, db+".away"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds those that the first has made
		b.start()
		b.shutdown()
	}
	if !isThere(f.Name()) {
		t.Fatal("its input is gone")
	}
	if err := os.Rename(db+".away", db); err != nil {
		t.Fatal(err)
	}
	b.start()
	if _, err := b.tasks.Resume(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
		t.Fatal(err)
	}
	b.awaitState(id, headrace.Running)
	b.finish(id, 0)
	b.awaitState(id, headrace.Done)
	testkit.Await(t, "the end of its input", func() bool { return !isThere(f.Name()) })
}

// TestPipedInputOfUnknownTasks: what a task waits for that the records do not know, and that is only a checkpoint, stays.
func TestPipedInputOfUnknownTasks(t *testing.T) {
	b := newBed(t, policy.Wait)
	b.start()
	b.shutdown()
	keep := filepath.Join(t.TempDir(), "state.db")
	copyFile(t, filepath.Join(b.cfg.StateDir, "state.db"), keep)
	b.start()
	f, in := b.piped()
	id := b.run(headrace.Normal, in)
	f.Close()
	b.awaitState(id, headrace.Running)
	if _, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
		t.Fatal(err)
	}
	b.shutdown()
	b.world.reboot() // no supervisor tells what it has
	putBack(b, keep)
	b.start()
	if !isThere(f.Name()) {
		t.Error("its input is gone")
	}
}
