package warm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headrace/disk"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/policy/prefetch"
)

func TestSmallestFirstWithoutPreemption(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		w.shut()
		w.add(w.job("big", w.file("d1/big", blocks(3))))
		w.add(w.job("mid", w.file("d1/mid", blocks(2))))
		w.add(w.job("small", w.file("d1/small", 100)))
		w.add(w.job("mid2", w.file("d1/mid2", blocks(2))))
		s := w.status("r-big")
		if s.Current != filepath.Join(w.dir, "d1/big") || s.Done || s.Full {
			t.Errorf("while its first block is read: %+v", s)
		}
		if s := w.status("r-mid"); s.Waits != filepath.Join(w.dir, "d1/big")+" is being read for job big" {
			t.Errorf("another waits because of %q", s.Waits)
		}
		for range 8 {
			w.let()
		}
		w.wantReads("big@0", "small@0", "mid@0", "mid@1", "mid2@0", "mid2@1", "big@1", "big@2")
		for _, s := range w.e.List() {
			if !s.Done || s.Pinned != s.Bytes || s.Waits != "" || s.Current != "" || s.Migrated != s.Bytes {
				t.Errorf("at the end: %+v", s)
			}
		}
		if c := w.e.Counters(); c.Blocks != 8 || c.Migrated != blocks(7)+100 || c.PinnedBlocks != 8 || c.Requests != 4 {
			t.Errorf("counters %+v", c)
		}
	})
}

func TestFIFO(t *testing.T) {
	inWorld(t, worldConfig{change: func(c *Config) { c.Policy.Order = prefetch.FIFO }}, func(t *testing.T, w *world) {
		w.shut()
		w.add(w.job("big", w.file("d1/big", blocks(2))))
		w.add(w.job("small", w.file("d1/small", 100)))
		w.openGate()
		w.settle()
		w.wantReads("big@0", "big@1", "small@0")
	})
}

// The size of the job's whole input decides, not that of the request.
func TestInputOfTheJobDecides(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		w.shut()
		w.add(w.job("first", w.file("d1/first", blocks(1))))
		part := w.job("part", w.file("d1/part", 100))
		part.Bytes = blocks(1000)
		w.add(part)
		w.add(w.job("other", w.file("d1/other", blocks(2))))
		w.openGate()
		w.settle()
		w.wantReads("first@0", "other@0", "other@1", "part@0")
	})
}

func TestOneBlockAtATimePerDevice(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		w.shut()
		w.add(w.job("a", w.file("d1/a", blocks(2)), w.file("d2/b", blocks(1)), w.file("d1/c", 10)))
		w.add(w.job("d", w.file("d2/d", blocks(5))))
		w.mu.Lock()
		one, two := w.busy["d1"], w.busy["d2"]
		w.mu.Unlock()
		if one != 1 || two != 1 {
			t.Errorf("%d and %d blocks are being read on the devices, want one on each", one, two)
		}
		w.openGate()
		w.settle()
		if s := w.status("r-a"); !s.Done || s.Pinned != s.Bytes {
			t.Errorf("%+v", s)
		}
	})
}

func TestDemandGoesFirst(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		w.shut()
		w.add(w.job("a", w.file("d1/a", blocks(3))))
		demand := w.disks.Reader(disk.Device{ID: 1, Name: "d1"}, disk.Demand, "job x")
		defer demand.Close()
		turn := make(chan *disk.Turn)
		go func() {
			got, err := demand.Begin(t.Context())
			if err != nil {
				t.Error(err)
			}
			turn <- got
		}()
		w.settle()
		select {
		case <-turn:
			t.Fatal("a block that had begun was interrupted")
		default:
		}
		w.let()
		got := <-turn
		w.settle()
		w.wantReads("a@0")
		got.End(5)
		w.pass(time.Second) // warming stays away for a moment
		w.wantReads("a@1")
	})
}

func TestRoom(t *testing.T) {
	inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(4)}}, func(t *testing.T, w *world) {
		w.add(w.job("a", w.file("d1/a", blocks(3))))
		w.add(w.job("b", w.file("d1/b", blocks(4))))
		w.add(w.job("c", w.file("d1/c", blocks(5)), w.file("d1/tiny", 100)))
		w.wantReads("a@0", "a@1", "a@2", "b@0")
		w.wantPinned(4)
		b, c := w.status("r-b"), w.status("r-c")
		if b.Done || !b.Full || b.Remaining != blocks(3) || !strings.HasPrefix(b.Waits, "waits for room: 4 MiB of the budget of 4 MiB are kept") {
			t.Errorf("what does not fit: %+v", b)
		}
		if c.Waits != "waits behind job b" || !c.Full {
			t.Errorf("who is behind it: %+v", c)
		}
		stood := w.e.Release("a")
		if len(stood) != 1 || stood[0].Pinned != blocks(3) || stood[0].ID != "r-a" {
			t.Errorf("as it ended it stood so: %+v", stood)
		}
		w.settle()
		w.wantReads("b@1", "b@2", "b@3")
		if s := w.status("r-b"); !s.Done || s.Full {
			t.Errorf("with room: %+v", s)
		}
		w.e.Release("b")
		w.settle()
		w.wantReads("c@0", "c@1", "c@2", "c@3")
		if n := w.e.Counters(); n.Released != blocks(7) || n.Wasted != blocks(7) {
			t.Errorf("nobody has read what was released: %+v", n)
		}
	})
}

func TestBlockThatNeverFits(t *testing.T) {
	inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(1) / 2}}, func(t *testing.T, w *world) {
		w.add(w.job("a", w.file("d1/a", blocks(2)+4096)))
		w.add(w.job("b", w.file("d1/b", blocks(4)), w.file("d1/tiny", 100)))
		w.wantReads("a@2", "tiny@0")
		s := w.status("r-a")
		if !s.Done || s.NotFit != blocks(2) || s.Pinned != 4096 || s.NotFitReason != "a block of 1 MiB is larger than the whole budget of 512 KiB" {
			t.Errorf("%+v", s)
		}
	})
}

func TestBudgetOfARequest(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		hold := Request{ID: "w1", Hold: true, Budget: blocks(2), Files: []File{w.file("d1/a", blocks(3)), w.file("d1/b", 100)}}
		w.add(hold)
		w.wantReads("a@0", "a@1")
		if s := w.status("w1"); !s.Done || s.NotFit != blocks(1)+100 || s.NotFitReason != "its own limit of 2 MiB is used up" || s.Pinned != blocks(2) {
			t.Errorf("%+v", s)
		}
		// A job that lets go as it reads gets further.
		job := w.job("j", w.file("d1/c", blocks(3)))
		job.Budget, job.Implicit = blocks(1), true
		w.add(job)
		w.wantReads("c@0")
		if s := w.status("r-j"); s.Done || !s.Full || s.Remaining != blocks(2) || s.Waits != "its own limit of 1 MiB is used up until it has read some of it" {
			t.Errorf("%+v", s)
		}
		w.add(w.job("k", w.file("d1/e", blocks(9)))) // it is passed by
		w.settle()
		if s := w.status("r-k"); !s.Done {
			t.Errorf("a job at its own limit holds up another: %+v", s)
		}
		w.e.Read("j", job.Files[0].Path, blockPart(0))
		w.settle()
		if s := w.status("r-j"); s.Pinned != blocks(1) || s.Read != blocks(1) {
			t.Errorf("after it has read one: %+v", s)
		}
	})
}

// TestNotFullWhileItReads: a request that has its own budget is not told of as one
// that waits for room while the blocks that fit are being read.
func TestNotFullWhileItReads(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		w.shut()
		w.add(Request{ID: "w1", Hold: true, Budget: blocks(2), Files: []File{w.file("d1/a", blocks(4))}})
		for n := range int64(2) {
			if s := w.status("w1"); s.Full || s.Done || s.Current == "" || s.Pinned != blocks(n) {
				t.Errorf("while block %d is read: %+v", n, s)
			}
			w.let()
		}
		if s := w.status("w1"); !s.Done || s.NotFit != blocks(2) || s.Pinned != blocks(2) || s.NotFitReason != "its own limit of 2 MiB is used up" {
			t.Errorf("in the end: %+v", s)
		}
	})
}

func TestCleanUp(t *testing.T) {
	inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(10)}}, func(t *testing.T, w *world) {
		w.add(Request{ID: "w1", Hold: true, Files: []File{w.file("d1/hold", blocks(2))}})
		w.add(w.job("gone", w.file("d1/gone", blocks(3))))
		w.add(w.job("here", w.file("d1/here", blocks(2))))
		w.gone["gone"] = true
		w.pass(w.e.cfg.FollowUp)
		if w.asked != 0 {
			t.Error("it is asked who is alive though there is room")
		}
		w.wantPinned(7)
		w.add(w.job("more", w.file("d1/more", blocks(1))))
		w.wantPinned(5) // 8 of 10 make it ask
		if _, err := w.e.Status("r-gone"); !errors.Is(err, ErrUnknown) {
			t.Errorf("a job that is gone: %v", err)
		}
		if c := w.e.Counters(); c.CleanedUp != 1 || c.Requests != 3 {
			t.Errorf("%+v", c)
		}
		asked := w.asked
		w.add(w.job("last", w.file("d1/last", blocks(8)))) // five of its blocks fit
		w.pass(5 * w.e.cfg.FollowUp)
		if n := w.asked - asked; n < 4 || n > 8 {
			t.Errorf("in five intervals it is asked %d times, each about all jobs", n)
		}
	})
}

// A large block waits although less than the threshold is taken.
func TestCleanUpForABlockThatWaits(t *testing.T) {
	inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(3) / 2}}, func(t *testing.T, w *world) {
		w.add(w.job("gone", w.file("d1/gone", blocks(1))))
		w.gone["gone"] = true
		w.add(w.job("next", w.file("d1/next", blocks(1))))
		w.wantReads("gone@0", "next@0")
		w.wantPinned(1)
	})
}

func TestMaxBlocks(t *testing.T) {
	inWorld(t, worldConfig{change: func(c *Config) { c.MaxBlocks = 3 }}, func(t *testing.T, w *world) {
		var files []File
		for _, name := range []string{"d1/a", "d1/b", "d2/c", "d2/d", "d1/e"} {
			files = append(files, w.file(name, 10))
		}
		job := w.job("a", files...)
		job.Implicit = true
		w.add(job)
		if s := w.status("r-a"); s.Pinned != 30 || !s.Full || !strings.Contains(s.Waits, "3 blocks and small files are kept") {
			t.Errorf("%+v", s)
		}
		for i, f := range files {
			w.e.Read("a", f.Path, pagecache.Range{Len: 10})
			w.settle()
			if s, want := w.status("r-a"), min(30, int64(4-i)*10); s.Pinned != want {
				t.Errorf("after %d files were read: %+v, want %d pinned", i+1, s, want)
			}
		}
	})
}

// Two devices that choose at the same time do not take the same room.
func TestRoomIsGivenOnce(t *testing.T) {
	var arrived atomic.Int32
	release := func() {}
	inWorld(t, worldConfig{change: func(c *Config) {
		open, gate := c.Open, make(chan struct{})
		release = func() { close(gate) }
		c.MaxBlocks = 1
		c.Open = func(owner linux.Credentials, path string) (*os.File, error) {
			arrived.Add(1)
			<-gate
			return open(owner, path)
		}
	}}, func(t *testing.T, w *world) {
		w.add(w.job("a", w.file("d1/a", 10)))
		w.add(w.job("b", w.file("d2/b", 10)))
		if n := arrived.Load(); n != 2 {
			t.Fatalf("%d files are being opened, want one on each device", n)
		}
		release()
		w.settle()
		if c := w.e.Counters(); c.PinnedBlocks != 1 || c.Blocks != 1 {
			t.Errorf("%+v", c)
		}
	})
}

// stubborn ends a Pin although its context has.
type stubborn struct{ pagecache.Cache }

func (s stubborn) Pin(ctx context.Context, f *os.File, r pagecache.Range, progress func(int64)) (pagecache.Pinned, error) {
	return s.Cache.Pin(context.WithoutCancel(ctx), f, r, progress)
}

// A block that nobody needs any more when it has been read is released.
func TestEndWhileReadingToTheEnd(t *testing.T) {
	inWorld(t, worldConfig{change: func(c *Config) { c.Cache = stubborn{c.Cache} }}, func(t *testing.T, w *world) {
		w.shut()
		f := w.file("d1/f", blocks(1))
		w.add(w.job("a", f))
		w.e.Release("a")
		w.wantPinned(1)
		w.let()
		w.wantPinned(0)
		if c := w.e.Counters(); c.Wasted != blocks(1) {
			t.Errorf("%+v", c)
		}
	})
}

func TestWatch(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		w.shut()
		w.add(w.job("a", w.file("d1/a", blocks(2))))
		s, err := w.e.Watch(t.Context(), "r-a", 0)
		if err != nil || s.Migrated != 0 {
			t.Fatalf("%+v, %v", s, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.e.Watch(ctx, "r-a", s.Version); !errors.Is(err, context.Canceled) {
			t.Errorf("with nothing new: %v", err)
		}
		last := make(chan Status)
		go func() {
			var got Status
			for seen := uint64(0); !got.Ended; seen = got.Version {
				var err error
				if got, err = w.e.Watch(t.Context(), "r-a", seen); err != nil {
					t.Error(err)
					break
				}
				if got.Done && got.Remaining != 0 {
					t.Errorf("%+v", got)
				}
			}
			last <- got
		}()
		w.settle()
		w.let()
		w.let()
		w.e.Release("a")
		if got := <-last; !got.Ended {
			t.Errorf("%+v", got)
		}
		if _, err := w.e.Watch(t.Context(), "r-a", 0); !errors.Is(err, ErrUnknown) {
			t.Errorf("after its end: %v", err)
		}
	})
}

func TestEndWhileReading(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		w.shut()
		w.add(w.job("a", w.file("d1/a", blocks(3))))
		w.add(w.job("b", w.file("d1/b", blocks(4))))
		w.e.Release("a")
		w.settle()
		w.wantReads("a@0", "b@0") // nobody needs the rest of a's block
		if err := w.e.Close(); err != nil {
			t.Error(err)
		}
		if err := w.e.Add(w.job("c")); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// A disk that does not answer does not keep an end from coming, and is named.
func TestEndAndTheDiskHangs(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		w.shut()
		w.deaf = true
		f := w.file("d1/a", blocks(1))
		w.add(w.job("a", f))
		w.add(w.job("b", w.file("d2/b", blocks(1))))
		w.wantReads("a@0", "b@0")
		w.let() // either of them
		began := time.Now()
		err := w.e.Close()
		if took := time.Since(began); !errors.Is(err, ErrHangs) || took != linux.EndTime {
			t.Errorf("after %v: %v", took, err)
		}
		if err != nil && strings.Contains(err.Error(), "d1 "+f.Path) == strings.Contains(err.Error(), "d2 ") {
			t.Error(err)
		}
	})
}

func TestBadRequests(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		w.add(w.job("a", w.file("d1/a", 1)))
		for _, c := range []struct {
			name string
			q    Request
			want error
		}{
			{"twice", Request{ID: "r-a", Job: "x"}, ErrExists},
			{"no id", Request{Job: "x"}, ErrRequest},
			{"neither job nor hold", Request{ID: "x"}, ErrRequest},
			{"job and hold", Request{ID: "x", Job: "x", Hold: true}, ErrRequest},
			{"negative", Request{ID: "x", Job: "x", Budget: -1}, ErrRequest},
			{"too many blocks", Request{ID: "x", Job: "x", Files: manyLarge(300)}, ErrRequest},
		} {
			if err := w.e.Add(c.q); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
		}
		if _, err := w.e.Remove("nobody"); !errors.Is(err, ErrUnknown) {
			t.Errorf("remove nobody: %v", err)
		}
		if got := w.e.Release("nobody"); got != nil {
			t.Errorf("release nobody: %v", got)
		}
		w.add(w.job("empty"))
		if s := w.status("r-empty"); !s.Done || s.Waits != "" {
			t.Errorf("no files: %+v", s)
		}
	})
	for _, c := range []Config{{}, {Block: 100}, {Block: -4096}, {MaxBlocks: -1}, {FollowUp: -1}} {
		if c.Block != 0 || c.MaxBlocks != 0 || c.FollowUp != 0 {
			w := &world{}
			c.Cache, c.Disks, c.Devices = nullCache{}, &w.disks, w
		}
		if _, err := New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func manyLarge(n int) []File {
	files := make([]File, n)
	for i := range files {
		files[i] = File{Path: filepath.Join("/", strings.Repeat("x", i+1)), Size: maxFileBlocks * testBlock}
	}
	return files
}

// TestPartsOfFiles: jobs want parts of one file, each its own. What is read of one lets go of that alone.
func TestPartsOfFiles(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(8))
		part := func(name string, at, n int64) RequestID {
			q := w.job(name, File{Path: f.Path, Off: blocks(at), Size: blocks(n)})
			q.Implicit = true
			return w.add(q)
		}
		a, b := part("a", 1, 2), part("b", 4, 3)
		part("c", 4, 3)
		w.wantPinned(5)
		w.e.Read("b", f.Path, pagecache.Range{Off: blocks(1), Len: blocks(2)})
		w.wantPinned(5)
		w.e.Read("a", f.Path, pagecache.Range{Off: blocks(1), Len: blocks(2)})
		w.wantPinned(3)
		if _, err := w.e.Remove(b); err != nil {
			t.Error(err)
		}
		w.wantPinned(3)
		if s := w.status(a); s.Read != blocks(2) {
			t.Errorf("%+v", s)
		}
		// One whose end is not there.
		short := w.add(w.job("d", File{Path: f.Path, Off: blocks(7), Size: blocks(2)}))
		w.settle()
		if s := w.status(short); s.FailedFiles != 1 {
			t.Errorf("%+v", s)
		}
		before := w.add(w.job("e", File{Path: f.Path, Off: -1, Size: blocks(2)}))
		w.settle()
		if s := w.status(before); s.FailedFiles != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestPartBeginsWithinPage: where pages are large, parts of a file need not begin at one. All of their pages are kept, and count.
func TestPartBeginsWithinPage(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(8))
		id := w.add(w.job("a", File{Path: f.Path, Off: blocks(1) + pageSize/2, Size: blocks(2)}))
		w.settle()
		if s := w.status(id); s.FailedFiles != 0 || s.Pinned != blocks(2) {
			t.Errorf("%+v", s)
		}
		// Each of the two blocks has half a page at either end.
		if n, counted := w.memory.Pinned(), w.e.Counters().Pinned; n != blocks(2)+2*pageSize || counted != n {
			t.Errorf("%d bytes are locked, %d are counted", n, counted)
		}
		if _, err := w.e.Remove(id); err != nil {
			t.Error(err)
		}
		w.wantPinned(0)
	})
}
