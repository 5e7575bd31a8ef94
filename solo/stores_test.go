package solo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/proc"
	"headrace/solo/presence"
	"headrace/wire"
)

// TestStoreNotThere: while the file system of a store is not mounted, also from a start of
// the daemon on, what was checkpointed there waits and goes on afterwards; nothing is
// started over, and nothing is written where the store is to be.
func TestStoreNotThere(t *testing.T) {
	for _, empty := range []bool{false, true} {
		for _, running := range []bool{false, true} {
			t.Run(fmt.Sprintf("empty directory %v, daemon runs %v", empty, running), func(t *testing.T) {
				t.Parallel()
				b := newBed(t, policy.Wait)
				id := b.bringTo(headrace.Checkpointed, func(*wire.RunRequest) {})
				dir := filepath.Join(b.cfg.StateDir, "checkpoints")
				if presence.InMemory(dir) {
					t.Skip("the directory for temporary files is in memory, where nothing is held to be missing")
				}
				if !running {
					b.shutdown()
				}
				if err := os.Rename(dir, dir+".mounted"); err != nil {
					t.Fatal(err)
				}
				if empty {
					if err := os.Mkdir(dir, 0o700); err != nil {
						t.Fatal(err)
					}
				}
				b.world.with(id, func(th *thing) { th.noRestore = errors.Join(proc.ErrNoImage) })
				if !running {
					b.start()
				}
				q := &wire.VerbRequest{Id: string(id)}
				b.tasks.Restore(b.ctx(), q)
				b.await(id, "waiting for its store", func(w *wire.Task) bool {
					return w.State == "checkpointed" && w.Doing == "" && strings.Contains(w.Reason, "is its file system mounted?")
				})
				other := b.run(headrace.Normal) // has the slot
				b.awaitState(other, headrace.Running)
				if _, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(other)}); err == nil {
					t.Error("a checkpoint was taken into it")
				}
				if left, err := os.ReadDir(dir); len(left) > 0 || empty == (err != nil) {
					t.Errorf("in the place of the store is %v, %v", left, err)
				}
				b.finish(other, 0)
				b.world.with(id, func(th *thing) { th.noRestore = nil })
				if empty {
					if err := os.Remove(dir); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.Rename(dir+".mounted", dir); err != nil {
					t.Fatal(err)
				}
				b.awaitState(id, headrace.Running)
				b.world.with(id, func(th *thing) {
					if th.starts != 1 {
						t.Errorf("started %d times", th.starts)
					}
				})
			})
		}
	}
}

// TestStartWithoutItsStore: a task that is to start anew, and whose store has gone meanwhile with what
// is to be removed first, waits for that and for nothing else, and says so.
func TestStartWithoutItsStore(t *testing.T) {
	b := newBed(t, policy.Wait)
	id := b.bringTo(headrace.Checkpointed, func(*wire.RunRequest) {})
	dir := filepath.Join(b.cfg.StateDir, "checkpoints")
	if presence.InMemory(dir) {
		t.Skip("the directory for temporary files is in memory, where nothing is held to be missing")
	}
	b.shutdown()
	k := &conn{world: b.world}
	k.before = func(op string, _ headrace.TaskID) error {
		if op != "restore" {
			return nil
		}
		return errors.Join(os.Rename(dir, dir+".mounted"), proc.ErrNoImage) // so that it starts over
	}
	if err := b.startWith(k); err != nil {
		t.Fatal(err)
	}
	b.tasks.Restore(b.ctx(), &wire.VerbRequest{Id: string(id)}) // it may have begun anew, or wait by now
	got := b.await(id, "waiting for its store", func(w *wire.Task) bool {
		return w.State == "pending" && w.Doing == "" && strings.Contains(w.Reason, "is its file system mounted?")
	})
	if strings.Contains(got.Reason, "another process") || strings.Count(got.Reason, dir) != 2 { // there, and as an argument
		t.Errorf("it waits because: %s", got.Reason)
	}
	if err := os.Rename(dir+".mounted", dir); err != nil {
		t.Fatal(err)
	}
	b.awaitState(id, headrace.Running)
}

// TestStoreIsLost: who says so has the tasks of a lost store begin again.
func TestStoreIsLost(t *testing.T) {
	b := newBed(t, policy.Wait)
	id := b.bringTo(headrace.Checkpointed, func(*wire.RunRequest) {})
	b.tasks.Restore(b.ctx(), &wire.VerbRequest{Id: string(id)})
	b.awaitState(id, headrace.Running)
	b.shutdown()
	b.world.reboot()
	b.boot = "boot-2"
	dir := filepath.Join(b.cfg.StateDir, "checkpoints")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	b.world.with(id, func(th *thing) { clear(th.images) })
	b.cfg.NewStores = []string{dir}
	b.start()
	b.awaitState(id, headrace.Running)
	b.world.with(id, func(th *thing) {
		if th.starts != 2 {
			t.Errorf("started %d times", th.starts)
		}
	})
	if presence.InMemory(dir) {
		return // nothing is held to be missing there
	}

	// The settings stay as they are, and later the new store is only not mounted.
	q := &wire.VerbRequest{Id: string(id)}
	if _, err := b.tasks.Checkpoint(b.ctx(), q); err != nil {
		t.Fatal(err)
	}
	b.shutdown()
	if err := os.Rename(dir, dir+".mounted"); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.tasks.Restore(b.ctx(), q)
	waiting := func(w *wire.Task) bool {
		return w.State == "checkpointed" && w.Doing == "" && strings.Contains(w.Reason, "is its file system mounted?")
	}
	b.await(id, "waiting for its store", waiting)
	b.shutdown()
	b.cfg.NewStores = nil // once without it: then it counts again
	b.start()
	b.await(id, "waiting for its store", waiting)
	b.shutdown()
	b.cfg.NewStores = []string{dir}
	b.world.with(id, func(th *thing) { clear(th.images) })
	b.start()
	b.await(id, "starting anew", func(w *wire.Task) bool { return w.State == "running" && w.Doing == "" })
}

// TestRealStoreNotMounted takes the file system of a store away under a daemon that is down,
// and brings it back.
func TestRealStoreNotMounted(t *testing.T) {
	m := newMachine(t, policy.Wait)
	if !m.image {
		t.Skip("without root or CRIU there are no checkpoints")
	}
	dir := filepath.Join(m.cfg.StateDir, "mnt")
	if presence.InMemory(m.cfg.StateDir) {
		t.Skip("the directory for temporary files is in memory, where nothing is held to be missing")
	}
	for _, d := range []string{dir, dir + ".disk"} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	mount := func() {
		if err := unix.Mount(dir+".disk", dir, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	mount()
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	m.flags = []string{"--store", "fast=" + dir}
	m.launch()
	gated, goOn := m.gated(60)
	id := m.run(headrace.Normal, gated)
	m.awaitState(id, headrace.Running)
	q := &wire.VerbRequest{Id: string(id)}
	if _, err := m.tasks.Checkpoint(m.ctx(), q); err != nil {
		t.Fatal(err)
	}
	m.kill9()
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	m.launch()
	m.tasks.Restore(m.ctx(), q)
	m.await(id, "waiting for its store", func(w *wire.Task) bool {
		return w.State == "checkpointed" && w.Doing == "" && strings.Contains(w.Reason, "is its file system mounted?")
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("in the place of the store is %v, %v", left, err)
	}
	mount()
	goOn()
	m.awaitState(id, headrace.Done)
	m.wantCount(id, 60)
}

// TestRealStoreOthersDoNotSee: a supervisor has the mounts of when it was started. Where it does not see the store
// that the daemon sees, nothing is written in its place, and what is saved there is not taken for lost.
func TestRealStoreOthersDoNotSee(t *testing.T) {
	m := newMachine(t, policy.Wait)
	if !m.image {
		t.Skip("without root or CRIU there are no checkpoints")
	}
	if presence.InMemory(m.cfg.StateDir) {
		t.Skip("the directory for temporary files is in memory, where nothing is held to be missing")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	checkpoint := func(id headrace.TaskID) error {
		_, err := m.tasks.Checkpoint(m.ctx(), &wire.VerbRequest{Id: string(id)})
		return err
	}
	alone := filepath.Join(m.cfg.StateDir, "alone")
	dir, moved := filepath.Join(alone, "mnt"), filepath.Join(alone, "moved")
	must(os.Mkdir(alone, 0o700))
	must(unix.Mount(alone, alone, "", unix.MS_BIND, ""))
	t.Cleanup(func() { unix.Unmount(alone, unix.MNT_DETACH) })
	must(unix.Mount("", alone, "", unix.MS_PRIVATE, "")) // what is mounted below it comes to no other namespace
	m.flags = []string{"--store", "fast=" + dir}
	m.launch()

	stays := m.run(headrace.Normal, counter(100_000)) // as long as something is in it no other store is made
	m.awaitState(stays, headrace.Running)
	must(checkpoint(stays))

	// It is moved, with a mount in its place, while a supervisor waits.
	starts := filepath.Join(m.cfg.StateDir, "starts")
	gated, goOn := m.gated(60)
	id := m.run(headrace.Normal, func(q *wire.RunRequest) {
		gated(q)
		q.Argv[2] = fmt.Sprintf("echo >>%s; %s", starts, q.Argv[2])
	})
	m.awaitState(id, headrace.Running)
	m.awaitFile(starts)
	must(checkpoint(id))
	m.kill9()
	must(os.Rename(dir, moved))
	must(os.Mkdir(dir, 0o700))
	must(unix.Mount(moved, dir, "", unix.MS_BIND, ""))
	m.launch()
	m.tasks.Restore(m.ctx(), &wire.VerbRequest{Id: string(id)}) // it may not succeed at once
	goOn()
	m.awaitState(id, headrace.Done)
	m.wantCount(id, 60)
	if b, err := os.ReadFile(starts); err != nil || len(b) != 1 {
		t.Errorf("it was started %d times, %v: its checkpoint was there", len(b), err)
	}

	// It is mounted after a task was started.
	m.kill9()
	must(unix.Unmount(dir, 0))
	m.launch()
	gated, goOn = m.gated(60)
	id = m.run(headrace.Normal, gated)
	m.awaitState(id, headrace.Running)
	must(unix.Mount(moved, dir, "", unix.MS_BIND, ""))
	var err error
	testkit.Await(t, "the store", func() bool {
		err = checkpoint(id)
		return err == nil || !strings.Contains(err.Error(), "has no room") && !strings.Contains(err.Error(), "no checkpoint store")
	})
	if err == nil || !strings.Contains(err.Error(), "seen from this task") {
		t.Errorf("a checkpoint to where the daemon does not see it: %v", err)
	}
	must(unix.Unmount(dir, 0))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("in the place of the store is %v, %v", left, err)
	}
	goOn()
	m.awaitState(id, headrace.Done)
	m.wantCount(id, 60)
}

// silent mounts a file system over a directory that answers nothing, and returns what ends that.
func silent(t *testing.T, dir string) (end func()) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Mount("silent", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd))
	}
	if err != nil {
		unix.Close(fd)
		t.Skip("a file system that does not answer needs root and FUSE: ", err)
	}
	return sync.OnceFunc(func() {
		unix.Unmount(dir, unix.MNT_DETACH)
		unix.Close(fd) // whoever waits has an error
	})
}

// TestRealStoreDoesNotAnswer: the daemon starts although one of its stores is on a file system that hangs; tasks
// run and are killed meanwhile, and what is checkpointed there goes on once it answers.
func TestRealStoreDoesNotAnswer(t *testing.T) {
	m := newMachine(t, policy.Wait)
	if !m.image {
		t.Skip("without root or CRIU there are no checkpoints")
	}
	good, dir := filepath.Join(m.cfg.StateDir, "good"), filepath.Join(m.cfg.StateDir, "hangs")
	m.flags = []string{"--store", "good=" + good, "--store", "hangs=" + dir}
	m.launch()
	gated, goOn := m.gated(30)
	id := m.run(headrace.Normal, gated)
	m.awaitState(id, headrace.Running)
	q := &wire.VerbRequest{Id: string(id), Store: "hangs"}
	if _, err := m.tasks.Checkpoint(m.ctx(), q); err != nil {
		t.Fatal(err)
	}
	other := m.run(headrace.Normal, counter(100_000))
	m.awaitState(other, headrace.Running)
	m.kill9()
	end := silent(t, dir)
	t.Cleanup(end)
	m.launch()
	m.tasks.Restore(m.ctx(), q)
	m.await(id, "waiting for its store", func(w *wire.Task) bool {
		return w.State == "checkpointed" && w.Doing == "" && strings.Contains(w.Reason, "has not answered")
	})
	m.killed(other)
	third := m.run(headrace.Normal, counter(5))
	m.awaitState(third, headrace.Done)
	end()
	goOn()
	m.awaitState(id, headrace.Done)
	m.wantCount(id, 30)
}
