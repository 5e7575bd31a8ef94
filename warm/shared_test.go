package warm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/disk"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/pagecache/pagecachetest"
)

func TestSharedFile(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(2))
		link := filepath.Join(w.dir, "d1/link")
		if err := os.Link(f.Path, link); err != nil {
			t.Fatal(err)
		}
		w.add(w.job("a", f))
		w.add(w.job("b", File{Path: link, Size: f.Size}))
		w.add(w.job("c", f, f, File{Path: link, Size: f.Size}))
		w.wantReads("f@0", "f@1")
		w.wantPinned(2)
		pins := w.e.Pins()
		if len(pins) != 1 || pins[0].Bytes != blocks(2) || len(pins[0].By) != 3 || pins[0].Path != f.Path || pins[0].By[1].Job != "b" {
			t.Errorf("pins %+v", pins)
		}
		if s := w.status("r-c"); s.Files != 2 || s.Pinned != 2*f.Size {
			t.Errorf("two names of a file, one of them twice: %+v", s)
		}
		w.e.Release("a")
		w.e.Release("c")
		w.settle()
		w.wantPinned(2)
		w.e.Release("b")
		w.settle()
		w.wantPinned(0)
		w.wantReads()
	})
}

// A block whose last reader ends goes to one that still waits for its turn.
func TestHeir(t *testing.T) {
	for _, c := range []struct {
		name   string
		denied bool
		reads  string
	}{
		{"that may read it", false, "f@0 hold@0"},
		{"that may not", true, "f@0 hold@0 other@0 other@1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(2)}}, func(t *testing.T, w *world) {
				f := w.file("d1/f", blocks(1))
				w.add(w.job("a", f))
				w.add(w.job("hold", w.file("d1/hold", blocks(1))))
				// Larger than b, and before it in the queue: nothing comes to b's turn.
				other := w.job("other", w.file("d1/other", blocks(2)))
				w.add(other)
				b := w.job("b", w.file("d1/b", blocks(9)), f)
				b.Owner.UID = 7
				w.denied["7 "+f.Path] = c.denied
				w.add(b)
				w.e.Release("a")
				w.settle()
				if !c.denied {
					w.wantPinned(2)
					if s := w.status("r-b"); s.Pinned != blocks(1) {
						t.Errorf("%+v", s)
					}
					w.wantReads(strings.Fields(c.reads)...)
					return
				}
				w.e.Release("hold")
				w.settle()
				w.wantReads(strings.Fields(c.reads)...)
				if s := w.status("r-b"); s.Pinned != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// A file that has grown between two requests has another last block.
func TestGrownFileHasNoHeir(t *testing.T) {
	inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(2)}}, func(t *testing.T, w *world) {
		f := w.file("d1/f", 10)
		w.add(w.job("a", f))
		w.add(w.job("full", w.file("d1/full", blocks(1))))
		w.add(w.job("next", w.file("d1/next", blocks(2))))
		if err := os.Truncate(f.Path, 5000); err != nil {
			t.Fatal(err)
		}
		w.add(w.job("b", w.file("d1/large", blocks(3)), File{Path: f.Path, Size: 5000}))
		w.e.Release("a")
		if s := w.status("r-b"); s.Pinned != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestResidentIsLeftAndFollowed(t *testing.T) {
	inWorld(t, worldConfig{fail: func(string, int) error { return nil }}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(3)+100)
		w.load(f.Path, blockPart(1))
		w.add(w.job("a", f))
		w.wantReads("f@0", "f@2", "f@3")
		s := w.status("r-a")
		if !s.Done || s.Resident != blocks(1) || s.Pinned != blocks(2)+100 {
			t.Errorf("%+v", s)
		}
		calls := w.cfg.Cache.(*pagecachetest.Faulty).Calls
		before := calls("Resident")
		w.pass(10 * w.e.cfg.FollowUp)
		w.wantReads()
		if n := calls("Resident") - before; n < 9 || n > 11 {
			t.Errorf("one block was looked at %d times in ten intervals", n)
		}
		before = calls("Resident")
		w.add(w.job("busy", w.file("d1/busy", blocks(50))))
		if n := calls("Resident") - before; n > 2 {
			t.Errorf("one block was looked at %d times in no time, while others were read", n)
		}
		w.mu.Lock()
		w.reads = nil
		w.mu.Unlock()
		w.dropPages(f.Path, blockPart(1))
		w.pass(w.e.cfg.FollowUp)
		w.wantReads("f@1")
		if s := w.status("r-a"); !s.Done || s.Resident != 0 || s.Pinned != f.Size {
			t.Errorf("after the kernel has dropped it: %+v", s)
		}
		if c := w.e.Counters(); c.Skipped != blocks(1) || c.Lost != blocks(1) {
			t.Errorf("%+v", c)
		}
	})
}

// TestDroppedIsLeft: what was in memory and goes is not read again for who has asked for that, until he lets go of it and asks again.
func TestDroppedIsLeft(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(1))
		w.load(f.Path, blockPart(0))
		q := w.job("a", f)
		q.Leave = true
		w.add(q)
		w.dropPages(f.Path, blockPart(0))
		w.pass(10 * w.e.cfg.FollowUp)
		w.wantReads()
		if s := w.status("r-a"); !s.Done || s.Resident != f.Size {
			t.Errorf("%+v", s)
		}
		if err := w.e.Drop("r-a", []File{f}); err != nil {
			t.Fatal(err)
		}
		w.add(q)
		w.wantReads("f@0")
	})
}

// All requests have their turn in being looked after.
// What is on a file system that lives in memory is there: nothing of it is read, locked or looked at again, however
// large it is.
func TestFilesInMemory(t *testing.T) {
	inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(2)}}, func(t *testing.T, w *world) {
		f, g := w.file("memory/f", blocks(50)), w.file("d1/g", blocks(2))
		w.add(w.job("a", f, g))
		w.wantPinned(2)
		w.wantReads("g@0", "g@1")
		if s := w.status("r-a"); !s.Done || s.Resident != f.Size || s.Pinned != g.Size {
			t.Errorf("%+v", s)
		}
		w.pass(10 * w.e.cfg.FollowUp)
		w.wantReads()
		if c := w.e.Counters(); c.Lost != 0 || c.Skipped != f.Size {
			t.Errorf("%+v", c)
		}
	})
}

func TestFollowIsFair(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		var many []File
		for i := range 2 * followBatch {
			f := w.file(fmt.Sprintf("d1/many%d", i), 1)
			w.load(f.Path, pagecache.Range{Len: 1})
			many = append(many, f)
		}
		w.add(w.job("many", many...))
		var few []File
		for _, name := range []string{"x", "y"} {
			f := w.file("d1/"+name, 1)
			w.load(f.Path, pagecache.Range{Len: 1})
			w.add(w.job(name, f))
			few = append(few, f)
		}
		for _, f := range few {
			w.dropPages(f.Path, pagecache.Range{Len: 1})
		}
		w.pass(4 * w.e.cfg.FollowUp)
		w.mu.Lock()
		slices.Sort(w.reads)
		w.mu.Unlock()
		w.wantReads("x@0", "y@0")
	})
}

// What is in memory needs no room.
func TestResidentWhileThereIsNoRoom(t *testing.T) {
	inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(1)}}, func(t *testing.T, w *world) {
		w.add(w.job("a", w.file("d1/a", blocks(1))))
		f := w.file("d1/f", blocks(2))
		w.load(f.Path, pagecache.Range{Len: f.Size})
		w.add(w.job("b", f))
		if s := w.status("r-b"); !s.Done || s.Resident != f.Size {
			t.Errorf("%+v", s)
		}
	})
}

// A link leads to another device than its directory is on.
func TestMovedToItsDevice(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		to, first := w.file("d2/x", blocks(2)), w.file("d2/first", 9)
		links := make([]File, 2)
		for i, f := range []File{to, first} {
			links[i] = File{Path: filepath.Join(w.dir, "d1", "link"+string(rune('0'+i))), Size: f.Size}
			if err := os.Symlink(f.Path, links[i].Path); err != nil {
				t.Fatal(err)
			}
		}
		demand := w.disks.Reader(disk.Device{ID: 2, Name: "d2"}, disk.Demand, "job x")
		turn, err := demand.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// One of them is behind everything that its device has to do, one before.
		w.add(w.job("a", links[1], w.file("d1/a", 1), w.file("d2/b", 2), links[0], w.file("d1/c", 3), w.file("d2/d", 4)))
		w.wantReads("a@0", "c@0")
		turn.End(0)
		demand.Close()
		w.pass(time.Second)
		w.wantReads("link1@0", "b@0", "link0@0", "link0@1", "d@0")
		if s := w.status("r-a"); !s.Done || s.Pinned != s.Bytes {
			t.Errorf("%+v", s)
		}
	})
}

// A path may lead to a file server that does not answer: others have their turns at the disk meanwhile, and where it is
// known to lead elsewhere, being a link, other requests have theirs too.
func TestOpeningTakesItsTime(t *testing.T) {
	answer := make(map[string]chan struct{})
	change := func(c *Config) {
		open := c.Open
		c.Open = func(owner linux.Credentials, path string) (*os.File, error) {
			if wait := answer[filepath.Base(path)]; wait != nil {
				<-wait
			}
			return open(owner, path)
		}
	}
	inWorld(t, worldConfig{change: change}, func(t *testing.T, w *world) {
		for _, name := range []string{"link", "slow"} {
			answer[name] = make(chan struct{})
		}
		link := w.file("d2/x", 9)
		link.Path = filepath.Join(w.dir, "d1", "link")
		if err := os.Symlink(filepath.Join(w.dir, "d2", "x"), link.Path); err != nil {
			t.Fatal(err)
		}
		w.add(w.job("a", link))
		w.add(w.job("b", w.file("d1/b", 1)))
		w.wantReads("b@0")
		w.add(w.job("c", w.file("d1/slow", 2)))
		w.settle()
		demand := w.disks.Reader(disk.Device{ID: 1, Name: "d1"}, disk.Demand, "job x")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if turn, err := demand.Begin(ctx); err != nil {
			t.Errorf("no turn while a file is being opened: %v", err)
		} else {
			turn.End(0)
		}
		demand.Close()
		for _, wait := range answer {
			close(wait)
		}
		w.pass(time.Second)
		for _, r := range []RequestID{"r-a", "r-c"} {
			if s := w.status(r); !s.Done || s.Pinned != s.Bytes {
				t.Errorf("%+v", s)
			}
		}
	})
}

// A path that leads to another file now does not lead to the old one's blocks.
func TestKnownPathIsReplaced(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		f, other := w.file("d1/f", blocks(1)), w.file("d1/other", blocks(1))
		w.add(w.job("a", f))
		if err := os.Rename(other.Path, f.Path); err != nil {
			t.Fatal(err)
		}
		w.add(w.job("b", f))
		w.wantReads("f@0", "f@0")
		w.wantPinned(2)
		w.e.Release("a")
		w.wantPinned(1)
	})
	inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(2)}}, func(t *testing.T, w *world) {
		f, other := w.file("d1/f", blocks(1)), w.file("d1/other", blocks(1))
		w.add(w.job("a", f))
		w.add(w.job("full", w.file("d1/full", blocks(1))))
		w.add(w.job("b", w.file("d1/large", blocks(2)), f))
		if err := os.Rename(other.Path, f.Path); err != nil {
			t.Fatal(err)
		}
		w.shut()
		w.e.Release("a") // b is no heir of what it does not want: it goes on with what is next
		w.settle()
		if s := w.status("r-b"); s.Pinned != 0 {
			t.Errorf("%+v", s)
		}
		w.wantReads("f@0", "full@0", "large@0")
	})
}

// A limit holds also for what turns out to be locked under another name.
func TestBudgetOfARequestWithOtherNames(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(2))
		link := filepath.Join(w.dir, "d1/link")
		if err := os.Link(f.Path, link); err != nil {
			t.Fatal(err)
		}
		w.add(w.job("a", f))
		q := w.job("b", File{Path: link, Size: f.Size}, w.file("d1/g", 5))
		q.Budget = blocks(1)
		w.add(q)
		if s := w.status("r-b"); !s.Done || s.Pinned != blocks(1) || s.NotFit != blocks(1)+5 {
			t.Errorf("%+v", s)
		}
	})
}

// A request that was kept as JSON finds its pages again in a new engine, which follows them.
func TestAfterARestart(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		q := w.job("a", w.file("d1/a", blocks(2)))
		q.Owner, q.Implicit, q.Budget = linux.Credentials{UID: 5, GID: 6, Groups: []uint32{7}}, true, 1<<40
		text, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		w.add(q)
		w.wantReads("a@0", "a@1")
		if err := w.e.Close(); err != nil {
			t.Fatal(err)
		}
		w.memory.OnPiece(nil) // those that are in memory are not read
		var again Request
		if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(q, again) {
			t.Fatalf("%v: %+v became %+v", err, q, again)
		}
		w.start()
		w.add(again)
		w.wantPinned(0)
		if s := w.status("r-a"); !s.Done || s.Pinned+s.Resident != s.Bytes {
			t.Errorf("%+v", s)
		}
	})
}
