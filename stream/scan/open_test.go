package scan

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/disk"
	"headrace/fileset"
	"headrace/internal/budget"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/stream/deal"
	"headrace/stream/protocol"
	"headrace/stream/source"
)

// nothingResident says that no file is in memory.
type nothingResident struct{ pagecache.Cache }

func (nothingResident) Resident(*os.File, pagecache.Range) (int64, error) { return 0, nil }
func (nothingResident) Refresh(context.Context) error                     { return nil }
func (nothingResident) Watch(*os.File) (pagecache.Watched, error) {
	return nil, errors.ErrUnsupported
}

// hooked has before called whenever a file is opened, and done when it is closed.
type hooked struct {
	*source.Local
	before func() error
	done   func()
}

type hookedFile struct {
	source.File
	done func()
}

func (h hooked) Open(path string, was fileset.Was, owner linux.Credentials) (source.File, error) {
	if err := h.before(); err != nil {
		return nil, err
	}
	f, err := h.Local.Open(path, was, owner)
	if err != nil {
		return nil, err
	}
	return hookedFile{f, h.done}, nil
}

func (f hookedFile) Close() error {
	f.done()
	return f.File.Close()
}

// world is a set with one stream of files, all of size bytes, for one consumer, which is there
// and to which everything counts as dealt that comes.
type world struct {
	mu     sync.Mutex
	set    *Set
	deal   *deal.Dealer
	feed   *Feed
	units  chan uint32
	failed chan error
}

func (w *world) Arrived(u *Unit) {
	u.Cancel()
	w.deal.Arrive(u.ID)
	w.units <- u.ID
}
func (w *world) Empty(uint32)     {}
func (w *world) Failed(err error) { w.failed <- err }
func (w *world) Serve()           { w.feed.Advance() }

func newWorld(t *testing.T, size int, codec protocol.Codec, files int, before func() error, done func()) *world {
	w := &world{units: make(chan uint32, 64), failed: make(chan error, 64)}
	local := &source.Local{
		Cache: nothingResident{}, Disks: &disk.Scheduler{}, Devices: &disk.Devices{}, Seeks: func(disk.Device) bool { return true },
	}
	w.set = NewSet(Config{
		Lock: &w.mu, Source: hooked{local, before, done}, Forget: func(uint32) {}, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() {
		w.mu.Lock()
		w.feed.Close()
		w.set.Stop()
		w.mu.Unlock()
		w.set.Wait()
	})
	p := &deal.Plan{Rule: deal.Rule{Split: deal.Raw}}
	dir := t.TempDir()
	for i := range files {
		path := filepath.Join(dir, string(rune('a'+i)))
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		id, err := fileset.Identify(f)
		f.Close()
		if err == nil {
			err = p.Add(path, id, codec)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.deal = deal.New(p, 1, nil)
	w.feed = w.set.Feed(Spec{Plan: p, Owner: linux.Self(), Buffer: 16 << 20, Consumers: 1}, w.deal, w)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.deal.Attach(&protocol.Hello{Attempt: 1, Whole: true}, 0); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestFilesThatDoNotOpen: whoever comes and goes on and on while a file server does not answer has no more threads
// wait for it than there may be.
func TestFilesThatDoNotOpen(t *testing.T) {
	const most = 3
	var begun atomic.Int32
	opening, answers := make(chan bool, 64), make(chan bool)
	w := newWorld(t, 100, protocol.Gzip, 1, func() error {
		begun.Add(1)
		opening <- true
		<-answers
		return nil
	}, func() {})
	w.mu.Lock()
	w.set.open = budget.New("files", most, most)
	for range 10 {
		w.feed.Read(0, 0, func(*Unit) {}).Cancel()
		w.feed.Read(0, 0, func(*Unit) {})
		w.mu.Unlock()
		w.mu.Lock()
	}
	w.mu.Unlock()
	for range most {
		<-opening
	}
	w.mu.Lock()
	w.set.closed = true // so that nobody needs them any more
	w.set.room.Broadcast()
	w.mu.Unlock()
	close(answers)
	w.set.stop()
	w.set.Wait()
	if n := begun.Load(); n != most {
		t.Errorf("%d were opened at a time, where %d may be", n, most)
	}
	if n := w.set.open.Users(); n != 0 {
		t.Errorf("%d users have files open", n)
	}
}

// TestFileThatDoesNotClose: who waits for a file to be closed has no lock.
func TestFileThatDoesNotClose(t *testing.T) {
	closing, closes := make(chan bool), make(chan bool)
	w := newWorld(t, 1<<20, protocol.Plain, 1, func() error { return nil }, func() {
		closing <- true
		<-closes
	})
	w.mu.Lock()
	w.feed.Advance()
	w.mu.Unlock()
	for range 16 {
		<-w.units
	}
	<-closing
	w.mu.Lock() // it can be had
	if n := w.set.Scans(); n != 0 {
		t.Errorf("%d files are being read", n)
	}
	w.mu.Unlock()
	close(closes)
}

// TestShortOfDescriptors: that there are none for a moment fails no stream.
func TestShortOfDescriptors(t *testing.T) {
	for name, c := range map[string]struct {
		size  int
		units int
	}{"in blocks": {1 << 20, 32}, "in a batch": {1000, 1}} {
		t.Run(name, func(t *testing.T) {
			var opened atomic.Int32
			w := newWorld(t, c.size, protocol.Plain, 2, func() error {
				if n := opened.Add(1); n == 1 || n == 3 {
					return &os.PathError{Op: "open", Path: "f", Err: unix.EMFILE}
				}
				return nil
			}, func() {})
			w.mu.Lock()
			w.feed.Advance()
			w.mu.Unlock()
			for range c.units {
				select {
				case <-w.units:
				case err := <-w.failed:
					t.Fatal(err)
				}
			}
		})
	}
}
