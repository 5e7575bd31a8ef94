package solo

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/solo/journal"
	"headrace/wire"
)

// TestRemovalBesideDump: a task is checkpointed where its old checkpoints are just being removed. The new one is not removed with them.
func TestRemovalBesideDump(t *testing.T) {
	b := newBed(t, policy.Wait)
	one, two := filepath.Join(b.cfg.StateDir, "one"), filepath.Join(b.cfg.StateDir, "two")
	b.cfg.Stores = []StoreConfig{{Name: "one", Dir: one}, {Name: "two", Dir: two}}
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
	for i, c := range []struct {
		old *journal.Image
		in  ImageInfo
		is  bool
	}{
		{nil, ImageInfo{Seq: 1, At: taken}, true},
		{&journal.Image{Dir: "/a", Seq: 1, TakenMs: taken.UnixMilli()}, ImageInfo{Seq: 1, At: taken}, false},
		{&journal.Image{Dir: "/a", Seq: 1, TakenMs: taken.UnixMilli()}, ImageInfo{Seq: 2, At: taken.Add(-time.Hour)}, true}, // the clock was set
		{&journal.Image{Dir: "/b", Seq: 9, TakenMs: taken.UnixMilli()}, ImageInfo{Seq: 3, At: taken.Add(time.Second)}, true},
		{&journal.Image{Dir: "/b", Seq: 1, TakenMs: taken.UnixMilli()}, ImageInfo{Seq: 3, At: taken.Add(-time.Second)}, false}, // left from before
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			w := newWorld(t.TempDir())
			w.with("t1", func(x *thing) { x.images["/a"] = []ImageInfo{c.in} })
			m := &images{Images: fakeImages{&conn{world: w}}, stores: &stores{}}
			if got := m.newer("t1", &journal.Intent{Dir: "/a"}, c.old); (got != nil) != c.is {
				t.Errorf("%+v", got)
			}
		})
	}
}
