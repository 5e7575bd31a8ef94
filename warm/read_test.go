package warm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"headrace/internal/linux"
	"headrace/pagecache"
)

func TestImplicit(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		f, small, empty := w.file("d1/f", blocks(3)+10), w.file("d1/small", 77), w.file("d1/empty", 0)
		q := w.job("a", f, small, empty)
		q.Implicit = true
		w.add(q)
		w.wantReads("f@0", "f@1", "f@2", "f@3", "small@0")
		read := func(path string, off, n, left int64) {
			t.Helper()
			w.e.Read("a", path, pagecache.Range{Off: off, Len: n})
			w.settle()
			if s := w.status("r-a"); s.Pinned != left || s.Read != f.Size+small.Size-left {
				t.Errorf("after %d at %d: %d pinned, %d read; want %d pinned", n, off, s.Pinned, s.Read, left)
			}
		}
		all := f.Size + small.Size
		read(f.Path, 100, testBlock-100, all) // its first bytes are missing
		read(f.Path, 0, 100, all-blocks(1))
		read(f.Path, 0, testBlock, all-blocks(1)) // once more
		read(f.Path, blocks(2)-5, 10, all-blocks(1))
		read(f.Path, blocks(1), testBlock, all-blocks(2))
		read(f.Path, blocks(2), 1<<40, 77) // past the end
		read(small.Path, 0, 76, 77)
		read(small.Path, 76, 1, 0)
		for _, r := range []pagecache.Range{{Off: -1, Len: 5}, {Off: 5, Len: -1}, {Off: 1 << 50, Len: 1}, {}} {
			w.e.Read("a", f.Path, r)
		}
		w.e.Read("a", "/nowhere", pagecache.Range{Len: 5})
		w.e.Read("nobody", f.Path, pagecache.Range{Len: 5})
		w.e.Read("a", empty.Path, pagecache.Range{})
		w.wantPinned(0)
		if c := w.e.Counters(); c.Wasted != 0 || c.Released != blocks(3)+2*pageSize {
			t.Errorf("%+v", c)
		}
	})
}

func TestExplicitKeepsWhatWasRead(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(2))
		w.add(w.job("a", f))
		w.e.Read("a", f.Path, blockPart(0))
		w.settle()
		w.wantPinned(2)
		w.e.Release("a")
		w.settle()
		if c := w.e.Counters(); c.Released != blocks(2) || c.Wasted != blocks(1) {
			t.Errorf("one of two blocks was of use: %+v", c)
		}
	})
}

// What a job has read before its turn came is not migrated any more.
func TestMissedReads(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		w.shut()
		f := w.file("d1/f", blocks(4))
		q := w.job("a", f)
		q.Implicit = true
		w.add(q)
		w.e.Read("a", f.Path, blockPart(0)) // while it is being read
		w.e.Read("a", f.Path, blockPart(2))
		w.openGate()
		w.settle()
		w.wantReads("f@0", "f@1", "f@3")
		w.wantPinned(2)
	})
}

// Of two jobs that read a file, the slower one decides.
func TestImplicitWithTwoReaders(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(2))
		for _, name := range []string{"a", "b"} {
			q := w.job(name, f)
			q.Implicit = true
			w.add(q)
		}
		w.e.Read("a", f.Path, pagecache.Range{Len: f.Size})
		w.settle()
		w.wantPinned(2)
		w.e.Read("b", f.Path, blockPart(1))
		w.settle()
		w.wantPinned(1)
		w.e.Release("b")
		w.wantPinned(0)
		w.wantReads("f@0", "f@1")
	})
}

// Reading makes room in a request's own budget even if others keep the block.
func TestReadWakesItsOwnQueue(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(2))
		w.add(w.job("keeps", f))
		q := w.job("a", f)
		q.Implicit, q.Budget = true, blocks(1)
		w.add(q)
		w.e.Read("a", f.Path, blockPart(0))
		w.settle()
		if s := w.status("r-a"); !s.Done || s.Pinned != blocks(1) || s.Read != blocks(1) {
			t.Errorf("%+v", s)
		}
	})
	// What waited for room and has been read gives way to something smaller.
	inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(3) / 2}}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(1))
		w.add(w.job("first", w.file("d1/first", blocks(1))))
		q := w.job("a", f, w.file("d1/tiny", 10))
		q.Implicit = true
		w.add(q)
		w.e.Read("a", f.Path, blockPart(0))
		w.settle()
		w.wantReads("first@0", "tiny@0")
	})
	inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(3) / 2}}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(1))
		w.add(w.job("first", w.file("d1/first", blocks(1))))
		w.add(Request{ID: "w1", Hold: true, Files: []File{f, w.file("d1/tiny", 10)}})
		if _, err := w.e.Evict(t.Context(), linux.Credentials{}, true, []string{f.Path}); err != nil {
			t.Error(err)
		}
		w.settle()
		w.wantReads("first@0", "tiny@0")
	})
}

// A job that reads here and there is noted up to a bound; what is not noted stays.
func TestScatteredReads(t *testing.T) {
	r, err := newRequest(Request{ID: "x", Job: "j", Implicit: true, Files: []File{{Path: "/f", Size: 8 * testBlock}}}, testBlock)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(3 * keptParts) {
		r.noteRead(0, pagecache.Range{Off: i * 100, Len: 10})
	}
	if n := len(r.parts[0]); n != keptParts {
		t.Errorf("%d parts are kept", n)
	}
	lo, hi := r.noteRead(0, pagecache.Range{Off: 50, Len: 100*keptParts - 100})
	if lo != 50 || hi < 100*keptParts-100 || len(r.parts[0]) > 3 {
		t.Errorf("from %d to %d, %d parts", lo, hi, len(r.parts[0]))
	}
}

// noteRead against an array of the bytes.
func TestNoteReadAgainstOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	for range 300 {
		size := int64(1 + r.IntN(60))
		q, err := newRequest(Request{ID: "x", Job: "j", Files: []File{{Path: "/f", Size: size}}}, testBlock)
		if err != nil {
			t.Fatal(err)
		}
		was := make([]bool, size)
		for range 20 {
			off := r.Int64N(size)
			n := 1 + r.Int64N(size)
			end := min(off+n, size)
			for i := off; i < end; i++ {
				was[i] = true
			}
			lo, hi := q.noteRead(0, pagecache.Range{Off: off, Len: n})
			wantLo, wantHi := off, end
			for wantLo > 0 && was[wantLo-1] {
				wantLo--
			}
			for wantHi < size && was[wantHi] {
				wantHi++
			}
			if lo != wantLo || hi != wantHi {
				t.Fatalf("%d at %d of %v: from %d to %d, want %d to %d", n, off, was, lo, hi, wantLo, wantHi)
			}
			if !slices.Contains(was, false) {
				if q.parts[0] != nil {
					t.Fatalf("all is read and %v is still kept", q.parts[0])
				}
				break
			}
		}
	}
}
