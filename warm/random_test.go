package warm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"headrace"
	"headrace/internal/linux"
	"headrace/pagecache"
)

// quarter is how finely the random test reads.
const quarter = testBlock / 4

// reader is what the test itself knows of a request, in the plainest way.
type reader struct {
	q      Request
	denied map[string]bool // paths that its owner may not open
	read   map[string][]bool
	gone   map[string]bool // paths that were evicted
}

// wants reports whether a block is still to be read by somebody.
func (m *reader) wants(path string, part pagecache.Range) bool {
	for _, f := range m.q.Files {
		if f.Path != path || m.gone[path] || m.denied[path] {
			continue
		}
		if part.Off+part.Len != min(part.Off+testBlock, f.Size) {
			return false
		}
		if !m.q.Implicit {
			return true
		}
		for q := part.Off / quarter; q*quarter < part.Off+part.Len; q++ {
			if !m.read[path][q] {
				return true
			}
		}
	}
	return false
}

// randomWorld does random things to an engine and checks it when it is at rest.
type randomWorld struct {
	*world
	r     *rand.Rand
	files []File
	names map[string][]string // other paths of a file, itself included
	live  map[RequestID]*reader
	was   map[blockKey][]string
	seen  map[string]int
	n     int
}

func newRandomWorld(w *world, r *rand.Rand, seen map[string]int) *randomWorld {
	x := &randomWorld{world: w, r: r, names: map[string][]string{}, live: map[RequestID]*reader{}, was: map[blockKey][]string{}, seen: seen}
	for i := range 8 {
		size := r.Int64N(5)*testBlock + []int64{0, 0, 1, quarter * 2, 5000}[r.IntN(5)]
		f := w.file(fmt.Sprintf("d%d/f%d", 1+i%2, i), size)
		x.files = append(x.files, f)
		x.names[f.Path] = []string{f.Path}
	}
	link := filepath.Join(w.dir, "d2/link")
	if err := os.Link(x.files[1].Path, link); err != nil {
		w.Fatal(err)
	}
	x.files = append(x.files, File{Path: link, Size: x.files[1].Size})
	x.names[link] = []string{link, x.files[1].Path}
	x.names[x.files[1].Path] = x.names[link]
	w.denied["7 "+x.files[2].Path] = true
	return x
}

func (x *randomWorld) count(what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen[what]++
}

func (x *randomWorld) request() *reader {
	x.n++
	q := Request{ID: RequestID(fmt.Sprint("r", x.n)), Seq: uint64(x.n), Owner: linux.Credentials{UID: uint32([]int{0, 0, 7}[x.r.IntN(3)])}}
	if q.Hold = x.r.IntN(4) == 0; !q.Hold {
		q.Job = headrace.JobID(fmt.Sprint("j", x.r.IntN(5)))
		q.Implicit = x.r.IntN(2) == 0
	}
	if x.r.IntN(4) == 0 {
		q.Budget = int64(1+x.r.IntN(6)) * testBlock
	}
	m := &reader{denied: map[string]bool{}, read: map[string][]bool{}, gone: map[string]bool{}}
	for _, i := range x.r.Perm(len(x.files))[:1+x.r.IntN(4)] {
		f := x.files[i]
		q.Files = append(q.Files, f)
		m.read[f.Path] = make([]bool, f.Size/quarter+2)
		m.denied[f.Path] = x.denied[fmt.Sprintf("%d %s", q.Owner.UID, f.Path)]
	}
	m.q = q
	return m
}

// pick is any live request.
func (x *randomWorld) pick() *reader {
	n := x.r.IntN(max(1, len(x.live)))
	for i := range x.n + 1 {
		if m := x.live[RequestID(fmt.Sprint("r", i))]; m != nil {
			if n == 0 {
				return m
			}
			n--
		}
	}
	return nil
}

func (x *randomWorld) step() {
	f := x.files[x.r.IntN(len(x.files))]
	m := x.pick()
	what := []string{"add", "add", "read", "read", "read", "read", "release", "remove", "load", "drop", "evict", "pass", "gone", "shut", "open", "let"}[x.r.IntN(16)]
	if m == nil && what != "add" {
		return
	}
	x.count(what)
	switch what {
	case "add":
		m = x.request()
		x.live[m.q.ID] = m
		x.add(m.q)
	case "read":
		x.readSome(m, f)
	case "release":
		x.e.Release(m.q.Job)
		x.forget(func(o *reader) bool { return o.q.Job == m.q.Job && !o.q.Hold })
	case "remove":
		if _, err := x.e.Remove(m.q.ID); err != nil {
			x.Error(err)
		}
		delete(x.live, m.q.ID)
	case "load", "drop":
		part := pagecache.Range{Off: x.r.Int64N(5) * testBlock, Len: testBlock}
		if what == "load" {
			x.load(f.Path, part)
		} else {
			x.dropPages(f.Path, part)
		}
	case "evict":
		x.evict(f)
	case "pass":
		x.pass(3 * x.e.cfg.FollowUp)
	case "gone":
		x.vanish(m)
	case "shut":
		x.openGate()
		x.shut()
	case "open":
		x.openGate()
	case "let":
		x.mu.Lock()
		gate := x.gate
		x.mu.Unlock()
		select {
		case gate <- struct{}{}:
		default:
		}
	}
	x.settle()
}

func (x *randomWorld) forget(which func(*reader) bool) {
	for id, m := range x.live {
		if which(m) {
			delete(x.live, id)
		}
	}
}

func (x *randomWorld) readSome(m *reader, f File) {
	if m.q.Hold || f.Size == 0 {
		return
	}
	if x.r.IntN(2) == 0 { // more often one that matters
		f = m.q.Files[x.r.IntN(len(m.q.Files))]
	}
	from := x.r.Int64N(f.Size/quarter + 1)
	n := 1 + x.r.Int64N(8)
	x.e.Read(m.q.Job, f.Path, pagecache.Range{Off: from * quarter, Len: n * quarter})
	for _, o := range x.live {
		if o.q.Job == m.q.Job && o.read[f.Path] != nil {
			for q := from; q < from+n && q < int64(len(o.read[f.Path])); q++ {
				o.read[f.Path][q] = true
			}
		}
	}
}

func (x *randomWorld) evict(f File) {
	uid, everyone := uint32(7*x.r.IntN(2)), x.r.IntN(2) == 0
	did, err := x.e.Evict(x.Context(), linux.Credentials{UID: uid}, everyone, []string{f.Path})
	if err != nil {
		x.Error(err)
	}
	for _, m := range x.live {
		if m.q.Hold && (everyone || m.q.Owner.UID == uid) {
			m.gone[f.Path] = true
		}
	}
	for _, s := range did.Ended {
		delete(x.live, s.ID)
	}
}

// vanish lets a job end without a word. It is noticed when there is little room.
func (x *randomWorld) vanish(m *reader) {
	if m.q.Hold {
		return
	}
	x.mu.Lock()
	x.gone[m.q.Job] = true
	x.mu.Unlock()
	x.settle()
	x.pass(x.e.cfg.FollowUp)
	for id := range x.live {
		if _, err := x.e.Status(id); err != nil {
			x.count("cleaned up")
			delete(x.live, id)
		}
	}
	x.mu.Lock()
	delete(x.gone, m.q.Job)
	x.mu.Unlock()
}

// check compares the engine at rest with what the test knows.
func (x *randomWorld) check() error {
	c := x.e.Counters()
	if n := x.memory.Pinned(); n != c.Pinned || n > c.Budget || c.PinnedBlocks > c.MaxBlocks {
		return fmt.Errorf("%d bytes are locked, the engine counts %+v", n, c)
	}
	if len(x.live) != c.Requests {
		return fmt.Errorf("there are %d requests, want %d", c.Requests, len(x.live))
	}
	x.e.mu.Lock()
	now := map[blockKey][]string{}
	for key, b := range x.e.blocks.all {
		if b.leaving {
			x.e.mu.Unlock()
			return fmt.Errorf("%v is still being released", key)
		}
		for _, at := range b.refs {
			m := x.live[at.r.ID]
			path := at.r.Files[at.r.fileOf(at.pos)].Path
			if m == nil || !m.wants(path, key.Range) {
				x.e.mu.Unlock()
				return fmt.Errorf("%v is kept for %s, which does not want it", key, at.r.ID)
			}
		}
		if b.pin != nil {
			now[key] = x.names[b.aliases[0].path]
			if len(b.refs) == 0 {
				x.e.mu.Unlock()
				return fmt.Errorf("%v is kept for nobody", key)
			}
		}
	}
	x.e.mu.Unlock()
	for key, names := range x.was {
		if now[key] != nil {
			continue
		}
		x.count("released")
		for id, m := range x.live {
			for _, path := range names {
				// A block is handed on under the names by which it is known.
				if m.q.Budget == 0 && m.wants(path, key.Range) && x.wasKnown(m, path) {
					return fmt.Errorf("%s@%d was released, but %s has not read it", path, key.Off/testBlock, id)
				}
			}
		}
	}
	x.was = now
	return x.checkStatus(c)
}

// wasKnown reports whether a path is the only one of its file: of a file with two
// names, a request may wait under one that the engine does not know yet.
func (x *randomWorld) wasKnown(_ *reader, path string) bool { return len(x.names[path]) == 1 }

func (x *randomWorld) checkStatus(c Counters) error {
	x.mu.Lock()
	shut := x.gate != nil
	x.mu.Unlock()
	for id, m := range x.live {
		s := x.status(id)
		switch {
		case s.Done != (s.Remaining == 0) && s.Remaining > 0:
			return fmt.Errorf("%+v", s)
		case s.Done || shut:
		case !s.Full:
			return fmt.Errorf("it idles: %+v, %+v", s, c)
		case strings.HasPrefix(s.Waits, "its own limit"):
			x.count("limited")
		case m.q.Budget == 0:
			x.count("full")
			if c.Budget-c.Pinned >= testBlock && c.PinnedBlocks < c.MaxBlocks {
				return fmt.Errorf("it idles: %+v, %+v", s, c)
			}
		}
		if s.Pinned > 0 {
			x.count("pinned")
		}
	}
	return nil
}

func TestRandom(t *testing.T) {
	seen := map[string]int{}
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 11))
		budget := int64(2+r.IntN(30)) * testBlock
		inWorld(t, worldConfig{Config: pagecache.Config{Budget: budget}, change: func(c *Config) {
			if r.IntN(3) == 0 {
				c.MaxBlocks = 2 + r.IntN(10)
			}
		}}, func(t *testing.T, w *world) {
			x := newRandomWorld(w, r, seen)
			for i := range 250 {
				x.step()
				if err := x.check(); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, i, err)
				}
			}
			for id := range x.live {
				if _, err := w.e.Remove(id); err != nil {
					t.Error(err)
				}
			}
			w.settle()
			if w.wantPinned(0); t.Failed() {
				t.Fatalf("seed %d: something is left", seed)
			}
		})
		if t.Failed() {
			t.FailNow()
		}
	}
	for _, what := range []string{"add", "read", "release", "remove", "evict", "cleaned up", "released", "limited", "full", "pinned"} {
		if seen[what] < int(seeds)/4 {
			t.Errorf("only %d cases of %s in %v", seen[what], what, seen)
		}
	}
}

// TestConcurrent does everything at once.
func TestConcurrent(t *testing.T) {
	for seed := range uint64(4) {
		inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(6)}}, func(t *testing.T, w *world) {
			var files []File
			for i := range 6 {
				files = append(files, w.file(fmt.Sprintf("d%d/f%d", 1+i%2, i), int64(i)*testBlock+100))
			}
			var wg sync.WaitGroup
			for g := range 6 {
				wg.Go(func() { disturb(w, rand.New(rand.NewPCG(seed, uint64(g))), files, g) })
			}
			wg.Wait()
			for _, s := range w.e.List() {
				if _, err := w.e.Remove(s.ID); err != nil {
					t.Error(err)
				}
			}
			w.settle()
			w.wantPinned(0)
			if c := w.e.Counters(); c.Requests != 0 || c.PinnedBlocks != 0 || c.Released == 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

func disturb(w *world, r *rand.Rand, files []File, g int) {
	job := headrace.JobID(fmt.Sprint("j", g%3))
	for i := range 150 {
		f := files[r.IntN(len(files))]
		switch r.IntN(9) {
		case 0, 1, 2:
			q := Request{ID: RequestID(fmt.Sprint(g, ".", i)), Job: job, Seq: uint64(i), Implicit: r.IntN(2) == 0}
			for _, k := range r.Perm(len(files))[:1+r.IntN(3)] {
				q.Files = append(q.Files, files[k])
			}
			if err := w.e.Add(q); err != nil {
				w.Error(err)
			}
		case 3, 4:
			w.e.Read(job, f.Path, blockPart(r.Int64N(5)))
		case 5:
			w.e.Release(job)
		case 6:
			if _, err := w.e.Evict(w.Context(), linux.Credentials{}, true, []string{f.Path}); err != nil {
				w.Error(err)
			}
		case 7:
			for _, s := range w.e.List() {
				if s.Remaining+s.Pinned+s.Resident+s.Read+s.NotFit+s.Failed+s.Evicted != s.Bytes {
					w.Errorf("%+v", s)
				}
			}
			w.e.Pins()
		case 8:
			time.Sleep(time.Duration(r.IntN(5)) * time.Second)
		}
	}
}
