package blocks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headrace"
	"headrace/hdfs/replica"
	"headrace/pagecache"
	"headrace/warm"
	"headrace/wire"
	"headrace/wire/convert"
)

const testPool = "BP-1-127.0.0.1-1700000000000"

func id(n int64) headrace.BlockID { return headrace.BlockID{Pool: testPool, Number: n} }

// disk is a directory of a data node, with replicas of generation 1.
type disk struct {
	*replica.Volumes
	t    *testing.T
	dirs []string
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	d := &disk{t: t, dirs: []string{t.TempDir(), t.TempDir()}}
	const version = "storageType=DATA_NODE\nlayoutVersion=-57\nnamespaceID=1\ncTime=0\nblockpoolID=" + testPool + "\nstorageID=DS-1\nclusterID=CID-1\ndatanodeUuid=u\n"
	for _, dir := range d.dirs {
		for _, at := range []string{"current/VERSION", "current/" + testPool + "/current/VERSION"} {
			d.write(filepath.Join(dir, at), version)
		}
	}
	var err error
	if d.Volumes, err = replica.Open(d.dirs); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *disk) write(path, text string) {
	d.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

// paths are those of a replica on a volume, its data first.
func (d *disk) paths(volume int, n int64) [2]string {
	dir := filepath.Join(d.dirs[volume], "current", testPool, "current", "finalized", "subdir0", "subdir0")
	return [2]string{filepath.Join(dir, fmt.Sprintf("blk_%d", n)), filepath.Join(dir, fmt.Sprintf("blk_%d_1.meta", n))}
}

// add makes a replica of 5 bytes.
func (d *disk) add(volume int, n int64) {
	d.t.Helper()
	at := d.paths(volume, n)
	d.write(at[0], "hello")
	d.write(at[1], "\x00\x01\x02\x00\x00\x02\x00abcd")
}

func (d *disk) remove(volume int, n int64) {
	d.t.Helper()
	for _, p := range d.paths(volume, n) {
		if err := os.Remove(p); err != nil {
			d.t.Fatal(err)
		}
	}
}

// fakeCache has as much of files in memory as it is told.
type fakeCache struct {
	pagecache.Cache // the rest is not called
	mu              sync.Mutex
	open            map[*fakeFile]bool
	most            int // files that may be watched; 0: all
	err             error
}

type fakeFile struct {
	of       *fakeCache
	at       inode
	resident int64
	reads    []uint64
}

func (f *fakeFile) TakeReads() []uint64 {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	reads := f.reads
	f.reads = nil
	return reads
}

func (c *fakeCache) Refresh(context.Context) error { return c.err }

func (c *fakeCache) Watch(f *os.File) (pagecache.Watched, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.most > 0 && len(c.open) >= c.most {
		return nil, pagecache.ErrTooMany
	}
	at, _, err := inodeOf(f)
	if err != nil {
		return nil, err
	}
	w := &fakeFile{of: c, at: at}
	c.open[w] = true
	return w, nil
}

func (f *fakeFile) Blocks(dst []int64) []int64 { return dst }

func (f *fakeFile) Resident() int64 {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	return f.resident
}

func (f *fakeFile) Close() error {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if !f.of.open[f] {
		return errors.New("it was closed before")
	}
	delete(f.of.open, f)
	return nil
}

// set says how much of a file is in memory.
func (c *fakeCache) set(t *testing.T, path string, n int64) {
	t.Helper()
	c.change(t, path, func(f *fakeFile) { f.resident = n })
}

// readBy says which parts of a file others read.
func (c *fakeCache) readBy(t *testing.T, path string, parts ...uint64) {
	t.Helper()
	c.change(t, path, func(f *fakeFile) { f.reads = parts })
}

func (c *fakeCache) change(t *testing.T, path string, do func(*fakeFile)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at, _, err := inodeOf(f)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	found := false
	for w := range c.open {
		if w.at == at {
			do(w)
			found = true
		}
	}
	if !found {
		t.Fatalf("%s is not watched", path)
	}
}

// fakeEngine has files stand as it is told.
type fakeEngine struct {
	mu       sync.Mutex
	requests map[warm.RequestID]*warm.Request
	stands   map[warm.FileOf]warm.FileStatus
	counters warm.Counters
	added    int // blocks
	refuses  error
}

func (e *fakeEngine) Put(q warm.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refuses != nil {
		return e.refuses
	}
	if had := e.requests[q.ID]; had != nil {
		q.Files = append(slices.Clone(had.Files), q.Files...)
		e.added -= len(had.Files) / 2
	}
	e.added += len(q.Files) / 2
	e.requests[q.ID] = &q
	for _, f := range q.Files {
		at := warm.FileOf{Request: q.ID, File: f}
		if _, known := e.stands[at]; !known {
			e.stands[at] = warm.FileStatus{Known: true}
		}
	}
	return nil
}

func (e *fakeEngine) Drop(id warm.RequestID, files []warm.File) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.requests[id]
	if q == nil {
		return warm.ErrUnknown
	}
	q.Files = slices.DeleteFunc(q.Files, func(f warm.File) bool { return slices.Contains(files, f) })
	for _, f := range files {
		delete(e.stands, warm.FileOf{Request: id, File: f})
	}
	if len(q.Files) == 0 {
		delete(e.requests, id)
	}
	return nil
}

func (e *fakeEngine) Files(files []warm.FileOf) (all []warm.FileStatus) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range files {
		all = append(all, e.stands[f])
	}
	return all
}

// end is what somebody does who ends all requests by their IDs.
func (e *fakeEngine) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.requests)
	clear(e.stands)
}

// Read has what was asked for implicitly read.
func (e *fakeEngine) Read(job headrace.JobID, path string, part pagecache.Range) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for at, st := range e.stands {
		if q := e.requests[at.Request]; q.Job == job && at.Path == path && part.Off == at.Off && part.Len >= at.Size && q.Implicit {
			st.Read += at.Size
			e.stands[at] = st
		}
	}
}

func (e *fakeEngine) Counters() warm.Counters {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counters
}

// set says how all files stand.
func (e *fakeEngine) set(st warm.FileStatus) {
	e.mu.Lock()
	defer e.mu.Unlock()
	st.Known = true
	for at := range e.stands {
		e.stands[at] = st
	}
}

// rig is a Blocks with all that is below it.
type rig struct {
	*Blocks
	t      *testing.T
	disk   *disk
	cache  *fakeCache
	engine *fakeEngine
	number uint64
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{
		t: t, disk: newDisk(t), cache: &fakeCache{open: map[*fakeFile]bool{}},
		engine: &fakeEngine{requests: map[warm.RequestID]*warm.Request{}, stands: map[warm.FileOf]warm.FileStatus{}, counters: warm.Counters{Budget: 1000}},
	}
	c := Config{Replicas: Volumes{r.disk.Volumes}, Cache: r.cache, Engine: r.engine, Hosts: []string{"h1"}}
	for _, do := range change {
		do(&c)
	}
	r.Blocks = New(c)
	r.lookTime, r.lookAtMost = time.Hour, time.Hour // however slow the machine is
	t.Cleanup(r.Close)
	return r
}

// again has everything looked at now that is looked at from time to time.
func (r *rig) again() {
	ago := func(t *turn) {
		if !t.at.IsZero() {
			t.at = t.at.AddDate(-1, 0, 0)
		}
	}
	for _, w := range r.watched {
		ago(&w.turn)
	}
	for _, w := range r.wanted {
		ago(&w.turn)
		w.asked = w.asked.AddDate(-1, 0, 0)
	}
}

// resident reports, and returns what is told of blocks.
func (r *rig) report(all bool) (resident map[int64]int64, kept map[string]string) {
	r.t.Helper()
	r.again()
	q := r.Report(r.t.Context(), all)
	resident, kept = map[int64]int64{}, map[string]string{}
	for _, m := range q.Resident {
		for i, n := range m.Blocks.Numbers {
			resident[n] = m.Resident[i]
		}
	}
	for _, k := range q.Kept {
		for b := range convert.BlocksToKeep(k.Blocks) {
			kept[fmt.Sprint(k.Job.Job, " ", b.ID.Number)] = stateNames[k.State] + k.Reason
		}
	}
	return resident, kept
}

var stateNames = map[wire.KeptState]string{
	wire.KeptState_KEPT_STATE_PLANNED: "planned", wire.KeptState_KEPT_STATE_PINNED: "pinned", wire.KeptState_KEPT_STATE_RESIDENT: "resident",
	wire.KeptState_KEPT_STATE_READ: "read", wire.KeptState_KEPT_STATE_NOT_FIT: "not fit: ", wire.KeptState_KEPT_STATE_FAILED: "failed: ",
}

func (r *rig) watch(full bool, add, remove []int64) {
	r.number++
	w := &wire.BlocksToWatch{Number: r.number, Full: full}
	if add != nil {
		w.Add = []*wire.BlockList{{Pool: testPool, Numbers: add}}
	}
	if remove != nil {
		w.Remove = []*wire.BlockList{{Pool: testPool, Numbers: remove}}
	}
	r.Answered(&wire.ExchangeResponse{Watch: w})
}

func jobBlocks(job string, numbers []int64) *wire.JobBlocks {
	l := &wire.BlocksToKeep{}
	for i, n := range numbers {
		convert.AddToKeep(l, headrace.Block{ID: id(n), Generation: 1, Bytes: 5}, uint32(i))
	}
	return &wire.JobBlocks{Job: &wire.JobFacts{Job: &wire.JobRef{User: "u", Job: job}, Input: 77, SubmittedMs: 88}, Blocks: []*wire.BlocksToKeep{l}}
}

func (r *rig) order(full bool, job string, keep, letGo []int64) {
	r.number++
	o := &wire.BlocksToRead{Number: r.number, Full: full}
	if keep != nil {
		o.Keep = append(o.Keep, jobBlocks(job, keep))
	}
	if letGo != nil {
		o.LetGo = append(o.LetGo, jobBlocks(job, letGo))
	}
	r.Answered(&wire.ExchangeResponse{Read: o})
}

// requests are the jobs and blocks that the engine is to keep.
func (r *rig) requests() (all []string) {
	r.engine.mu.Lock()
	defer r.engine.mu.Unlock()
	for _, q := range r.engine.requests {
		for _, f := range q.Files {
			if name := filepath.Base(f.Path); !strings.HasSuffix(name, ".meta") {
				all = append(all, string(q.Job)+" "+name)
			}
		}
	}
	slices.Sort(all)
	return all
}

func wantEqual[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
