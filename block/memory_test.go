package block

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

func memoryStore(t testing.TB) *Store {
	t.Helper()
	if err := linux.ProbeCachestat(); err != nil {
		t.Skip(err)
	}
	s, err := Open(Config{Dirs: []string{t.TempDir()}, SyncOnClose: true}) // what is not on the disk cannot be let go
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func closedBlock(t testing.TB, s *Store, id int64, file uint64, n int) {
	t.Helper()
	w, err := s.Create(Block{ID: id, Stamp: 1}, file, 32<<20, false)
	if err == nil {
		err = w.Write(make([]byte, n), 0)
	}
	if err == nil {
		err = w.Finalize(int64(n))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// letGo takes a block out of memory.
func letGo(t testing.TB, s *Store, id int64) {
	t.Helper()
	_, e, err := s.Extent(id)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(e.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), e.Off, up(e.Size, page), unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}

// TestMemory: what was written or read is in memory until it is let go, block by block, also where several are in one file; and what
// another process reads is found on the walk over all.
func TestMemory(t *testing.T) {
	s := memoryStore(t)
	m := Follow(s)
	is := func(want ...int64) {
		t.Helper()
		got, err := m.Look(time.Hour)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v are in memory, %v, want %v", got, err, want)
		}
	}
	is()
	closedBlock(t, s, 1, 7, 3<<20)
	closedBlock(t, s, 2, 7, 9<<20)
	closedBlock(t, s, 3, 8, 100)
	w, err := s.Create(Block{ID: 4, Stamp: 1}, 9, 1<<20, false) // one that is being written is not told of
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	is(1, 2, 3)
	letGo(t, s, 2)
	is(1, 3)
	letGo(t, s, 1)
	letGo(t, s, 3)
	is()
	info, e, err := s.Extent(2)
	if err != nil || info.Length != 9<<20 || e.Off%page != 0 || e.Size < 9<<20+9<<20/128 {
		t.Fatalf("%+v, %+v, %v", info, e, err)
	}
	f, err := os.Open(e.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.ReadAt(make([]byte, e.Size), e.Off); err != nil {
		t.Fatal(err)
	}
	is(2)
	if err := s.Delete(Block{ID: 2, Stamp: 1}); err != nil {
		t.Fatal(err)
	}
	is()
}

// TestMemoryIsBounded: a look takes about as long as it may, what it takes longer it takes less the next time, and all files are looked at in the end.
func TestMemoryIsBounded(t *testing.T) {
	s := memoryStore(t)
	m := Follow(s)
	const files = 20
	for i := range files {
		closedBlock(t, s, int64(i+1), uint64(i+1), 1000)
	}
	now := time.Unix(0, 0)
	m.now = func() time.Time { now = now.Add(time.Millisecond); return now } // each look at the clock takes that long
	looks, in := 0, 0
	for ; in < files; looks++ {
		if looks > 10*files {
			t.Fatalf("%d of %d after %d looks", in, files, looks)
		}
		before := now
		ids, err := m.Look(4 * time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if took := now.Sub(before); took > 8*time.Millisecond {
			t.Errorf("a look took %v", took)
		}
		in = len(ids)
	}
	if looks < files/4 {
		t.Errorf("%d looks were enough", looks)
	}
	if _, err := m.Look(0); err != nil || m.debt == 0 {
		t.Errorf("no debt, %v", err)
	}
}

// BenchmarkMemory looks at all files, of one block each.
func BenchmarkMemory(b *testing.B) {
	for _, c := range []struct {
		files, size int
		cold        bool
	}{{2000, 1000, true}, {2000, 1000, false}, {4, 32 << 20, false}} {
		b.Run(fmt.Sprintf("files=%d/size=%d/cold=%v", c.files, c.size, c.cold), func(b *testing.B) {
			s := memoryStore(b)
			for i := range c.files {
				closedBlock(b, s, int64(i+1), uint64(i+1), c.size)
				if c.cold {
					letGo(b, s, int64(i+1))
				}
			}
			m := Follow(s)
			for b.Loop() {
				if _, err := m.Look(time.Hour); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(c.files), "µs/file")
		})
	}
}

// TestMemorySize: it is what pages the extent of a block has.
func TestMemorySize(t *testing.T) {
	s, err := Open(Config{Dirs: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, n := range []int{1, 511, 4096, 4097, Piece - 1, Piece, Piece + 1, 2*Piece + 5000} {
		closedBlock(t, s, int64(i+1), 1, n)
		_, e, err := s.Extent(int64(i + 1))
		if err != nil {
			t.Fatal(err)
		}
		pages := up(e.Off+e.Size, pageSize) - down(e.Off, pageSize)
		if got := MemorySize(int64(n)); got < pages || got > pages+2*(pageSize-page) {
			t.Errorf("of %d bytes: %d, and the pages are %d", n, got, pages)
		}
	}
}
