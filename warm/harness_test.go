package warm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"headrace"
	"headrace/disk"
	"headrace/fileset"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/pagecache/pagecachetest"
)

// testBlock is the block of all tests but those with the real cache.
const testBlock = 1 << 20

// world is an engine on a model of the page cache, in a bubble of synctest: when
// settle returns, the engine does nothing but wait. Files below dir/d1 are on one
// device, those below dir/d2 on another, those below dir/memory in memory.
type world struct {
	*testing.T
	dir    string
	cfg    Config
	memory *pagecachetest.Memory
	disks  disk.Scheduler
	e      *Engine

	mu      sync.Mutex
	reads   []string // "path@block" of what Pin has begun to read, in order
	busy    map[string]int
	overlap bool
	gate    chan struct{} // what is read takes one off, if it is not nil
	deaf    bool          // what is read does not end before it has
	gone    map[headrace.JobID]bool
	asked   int // how often Alive was, about all jobs at once
	denied  map[string]bool
	leased  map[string]bool
	silent  map[string]chan struct{} // paths that are not opened until it is closed
	orders  uint64
}

type worldConfig struct {
	pagecache.Config
	change func(c *Config)
	fail   func(method string, n int) error
}

// inWorld runs a test in a bubble, and checks that nothing is left over.
func inWorld(t *testing.T, wc worldConfig, test func(t *testing.T, w *world)) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"d1", "d2"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, dir: dir, busy: map[string]int{}, gone: map[headrace.JobID]bool{}, denied: map[string]bool{}, leased: map[string]bool{}}
		w.memory = pagecachetest.NewMemory(wc.Config)
		w.memory.OnPiece(w.piece)
		w.cfg = Config{Cache: w.memory, Disks: &w.disks, Devices: w, Block: testBlock, Alive: w.alive, Open: w.open}
		w.cfg.as = func(_ linux.Credentials, do func() error) error { return do() } // the model tells everybody
		if wc.fail != nil {
			w.cfg.Cache = &pagecachetest.Faulty{Cache: w.memory, Fail: wc.fail}
		}
		if wc.change != nil {
			wc.change(&w.cfg)
		}
		w.start()
		test(t, w)
		w.end()
	})
}

func (w *world) start() {
	e, err := New(w.cfg)
	if err != nil {
		w.Fatal(err)
	}
	w.e = e
}

func (w *world) end() {
	w.openGate()
	if err := w.e.Close(); err != nil {
		w.Error(err)
	}
	if n := w.memory.Pinned(); n != 0 {
		w.Errorf("%d bytes are locked after Close", n)
	}
	if len(w.e.blocks.all)+len(w.e.blocks.known)+len(w.e.requests)+len(w.e.inOrder)+len(w.e.jobs) != 0 || w.e.blocks.locked != 0 {
		w.Errorf("after Close there are %d blocks, %d paths, %d requests, %d bytes", len(w.e.blocks.all), len(w.e.blocks.known), len(w.e.requests), w.e.blocks.locked)
	}
	if err := w.memory.Close(); err != nil {
		w.Error(err)
	}
	if w.overlap {
		w.Error("two blocks were read on one device at the same time")
	}
}

// settle waits until the engine only waits.
func (w *world) settle() { synctest.Wait() }

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d) // takes none in the bubble
	w.settle()
}

// Of implements Devices.
func (w *world) Of(f *os.File) (disk.Device, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return disk.Device{}, err
	}
	return w.device(path), nil
}

func (w *world) device(path string) disk.Device {
	switch {
	case strings.HasPrefix(path, filepath.Join(w.dir, "d2")):
		return disk.Device{ID: 2, Name: "d2"}
	case strings.HasPrefix(path, filepath.Join(w.dir, "memory")):
		return disk.Device{ID: 3, Name: "memory", Memory: true}
	}
	return disk.Device{ID: 1, Name: "d1", Rotational: true}
}

func (w *world) alive(jobs []headrace.JobID) map[headrace.JobID]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	alive := map[headrace.JobID]bool{}
	for _, job := range jobs {
		alive[job] = !w.gone[job]
	}
	return alive
}

func (w *world) open(owner linux.Credentials, path string) (*os.File, error) {
	w.mu.Lock()
	denied, leased, silent := w.denied[fmt.Sprintf("%d %s", owner.UID, path)], w.leased[path], w.silent[path]
	w.mu.Unlock()
	if silent != nil {
		<-silent
	}
	if leased {
		return nil, &fileset.Problem{Path: path, Err: fileset.ErrLeased}
	}
	if denied {
		return nil, &fileset.Problem{Path: path, Err: os.ErrPermission}
	}
	return fileset.Open(path)
}

// piece is called before Pin reads up to 1 MiB: a whole block in these tests.
func (w *world) piece(ctx context.Context, f *os.File, r pagecache.Range) error {
	d, err := w.Of(f)
	if err != nil {
		return err
	}
	device := d.Name
	w.mu.Lock()
	w.reads = append(w.reads, fmt.Sprintf("%s@%d", filepath.Base(f.Name()), r.Off/testBlock))
	w.busy[device]++
	w.overlap = w.overlap || w.busy[device] > 1
	gate, deaf := w.gate, w.deaf
	w.mu.Unlock()
	switch {
	case gate == nil:
	case deaf:
		<-gate
	default:
		select {
		case <-gate:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	w.mu.Lock()
	w.busy[device]--
	w.mu.Unlock()
	return err
}

// shut has blocks be read only when they are let; let lets one be read.
func (w *world) shut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = make(chan struct{})
}

func (w *world) let() {
	w.gate <- struct{}{}
	w.settle()
}

func (w *world) openGate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gate != nil {
		close(w.gate)
		w.gate = nil
	}
}

// file makes a file of some bytes and returns it as a request wants it.
func (w *world) file(name string, size int64) File {
	w.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.Fatal(err)
	}
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(f.Truncate(size), f.Close())
	}
	if err != nil {
		w.Fatal(err)
	}
	return File{Path: path, Size: size}
}

// with calls do with a file that is open.
func (w *world) with(path string, do func(f *os.File) error) {
	w.Helper()
	f, err := os.Open(path)
	if err != nil {
		w.Fatal(err)
	}
	defer f.Close()
	if err := do(f); err != nil {
		w.Fatal(err)
	}
}

func (w *world) load(path string, r pagecache.Range) {
	w.Helper()
	w.with(path, func(f *os.File) error { return w.memory.Load(f, r) })
}

func (w *world) dropPages(path string, r pagecache.Range) {
	w.Helper()
	w.with(path, func(f *os.File) error { return w.memory.Drop(f, r) })
}

func (w *world) residentBytes(path string) (n int64) {
	w.Helper()
	w.with(path, func(f *os.File) (err error) {
		n, err = w.memory.Resident(f, pagecache.Range{Len: 1 << 40})
		return err
	})
	return n
}

// job makes the request of a job for files.
func (w *world) job(name string, files ...File) Request {
	w.orders++
	return Request{ID: RequestID("r-" + name), Job: headrace.JobID(name), Files: files, Seq: w.orders}
}

func (w *world) add(q Request) RequestID {
	w.Helper()
	if err := w.e.Add(q); err != nil {
		w.Fatal(err)
	}
	w.settle()
	return q.ID
}

// status returns what the engine says of a request once it only waits.
func (w *world) status(id RequestID) Status {
	w.Helper()
	w.settle()
	s, err := w.e.Status(id)
	if err != nil {
		w.Fatal(err)
	}
	if sum := s.Remaining + s.Pinned + s.Resident + s.Read + s.NotFit + s.Failed + s.Evicted; sum != s.Bytes {
		w.Errorf("%s: the parts make %d of %d bytes: %+v", id, sum, s.Bytes, s)
	}
	return s
}

// wantReads compares what was read since the last call, once the engine only waits.
func (w *world) wantReads(want ...string) {
	w.Helper()
	w.settle()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.reads, " "); got != strings.Join(want, " ") {
		w.Errorf("read %q, want %q", got, strings.Join(want, " "))
	}
	w.reads = nil
}

// wantPinned compares what is locked once the engine only waits.
func (w *world) wantPinned(blocks int64) {
	w.Helper()
	w.settle()
	if n := w.memory.Pinned(); n != blocks*testBlock {
		w.Errorf("%d bytes are locked, want %d blocks", n, blocks)
	}
	if n := w.e.Counters().Pinned; n != w.memory.Pinned() {
		w.Errorf("the engine counts %d bytes as locked, the cache %d", n, w.memory.Pinned())
	}
}

// blocks returns n blocks' worth of bytes.
func blocks(n int64) int64 { return n * testBlock }

// block is the nth block of a file.
func blockPart(n int64) pagecache.Range { return pagecache.Range{Off: n * testBlock, Len: testBlock} }
