package solo

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/proc"
	"headrace/proc/checkpoint"
	"headrace/solo/journal"
	"headrace/solo/store"
	"headrace/wire"
)

// TestRemovalBesideDump: a task is checkpointed where its old checkpoints are just being removed. The new one is not removed with them.
func TestRemovalBesideDump(t *testing.T) {
	b := newBed(t, policy.Wait)
	one, two := filepath.Join(b.cfg.StateDir, "one"), filepath.Join(b.cfg.StateDir, "two")
	b.cfg.Stores = []store.Config{{Name: "one", Dir: one}, {Name: "two", Dir: two}}
	goOn, begun := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c := &conn{world: b.world}
	c.before = func(op string, _ headrace.TaskID) error {
		if op == "remove images" {
			once.Do(func() { close(begun) })
			<-goOn
		}
		return nil
	}
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	id := b.run(headrace.Normal, never)
	b.awaitState(id, headrace.Running)
	for i, store := range []string{"one", "two"} {
		if _, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id), Store: store}); err != nil {
			t.Fatal(i, err)
		}
		if _, err := b.tasks.Restore(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
			t.Fatal(i, err)
		}
		b.awaitState(id, headrace.Running)
	}
	<-begun // of those in the first store
	ended := make(chan error, 1)
	go func() {
		_, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id), Store: "one"})
		ended <- err
	}()
	b.await(id, "being checkpointed", func(t *wire.Task) bool { return t.Doing == headrace.Checkpointing.String() })
	close(goOn)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	b.world.with(id, func(x *thing) {
		if n := len(x.images[one]); n != 1 {
			t.Errorf("%d checkpoints are there, want the new one", n)
		}
	})
	if _, err := b.tasks.Restore(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
		t.Error(err)
	}
	b.awaitState(id, headrace.Running)
}

// TestNewer: a checkpoint counts as that of an operation if it is newer than the one that there was, wherever that lies.
func TestNewer(t *testing.T) {
	taken := time.UnixMilli(1_700_000_000_000)
	const began = 77 * time.Second
	for i, c := range []struct {
		old *journal.Image
		in  ImageInfo
		is  bool
	}{
		{nil, ImageInfo{Seq: 1, At: taken}, true},
		{&journal.Image{Dir: "/a", Seq: 1, TakenMs: taken.UnixMilli()}, ImageInfo{Seq: 1, At: taken}, false},
		{&journal.Image{Dir: "/a", Seq: 1, TakenMs: taken.UnixMilli()}, ImageInfo{Seq: 2, At: taken.Add(-time.Hour)}, true}, // the clock was set
		{&journal.Image{Dir: "/b", Seq: 9, TakenMs: taken.UnixMilli()}, ImageInfo{Seq: 3, At: taken.Add(time.Second)}, true},
		{&journal.Image{Dir: "/b", Seq: 1, TakenMs: taken.UnixMilli()}, ImageInfo{Seq: 3, At: taken.Add(-time.Second)}, false},            // left from before
		{&journal.Image{Dir: "/b", Seq: 9, TakenMs: taken.UnixMilli()}, ImageInfo{Seq: 3, At: taken.Add(-time.Hour), Asked: began}, true}, // the clock was set
		{&journal.Image{Dir: "/b", Seq: 1, TakenMs: taken.UnixMilli()}, ImageInfo{Seq: 3, At: taken.Add(time.Hour), Asked: began - 1}, false},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			w := newWorld(t.TempDir())
			w.with("t1", func(x *thing) { x.images["/a"] = []ImageInfo{c.in} })
			m := &images{Images: fakeImages{&conn{world: w}}, stores: &store.Stores{}}
			if got, err := m.newer(t.Context(), "t1", &journal.Intent{Dir: "/a", Began: began}, c.old); err != nil || (got != nil) != c.is {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// ahead is a clock that is fast by an hour.
type ahead struct{ systemClock }

func (c ahead) wall() time.Time { return c.systemClock.wall().Add(time.Hour) }

// TestClockSetBack: the clock is set back between two checkpoints in different stores, and the daemon dies when the second has
// been committed. The next one finds it.
func TestClockSetBack(t *testing.T) {
	for _, boot := range []string{"boot-1", "boot-2"} {
		t.Run(boot, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, policy.Wait)
			b.cfg.Stores = []store.Config{{Name: "one", Dir: filepath.Join(b.cfg.StateDir, "one")}, {Name: "two", Dir: filepath.Join(b.cfg.StateDir, "two")}}
			b.clock = ahead{}
			id := b.bringTo(headrace.Running, never)
			q := func(store string) *wire.VerbRequest { return &wire.VerbRequest{Id: string(id), Store: store} }
			if _, err := b.tasks.Checkpoint(b.ctx(), q("one")); err != nil {
				t.Fatal(err)
			}
			if _, err := b.tasks.Restore(b.ctx(), q("")); err != nil {
				t.Fatal(err)
			}
			b.awaitState(id, headrace.Running)
			b.shutdown()
			b.clock = nil
			dying, died := dieAt(b.world, "checkpoint", true)
			if err := b.startWith(dying); err != nil {
				t.Fatal(err)
			}
			go b.tasks.Checkpoint(b.ctx(), q("two"))
			<-died
			b.crash()
			if b.boot = boot; boot == "boot-2" {
				b.world.reboot()
			}
			b.start()
			if got := b.awaitState(id, headrace.Checkpointed); got.Checkpoint.GetStore() != "two" {
				t.Errorf("its checkpoint is %v", got.Checkpoint)
			}
		})
	}
}

// TestTidyAfterStall: what a dump has left that was ended is removed, and not only when another one has succeeded.
func TestTidyAfterStall(t *testing.T) {
	b := newBed(t, policy.Wait)
	collected := make(chan struct{}, 1)
	c := &conn{world: b.world, after: func(op string, _ headrace.TaskID) error {
		if op == "collect" {
			select {
			case collected <- struct{}{}:
			default:
			}
		}
		return nil
	}}
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	id := b.run(headrace.Normal, never)
	b.awaitState(id, headrace.Running)
	b.world.with(id, func(x *thing) { x.noDump = fmt.Errorf("dump: %w for 1m0s", proc.ErrStalled) })
	if _, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id)}); err == nil {
		t.Fatal("no error")
	}
	select {
	case <-collected:
	case <-time.After(patience):
		t.Error("nobody has removed what it has left")
	}
}

// TestStoreUnreadableAtStart: a daemon dies when a checkpoint has been committed, and the next one cannot look for it at first. It asks again.
func TestStoreUnreadableAtStart(t *testing.T) {
	for _, boot := range []string{"boot-1", "boot-2"} {
		for name, restart := range map[string]func(*wire.RunRequest){"restart": func(*wire.RunRequest) {}, "no restart": never} {
			t.Run(boot+", "+name, func(t *testing.T) {
				t.Parallel()
				b := newBed(t, policy.Wait)
				id := b.bringTo(headrace.Running, restart)
				b.shutdown()
				dying, died := dieAt(b.world, "checkpoint", true)
				if err := b.startWith(dying); err != nil {
					t.Fatal(err)
				}
				go b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id)})
				<-died
				b.crash()
				if b.boot = boot; boot == "boot-2" {
					b.world.reboot()
				}
				c := &conn{world: b.world}
				var asked atomic.Int32
				c.before = func(op string, _ headrace.TaskID) error {
					if op == "latest" && asked.Add(1) <= 2 {
						return errors.New("too many open files")
					}
					return nil
				}
				if err := b.startWith(c); err != nil {
					t.Fatal(err)
				}
				if got := b.awaitState(id, headrace.Checkpointed); got.Checkpoint == nil || asked.Load() < 3 {
					t.Errorf("%v, asked %d times", got, asked.Load())
				}
				if _, err := b.tasks.Restore(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
					t.Error(err)
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

// TestKillWhileCheckpointIsLookedFor: a task of which nobody can say whether it was checkpointed can be killed.
func TestKillWhileCheckpointIsLookedFor(t *testing.T) {
	for _, boot := range []string{"boot-1", "boot-2"} {
		t.Run(boot, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, policy.Wait)
			id := b.bringTo(headrace.Running, never)
			b.shutdown()
			dying, died := dieAt(b.world, "checkpoint", true)
			if err := b.startWith(dying); err != nil {
				t.Fatal(err)
			}
			go b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id)})
			<-died
			b.crash()
			if b.boot = boot; boot == "boot-2" {
				b.world.reboot()
			}
			c := &conn{world: b.world}
			c.before = func(op string, _ headrace.TaskID) error {
				if op == "latest" {
					return errors.New("too many open files")
				}
				return nil
			}
			if err := b.startWith(c); err != nil {
				t.Fatal(err)
			}
			if got, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil || got.State != "killed" {
				t.Errorf("kill: %v, %v", got, err)
			}
		})
	}
}

// TestLatestOfANewerVersion: a checkpoint that only a newer program can read is not taken for none.
func TestLatestOfANewerVersion(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	image := filepath.Join(dir, "t1", "000001")
	if err := errors.Join(os.MkdirAll(image, 0o700), os.WriteFile(filepath.Join(image, "manifest"), []byte("headrace-checkpoint 999 0123\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := (storeImages{}).Latest(dir, "", "t1"); ok || !errors.Is(err, checkpoint.ErrVersion) {
		t.Errorf("%v, %v", ok, err)
	}
}

// goes is a storage whose store goes after a look at it, just before it is used. Its place stays.
type goes struct {
	storeImages
	t *testing.T
}

func (g goes) away(dir string) {
	if err := os.Rename(dir, dir+".mounted"); err != nil {
		g.t.Error(err)
	}
}

func (g goes) Latest(dir, storeID string, id headrace.TaskID) (ImageInfo, bool, error) {
	g.away(dir)
	return g.storeImages.Latest(dir, storeID, id)
}

func (g goes) Collect(dir, storeID string, id headrace.TaskID) error {
	g.away(dir)
	return g.storeImages.Collect(dir, storeID, id)
}

func (g goes) Remove(dir, storeID string, id headrace.TaskID) error {
	g.away(dir)
	return g.storeImages.Remove(dir, storeID, id)
}

// TestStoreGoesAfterALook: a store that goes between a look at it and its use has not lost what is in it, and none is made in its place.
func TestStoreGoesAfterALook(t *testing.T) {
	for what, use := range map[string]func(*images, string) error{
		"latest": func(m *images, dir string) error {
			_, err := m.newer(t.Context(), "t1", &journal.Intent{Dir: dir}, nil)
			return err
		},
		"remove": func(m *images, dir string) error {
			left, err := m.remove([]string{dir}, "t1")
			if len(left) != 1 || !errors.Is(err, proc.ErrNotNow) {
				t.Errorf("%q, %v", left, err)
			}
			return err
		},
		"collect": func(m *images, dir string) error {
			m.collectIn(dir, "t1")
			return proc.ErrNotNow // it only says so
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			id, err := checkpoint.Mark(dir)
			if err == nil {
				err = checkpoint.Claim(dir, checkpoint.Owner{ID: "we"})
			}
			if err != nil {
				t.Fatal(err)
			}
			stores := &store.Stores{}
			stores.Owner = checkpoint.Owner{ID: "we"}
			stores.Set(dir, id, nil)
			m := &images{Images: goes{t: t}, stores: stores, log: slog.New(slog.DiscardHandler)}
			if err := use(m, dir); err == nil {
				t.Error("no error")
			}
			if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("there is something in its place: %v", err)
			}
		})
	}
}

// TestEveryStoreIsAsked: one that does not answer answers for no other one.
func TestEveryStoreIsAsked(t *testing.T) {
	w := newWorld(t.TempDir())
	w.with("t1", func(x *thing) { x.images["/b"] = []ImageInfo{{Seq: 7}} })
	asked, answer := make(chan struct{}), make(chan struct{})
	hangs := &conn{world: w}
	hangs.before = func(string, headrace.TaskID) error {
		close(asked)
		<-answer
		return nil
	}
	a, b := &images{Images: fakeImages{hangs}, stores: &store.Stores{}}, &images{Images: fakeImages{&conn{world: w}}}
	b.stores = a.stores
	var first sync.WaitGroup
	defer first.Wait()
	defer close(answer)
	first.Go(func() { a.latest(t.Context(), "/a", "t1") })
	<-asked
	if info, ok, err := b.latest(t.Context(), "/b", "t1"); info.Seq != 7 || !ok || err != nil {
		t.Error(info, ok, err)
	}
}

// TestOldCheckpointsStay: a task whose old checkpoints cannot be removed yet waits for that, and it is not forgotten before that they are.
func TestOldCheckpointsStay(t *testing.T) {
	b := newBed(t, policy.Wait)
	var readOnly atomic.Bool
	readOnly.Store(true)
	c := &conn{world: b.world, before: func(op string, _ headrace.TaskID) error {
		if op == "remove images" && readOnly.Load() {
			return syscall.EROFS
		}
		return nil
	}}
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	id := b.run(headrace.Normal)
	b.awaitState(id, headrace.Running)
	b.checkpointNow(id)
	b.world.with(id, func(x *thing) { x.noRestore = proc.ErrNoImage })
	q := &wire.VerbRequest{Id: string(id)}
	b.tasks.Restore(b.ctx(), q)
	b.await(id, "waiting for its store", func(w *wire.Task) bool {
		return w.State == "pending" && strings.HasPrefix(w.Reason, proc.ErrNotNow.Error()) && strings.Contains(w.Reason, syscall.EROFS.Error())
	})
	readOnly.Store(false)
	b.awaitState(id, headrace.Running)
	b.finish(id, 0) // it has the slot

	readOnly.Store(true)
	lost := b.losesSaved()
	b.world.with(lost, func(x *thing) {
		if len(x.images) == 0 {
			t.Fatal("it has no checkpoint")
		}
	})
	q = &wire.VerbRequest{Id: string(lost)}
	if _, err := b.tasks.Forget(b.ctx(), q); err == nil || !strings.Contains(err.Error(), syscall.EROFS.Error()) {
		t.Errorf("forget: %v", err)
	}
	b.awaitState(lost, headrace.Lost)
	if _, err := b.tasks.Restore(b.ctx(), q); err == nil {
		t.Error("a task is restored from what may have been removed in part")
	}
	readOnly.Store(false)
	if _, err := b.tasks.Forget(b.ctx(), q); err != nil {
		t.Error(err)
	}
	b.world.with(lost, func(x *thing) {
		if len(x.images) > 0 {
			t.Errorf("there is left %v", x.images)
		}
	})
}
