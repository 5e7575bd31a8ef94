package solo

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"headrace"
	"headrace/policy"
	"headrace/wire"
)

// TestUnknownTasksGoOn: what runs, and is not in the records or in them as something that has not begun, goes on and can be
// asked for, also after the records of an earlier boot were put back.
func TestUnknownTasksGoOn(t *testing.T) {
	for name, old := range map[string]func(b *bed, keep string){
		"moved away":                     func(b *bed, _ string) { os.Remove(filepath.Join(b.cfg.StateDir, "state.db")) },
		"put back, it had not begun":     putBack,
		"of an earlier boot, not begun":  func(b *bed, keep string) { b.boot = "boot-2"; putBack(b, keep) },
		"of an earlier boot, it ran too": func(b *bed, _ string) { b.boot = "boot-2" },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, policy.Wait)
			id := b.bringTo(headrace.Pending, func(q *wire.RunRequest) { q.Name = "precious" })
			b.shutdown()
			keep := filepath.Join(t.TempDir(), "state.db")
			copyFile(t, filepath.Join(b.cfg.StateDir, "state.db"), keep)
			b.start()
			if _, err := b.tasks.Resume(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
				t.Fatal(err)
			}
			b.awaitState(id, headrace.Running)
			b.crash()
			old(b, keep)
			b.start()
			got := b.awaitState(id, headrace.Running)
			if name != "of an earlier boot, it ran too" && !strings.Contains(got.Reason, "did not know it") {
				t.Errorf("it runs because: %s", got.Reason)
			}
			b.world.with(id, func(th *thing) {
				if th.starts != 1 || th.shim == nil {
					t.Errorf("it was started %d times; supervised: %v", th.starts, th.shim != nil)
				}
			})
			b.finish(id, 0)
			b.awaitState(id, headrace.Done)
		})
	}
}

func putBack(b *bed, keep string) { copyFile(b.t, keep, filepath.Join(b.cfg.StateDir, "state.db")) }

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRecordsOfAnEarlierState: a task that has been suspended, continued or checkpointed since the records were copied is
// taken for what it is.
func TestRecordsOfAnEarlierState(t *testing.T) {
	nothing := func(*bed) {}
	reboot := func(b *bed) { b.world.reboot(); b.boot = "boot-2" }
	for name, c := range map[string]struct {
		was, is headrace.TaskState
		between func(*bed)
	}{
		"suspended":                      {headrace.Running, headrace.Suspended, nothing},
		"continued":                      {headrace.Suspended, headrace.Running, nothing},
		"checkpointed, supervisor waits": {headrace.Running, headrace.Checkpointed, nothing},
		"checkpointed, and rebooted":     {headrace.Running, headrace.Checkpointed, reboot},
		"checkpointed when suspended":    {headrace.Suspended, headrace.Checkpointed, nothing},
		"unchanged":                      {headrace.Running, headrace.Running, nothing},
		"unchanged, suspended by a user": {headrace.Suspended, headrace.Suspended, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, policy.Wait)
			id := b.bringTo(c.was, never)
			b.shutdown()
			keep := filepath.Join(t.TempDir(), "state.db")
			copyFile(t, filepath.Join(b.cfg.StateDir, "state.db"), keep)
			b.start()
			q := &wire.VerbRequest{Id: string(id)}
			var err error
			switch {
			case c.is == c.was:
			case c.is == headrace.Running:
				_, err = b.tasks.Resume(b.ctx(), q)
			case c.is == headrace.Suspended:
				_, err = b.tasks.Suspend(b.ctx(), q)
			default:
				_, err = b.tasks.Checkpoint(b.ctx(), q)
			}
			if err != nil {
				t.Fatal(err)
			}
			b.awaitState(id, c.is)
			b.shutdown()
			c.between(b)
			putBack(b, keep)
			b.start()
			if c.is == c.was {
				b.awaitState(id, c.is)
			}
			if _, err := b.tasks.Resume(b.ctx(), q); err != nil && c.is == headrace.Checkpointed {
				t.Fatal(err)
			}
			b.awaitState(id, headrace.Running)
			b.world.with(id, func(th *thing) {
				if th.starts != 1 || th.shim == nil || th.shim.state != headrace.Running {
					t.Errorf("started %d times, supervised %v", th.starts, th.shim)
				}
			})
			b.finish(id, 0)
			b.awaitState(id, headrace.Done)
		})
	}
}

// TestRecordsOfBeforeAKill: a task that a user has killed since the records were copied is killed, and no failure.
func TestRecordsOfBeforeAKill(t *testing.T) {
	m := newMachine(t, policy.Wait)
	m.launch()
	id := m.run(headrace.Normal, counter(100_000))
	m.awaitState(id, headrace.Running)
	m.kill9()
	db := filepath.Join(m.cfg.StateDir, "state.db")
	keep := filepath.Join(t.TempDir(), "state.db")
	copyFile(t, db, keep)
	m.launch()
	m.awaitState(id, headrace.Running)
	m.killed(id)
	m.kill9()
	copyFile(t, keep, db)
	m.launch()
	if got := m.awaitState(id, headrace.Killed); got.Reason != "killed by a user" {
		t.Errorf("it is %s because: %s", got.State, got.Reason)
	}
}

// TestRecordsOfBeforeARestoreAndAKill: also one that was checkpointed then, and has run since.
func TestRecordsOfBeforeARestoreAndAKill(t *testing.T) {
	b := newBed(t, policy.Wait)
	id := b.bringTo(headrace.Checkpointed, func(*wire.RunRequest) {})
	b.awaitState(id, headrace.Checkpointed)
	b.shutdown()
	keep := filepath.Join(t.TempDir(), "state.db")
	copyFile(t, filepath.Join(b.cfg.StateDir, "state.db"), keep)
	b.start()
	b.restoreNow(id)
	b.awaitState(id, headrace.Running)
	if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
		t.Fatal(err)
	}
	b.awaitState(id, headrace.Killed)
	b.shutdown()
	putBack(b, keep)
	b.start()
	if got := b.get(id); got.State != "killed" || got.Reason != "killed by a user" {
		t.Errorf("it is %s because: %s", got.State, got.Reason)
	}
}

// TestRecordsOfBeforeAnUnreadableCheckpoint: a task whose supervisor has no processes is not lost while nobody can say whether it
// was checkpointed.
func TestRecordsOfBeforeAnUnreadableCheckpoint(t *testing.T) {
	t.Parallel()
	b := newBed(t, policy.Wait)
	id := b.bringTo(headrace.Running, never)
	b.shutdown()
	keep := filepath.Join(t.TempDir(), "state.db")
	copyFile(t, filepath.Join(b.cfg.StateDir, "state.db"), keep)
	b.start()
	b.checkpointNow(id)
	b.shutdown()
	putBack(b, keep)
	c := &conn{world: b.world}
	var asked atomic.Int32
	c.before = func(op string, _ headrace.TaskID) error {
		if op == "latest" && asked.Add(1) <= 2 {
			return errors.New("input/output error")
		}
		return nil
	}
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	b.await(id, "found", func(w *wire.Task) bool {
		return w.Checkpoint != nil && w.State == "running" && w.Doing == "" || w.State == "lost"
	})
	if got := b.get(id); got.State != "running" || asked.Load() < 3 {
		t.Errorf("%v, asked %d times", got, asked.Load())
	}
	b.world.with(id, func(th *thing) {
		if th.starts != 1 {
			t.Errorf("started %d times", th.starts)
		}
	})
}

// TestUnknownIsLeftAlone: a container that the records do not know goes on by itself.
func TestUnknownIsLeftAlone(t *testing.T) {
	b := newBed(t, policy.Wait)
	id := b.bringTo(headrace.Running, never)
	b.crash()
	b.world.with(id, func(th *thing) { th.spec.Attached = true })
	if err := os.Remove(filepath.Join(b.cfg.StateDir, "state.db")); err != nil {
		t.Fatal(err)
	}
	b.start()
	if s := b.world.state(id); s != headrace.Running {
		t.Errorf("it is %s", s)
	}
	if next := b.run(headrace.Normal); next == id {
		t.Errorf("a new task is called %s as well", next)
	}
	info, err := b.node.Info(b.ctx(), &wire.InfoRequest{})
	if err != nil || len(info.LeftAlone) != 1 || info.LeftAlone[0].Id != string(id) || info.LeftAlone[0].Why != "it is a container of another scheduler" {
		t.Errorf("told of it: %v, %v", info.GetLeftAlone(), err)
	}
}

// TestRealUnknownTaskGoesOn: a task that runs when the records were moved away runs on, and is killed
// by its owner as any other.
func TestRealUnknownTaskGoesOn(t *testing.T) {
	m := newMachine(t, policy.Wait)
	m.launch()
	id := m.run(headrace.Normal, counter(100_000))
	m.awaitState(id, headrace.Running)
	m.kill9()
	db := filepath.Join(m.cfg.StateDir, "state.db")
	if err := os.Rename(db, db+".away"); err != nil {
		t.Fatal(err)
	}
	m.launch()
	got := m.awaitState(id, headrace.Running)
	if got.Name != "sh" || !strings.Contains(got.Reason, "did not know it") {
		t.Errorf("it is %v", got)
	}
	m.killed(id)
	if next := m.run(headrace.Normal, counter(1)); next == id {
		t.Errorf("the next task is %s as well", next)
	}
}

// TestSweepable: only what nothing supervises is ended in a cgroup that no unended task has.
func TestSweepable(t *testing.T) {
	d := newDriver()
	defer d.cancel()
	c := &core{turn: newTurn(d), seldom: newSeldom(slog.New(slog.DiscardHandler), systemClock{}), tasks: newTable(), alone: map[headrace.TaskID]string{"t3": "it does not answer"}}
	for id, s := range map[headrace.TaskID]headrace.TaskState{"t1": headrace.Running, "t2": headrace.Done} {
		u := &task{}
		u.rec.ID, u.rec.State = id, s
		c.tasks.load(u)
	}
	dirs := map[headrace.TaskID]bool{"t1": true, "t2": true, "t3": true, "t4": true}
	for name, want := range map[string]bool{"t1": false, "t2": true, "t3": false, "t4": true, "t50": false} {
		if got := c.sweepable(name, dirs, 1); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if !c.sweepable("t60", dirs, 0) {
		t.Error("an empty group stays")
	}
	if why := c.alone["t50"]; !strings.Contains(why, "cgroup") || len(c.alone) != 2 {
		t.Errorf("left alone are %v", c.alone)
	}
	if c.tasks.order != 50 {
		t.Errorf("the last task is number %d", c.tasks.order)
	}
}

// TestUnknownCheckpointIsNotInTheWay: a task that has not begun in records that were put back, and is checkpointed, starts as one that
// has not begun: its supervisor, if there is one, and its checkpoints go.
func TestUnknownCheckpointIsNotInTheWay(t *testing.T) {
	for name, between := range map[string]func(b *bed){
		"its supervisor waits": func(*bed) {},
		"after a reboot":       func(b *bed) { b.world.reboot(); b.boot = "boot-2" },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, policy.Wait)
			id := b.bringTo(headrace.Pending, never)
			b.shutdown()
			keep := filepath.Join(t.TempDir(), "state.db")
			copyFile(t, filepath.Join(b.cfg.StateDir, "state.db"), keep)
			b.start()
			q := &wire.VerbRequest{Id: string(id)}
			if _, err := b.tasks.Resume(b.ctx(), q); err != nil {
				t.Fatal(err)
			}
			b.awaitState(id, headrace.Running)
			if _, err := b.tasks.Checkpoint(b.ctx(), q); err != nil {
				t.Fatal(err)
			}
			b.shutdown()
			between(b)
			putBack(b, keep)
			b.start()
			if _, err := b.tasks.Resume(b.ctx(), q); err != nil {
				t.Fatal(err)
			}
			b.awaitState(id, headrace.Running)
			b.world.with(id, func(x *thing) {
				if n := len(x.images); n != 0 || x.starts != 2 {
					t.Errorf("it was started %d times, and has %d stores with checkpoints of before", x.starts, n)
				}
			})
			b.finish(id, 0)
			b.awaitState(id, headrace.Done)
		})
	}
}

// TestRealUnknownCheckpointIsNotInTheWay: the same with a real supervisor that waits.
func TestRealUnknownCheckpointIsNotInTheWay(t *testing.T) {
	m := newMachine(t, policy.Wait)
	if !m.image {
		t.Skip("without root or CRIU there are no checkpoints")
	}
	m.launch()
	gated, goOn := m.gated(40)
	id := m.run(headrace.Normal, held, gated)
	m.kill9()
	keep := filepath.Join(t.TempDir(), "state.db")
	copyFile(t, filepath.Join(m.cfg.StateDir, "state.db"), keep)
	m.launch()
	q := &wire.VerbRequest{Id: string(id)}
	if _, err := m.tasks.Resume(m.ctx(), q); err != nil {
		t.Fatal(err)
	}
	m.awaitState(id, headrace.Running)
	if _, err := m.tasks.Checkpoint(m.ctx(), q); err != nil {
		t.Fatal(err)
	}
	m.kill9()
	putBack(m.bed, keep)
	m.launch()
	if _, err := m.tasks.Resume(m.ctx(), q); err != nil {
		t.Fatal(err)
	}
	goOn()
	m.awaitState(id, headrace.Done)
	m.wantCount(id, 40)
	if entries, err := os.ReadDir(filepath.Join(m.cfg.StateDir, "checkpoints", string(id))); len(entries) > 0 {
		t.Errorf("of its checkpoint there is still %v, %v", entries, err)
	}
}

// TestUnreachedIsNotBegunTwice: a task whose directory was replaced while it ran is neither begun again nor given up as long as its
// supervisor is there, whatever the records say of it.
func TestUnreachedIsNotBegunTwice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*wire.RunRequest)
		old    bool
		boot   string
		then   headrace.TaskState
	}{
		"it ran":                        {then: headrace.Running},
		"it ran, and is not restarted":  {change: never, then: headrace.Lost},
		"it ran in an earlier boot":     {boot: "boot-2", then: headrace.Running},
		"it had not begun":              {old: true, then: headrace.Running},
		"it had not begun, before then": {old: true, boot: "boot-2", then: headrace.Running},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits as long as a supervisor is looked for
			b := newBed(t, policy.Wait)
			change := c.change
			if change == nil {
				change = func(*wire.RunRequest) {}
			}
			id := b.bringTo(headrace.Pending, change)
			b.shutdown()
			keep := filepath.Join(t.TempDir(), "state.db")
			copyFile(t, filepath.Join(b.cfg.StateDir, "state.db"), keep)
			b.start()
			q := &wire.VerbRequest{Id: string(id)}
			if _, err := b.tasks.Resume(b.ctx(), q); err != nil {
				t.Fatal(err)
			}
			b.awaitState(id, headrace.Running)
			b.crash()
			b.world.with(id, func(th *thing) { th.unreached = true })
			if c.old {
				putBack(b, keep)
			}
			if c.boot != "" {
				b.boot = c.boot
			}
			b.start()
			if c.old {
				b.tasks.Resume(b.ctx(), q) // it may be told why it does not begin
			}
			b.await(id, "known to be alive", func(w *wire.Task) bool { return strings.Contains(w.Reason, "cannot be reached") })
			b.world.with(id, func(th *thing) {
				if th.starts != 1 || th.shim == nil {
					t.Errorf("it was started %d times; supervised: %v", th.starts, th.shim != nil)
				}
			})
			b.world.vanish(id)
			b.awaitState(id, c.then)
		})
	}
}

// TestUnreachedIsNamed: a task of which neither the records nor a directory know, and that has a supervisor, is named.
func TestUnreachedIsNamed(t *testing.T) {
	b := newBed(t, policy.Wait)
	id := b.bringTo(headrace.Running, never)
	b.crash()
	b.world.with(id, func(th *thing) { th.unreached, th.starts = true, 0 })
	if err := os.Remove(filepath.Join(b.cfg.StateDir, "state.db")); err != nil {
		t.Fatal(err)
	}
	b.start()
	if next := b.run(headrace.Normal, held); next == id {
		t.Errorf("a new task is called %s as well", next)
	}
	info, err := b.node.Info(b.ctx(), &wire.InfoRequest{})
	if err != nil || len(info.LeftAlone) != 1 || info.LeftAlone[0].Id != string(id) || !strings.Contains(info.LeftAlone[0].Why, "cannot be reached") {
		t.Errorf("told of it: %v, %v", info.GetLeftAlone(), err)
	}
	b.world.vanish(id)
}

// TestRealUnreachedIsNotBegunTwice: a copy of the state directory that is put in its place while a task runs does not have that run twice.
func TestRealUnreachedIsNotBegunTwice(t *testing.T) {
	t.Parallel()
	m := newMachine(t, policy.Wait)
	out := filepath.Join(t.TempDir(), "out")
	if err := os.Chmod(filepath.Dir(out), 0o755); err != nil {
		t.Fatal(err)
	}
	m.launch()
	id := m.run(headrace.Normal, func(q *wire.RunRequest) {
		q.Argv = []string{"/bin/sh", "-c", "echo begun >> " + out + "; : > " + out + ".$(wc -l < " + out + "); exec sleep 1000"}
		q.Env = []string{"PATH=/usr/bin:/bin"}
	})
	m.awaitState(id, headrace.Running)
	m.awaitFile(out + ".1")
	m.kill9()
	tasks := filepath.Join(m.cfg.StateDir, "tasks")
	replaced := filepath.Join(t.TempDir(), "tasks")
	copied := exec.Command("cp", "-a", tasks, replaced).Run() // with the sockets, on which nobody listens
	if err := errors.Join(copied, os.RemoveAll(tasks), os.Rename(replaced, tasks)); err != nil {
		t.Fatal(err)
	}
	m.launch()
	m.await(id, "known to be alive", func(w *wire.Task) bool { return strings.Contains(w.Reason, "cannot be reached") })
	if _, err := os.Stat(out + ".2"); err == nil {
		t.Error("it has begun twice")
	}
	for _, dir := range m.supervisors(id) {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m.awaitFile(out + ".2")
}
