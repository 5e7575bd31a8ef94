package warm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/disk"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/pagecache"
)

// realWorld is an engine with the page cache and the disks of this machine.
type realWorld struct {
	*testing.T
	dir   string
	cache pagecache.Cache
	disks disk.Scheduler
	e     *Engine
}

func newRealWorld(t *testing.T, c pagecache.Config, block int64) *realWorld {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("locking files of this size in memory needs root (CAP_IPC_LOCK)")
	}
	cache, err := pagecache.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if method, why := cache.Method(); method == pagecache.None {
		cache.Close()
		t.Skipf("what is in memory cannot be found out here: %s", why)
	}
	w := &realWorld{T: t, dir: t.TempDir(), cache: cache}
	if err := os.Chmod(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.e, err = New(Config{Cache: cache, Disks: &w.disks, Devices: &disk.Devices{}, Block: block, FollowUp: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(w.e.Close(), cache.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// file makes a file that is not in memory.
func (w *realWorld) file(name string, size int64) File {
	w.Helper()
	path := filepath.Join(w.dir, name)
	f, err := os.Create(path)
	if err != nil {
		w.Fatal(err)
	}
	defer f.Close()
	piece := []byte(strings.Repeat("headrace\n", 1<<17))
	for left := size; left > 0; left -= int64(len(piece)) {
		if _, err := f.Write(piece[:min(left, int64(len(piece)))]); err != nil {
			w.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		w.Fatal(err)
	}
	w.evict(f)
	if n, err := w.cache.Resident(f, pagecache.Range{Len: size}); err != nil || n > size/4 && n > 1<<20 {
		w.Skipf("%s cannot be dropped from memory here: %d bytes stay (%v)", path, n, err)
	}
	return File{Path: path, Size: size}
}

func (w *realWorld) evict(f *os.File) {
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		w.Fatal(err)
	}
}

// await waits until a request is as wanted.
func (w *realWorld) await(id RequestID, what string, want func(Status) bool) Status {
	w.Helper()
	var s Status
	for seen := uint64(0); ; seen = s.Version {
		var err error
		if s, err = w.e.Watch(w.Context(), id, seen); err != nil {
			w.Fatal(err)
		}
		if want(s) {
			return s
		}
		if s.Done {
			w.Fatalf("waiting until %s: it is done: %+v", what, s)
		}
	}
}

// lockedKB returns how much this process has locked.
func lockedKB(t *testing.T) (kb int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if n, err := fmt.Sscanf(line, "VmLck: %d kB", &kb); n == 1 && err == nil {
			return kb
		}
	}
	t.Fatal("no VmLck")
	return 0
}

func TestRealFiles(t *testing.T) {
	w := newRealWorld(t, pagecache.Config{Budget: 128 << 20}, 4<<20)
	before := lockedKB(t)
	f, small := w.file("f", 40<<20+5), w.file("small", 3000)
	if err := w.e.Add(Request{ID: "r", Job: "j", Implicit: true, Files: []File{f, small}}); err != nil {
		t.Fatal(err)
	}
	s := w.await("r", "it is done", func(s Status) bool { return s.Done })
	// The reading of a block brings nothing of the next one into memory.
	if s.Pinned != f.Size+small.Size || s.FailedFiles != 0 || s.Migrated != s.Bytes {
		t.Fatalf("%+v", s)
	}
	locked := (lockedKB(t) - before) << 10
	if locked != w.e.Counters().Pinned || locked < s.Pinned {
		t.Errorf("the kernel has %d bytes locked, the engine counts %d, the request %d", locked, w.e.Counters().Pinned, s.Pinned)
	}
	// What is locked survives what drops the rest.
	file, err := os.Open(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w.evict(file)
	if n, err := w.cache.Resident(file, pagecache.Range{Len: f.Size}); err != nil || n < s.Pinned-small.Size {
		t.Errorf("%d bytes are in memory after the rest was dropped, %d should be locked (%v)", n, s.Pinned, err)
	}
	if pins := w.e.Pins(); len(pins) != 2 || pins[0].Path != f.Path || pins[0].Bytes != 40<<20+pageSize || len(pins[0].By) != 1 || pins[0].By[0].Job != "j" {
		t.Errorf("%+v", pins)
	}
	w.e.Read("j", f.Path, pagecache.Range{Len: 8 << 20})
	if s, err := w.e.Status("r"); err != nil || s.Read != 8<<20 {
		t.Errorf("%+v, %v", s, err)
	}
	w.e.Release("j")
	if n := lockedKB(t); n > before { // the two blocks are perhaps on their way yet
		testkit.Await(t, "everything is released", func() bool { return lockedKB(t) <= before })
	}
	if c := w.e.Counters(); c.Migrated < f.Size || c.Blocks < 10 {
		t.Errorf("%+v", c)
	}
}

// An ordinary user warms only what they may read.
func TestRealRights(t *testing.T) {
	w := newRealWorld(t, pagecache.Config{Budget: 64 << 20}, 4<<20)
	open, secret := w.file("open", 1<<20), w.file("secret", 1<<20)
	if err := errors.Join(os.Chmod(open.Path, 0o644), os.Chmod(secret.Path, 0o600), os.Chmod(filepath.Dir(w.dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := w.e.Add(Request{ID: "r", Job: "j", Owner: linux.Credentials{UID: 65534, GID: 65534}, Files: []File{secret, open}}); err != nil {
		t.Fatal(err)
	}
	s := w.await("r", "it is done", func(s Status) bool { return s.Done })
	if s.Pinned != open.Size || s.FailedFiles != 1 || s.Failures[0] != (Failure{secret.Path, "permission denied"}) {
		t.Errorf("%+v", s)
	}
}

// Files that shrink and vanish while they are locked harm nobody.
func TestRealFilesThatChange(t *testing.T) {
	w := newRealWorld(t, pagecache.Config{Budget: 128 << 20}, 4<<20)
	f, g := w.file("f", 16<<20), w.file("g", 8<<20)
	if err := w.e.Add(Request{ID: "r", Job: "j", Files: []File{f, g}}); err != nil {
		t.Fatal(err)
	}
	w.await("r", "it is done", func(s Status) bool { return s.Done && s.Pinned > 0 })
	if err := errors.Join(os.Truncate(f.Path, 100), os.Remove(g.Path)); err != nil {
		t.Fatal(err)
	}
	if err := w.e.Add(Request{ID: "r2", Job: "k", Files: []File{f, g, w.file("h", 1<<20)}}); err != nil {
		t.Fatal(err)
	}
	s := w.await("r2", "it is done", func(s Status) bool { return s.Done })
	if s.FailedFiles != 2 || s.Pinned+s.Resident != 1<<20 {
		t.Errorf("%+v", s)
	}
	w.e.Release("j")
	w.e.Release("k")
	testkit.Await(t, "everything is released", func() bool { return w.e.Counters().Pinned == 0 && w.cache.Pinned() == 0 })
}

// TestRealEvictWritten evicts what has just been written: the kernel keeps that
// until it is on the disk.
func TestRealEvictWritten(t *testing.T) {
	w := newRealWorld(t, pagecache.Config{}, 1<<20)
	const size = 3<<20 + 5
	path := filepath.Join(w.dir, "written")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	cold, err := w.cache.Resident(f, pagecache.Range{Len: size})
	if err != nil || cold > 0 {
		t.Skipf("%d bytes of a hole are in memory here: %v", cold, err)
	}
	if _, err := f.WriteAt([]byte(strings.Repeat("x", size)), 0); err != nil {
		t.Fatal(err)
	}
	did, err := w.e.Evict(t.Context(), linux.Credentials{}, true, []string{path})
	if err != nil || did.FailedFiles != 0 || did.Files != 1 || did.Bytes != size {
		t.Errorf("%+v, %v; want all %d bytes dropped", did, err, size)
	}
}
