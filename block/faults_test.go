package block

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/testkit"
	"headrace/internal/vfs"
)

// faulty is a store in memory whose operations fail as told.
type faulty struct {
	*Store
	mem *vfs.Mem

	mu   sync.Mutex
	fail func(vfs.Op) error
	bad  chan Info
	out  chan string
}

func (f *faulty) when(fail func(vfs.Op) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func openFaulty(t *testing.T, capacity, piece int64, dirs ...string) *faulty {
	t.Helper()
	f := &faulty{mem: vfs.NewMem(capacity, 1), bad: make(chan Info, 100), out: make(chan string, 100)}
	fs := &vfs.Faulty{FS: f.mem, Fail: func(op vfs.Op) error {
		f.mu.Lock()
		fail := f.fail
		f.mu.Unlock()
		if fail == nil {
			return nil
		}
		return fail(op)
	}}
	s, err := Open(Config{Dirs: dirs, FS: fs, Patience: time.Minute, piece: piece,
		Damaged: func(i Info, _ error) { f.bad <- i }, Out: func(dir string, _ error) { f.out <- dir }})
	if err != nil {
		t.Fatal(err)
	}
	f.Store = s
	t.Cleanup(func() { f.when(nil); s.Close() })
	return f
}

// on fails operations of a kind on the files of blocks below a directory.
func on(dir, kind string, err error) func(vfs.Op) error {
	return func(op vfs.Op) error {
		if op.Kind == kind && strings.HasPrefix(op.Name, dir+"/files/") {
			return err
		}
		return nil
	}
}

func mustCreate(t testing.TB, s *Store, b Block, file uint64, capacity int64) *Writer {
	t.Helper()
	w, err := s.Create(b, file, capacity, false)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func mustWrite(t testing.TB, s *Store, b Block, file uint64, content []byte) {
	t.Helper()
	w := mustCreate(t, s, b, file, int64(len(content)))
	if err := errors.Join(w.Write(content, 0), w.Finalize(int64(len(content)))); err != nil {
		t.Fatal(err)
	}
}

func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*i>>7 + i)
	}
	return p
}

func TestReadErrorsAreTheReplicas(t *testing.T) {
	f := openFaulty(t, 1<<24, 2*page, "/a")
	content := pattern(5 * page)
	mustWrite(t, f.Store, Block{1, 1}, 1, content)
	f.when(on("/a", "read", unix.EIO))
	if _, err := readAll(f.Store, Block{1, 1}, 0, 5*page); !errors.Is(err, ErrDamaged) || !errors.Is(err, unix.EIO) {
		t.Errorf("reading where the disk cannot: %v", err)
	}
	if got := <-f.bad; got.ID != 1 || !got.Damaged {
		t.Errorf("told of %+v", got)
	}
	f.when(nil)
	if got, err := readAll(f.Store, Block{1, 1}, 0, 5*page); err != nil || !bytes.Equal(got, content) {
		t.Errorf("once the disk can again: %v", err)
	}
	mustWrite(t, f.Store, Block{2, 1}, 1, content) // the disk is still in use
	if err := f.Scrub(context.Background(), 1<<40); err != nil {
		t.Fatal(err)
	}
	if i, _ := f.Stat(1); i.Damaged {
		t.Error("what was read well counts as damaged")
	}
}

func TestNothingIsAcknowledgedAfterAFailedSync(t *testing.T) {
	f := openFaulty(t, 1<<24, 2*page, "/a", "/b")
	a, b := mustCreate(t, f.Store, Block{1, 1}, 1, page), mustCreate(t, f.Store, Block{2, 1}, 1, page)
	dir := func(id int64) string { i, _ := f.Stat(id); return i.Dir }
	gone := dir(1)
	if dir(2) != gone {
		t.Fatal("one file lies on two disks")
	}
	if err := errors.Join(a.Write(pattern(1000), 0), b.Write(pattern(1000), 0)); err != nil {
		t.Fatal(err)
	}
	f.when(on(gone, "sync", unix.EIO))
	if err := a.Sync(); !errors.Is(err, ErrOut) || !errors.Is(err, unix.EIO) {
		t.Errorf("sync that failed: %v", err)
	}
	f.when(nil) // the kernel reports an error once, and then says that all is well
	for _, err := range []error{a.Sync(), b.Sync(), b.Flush(), b.Finalize(1000), a.Write([]byte{1}, 1000)} {
		if !errors.Is(err, ErrOut) && !errors.Is(err, ErrFenced) {
			t.Errorf("after a failed sync: %v", err)
		}
	}
	if _, err := readAll(f.Store, Block{1, 1}, 0, 0); !errors.Is(err, ErrOut) {
		t.Errorf("reading from a disk that is out: %v", err)
	}
	if got := <-f.out; got != gone {
		t.Errorf("told of %s", got)
	}
	mustWrite(t, f.Store, Block{3, 1}, 1, pattern(100))
	if dir(3) == gone || len(f.Blocks()) != 1 {
		t.Errorf("a new block went to %s, and there are %v", dir(3), f.Blocks())
	}
	mustWrite(t, f.Store, Block{1, 2}, 1, pattern(100)) // fetched from another node
}

func TestWriteErrorTakesTheDiskOut(t *testing.T) {
	for _, kind := range []string{"write", "allocate"} {
		f := openFaulty(t, 1<<24, 2*page, "/a")
		w := mustCreate(t, f.Store, Block{1, 1}, 1, 4*page)
		f.when(on("/a", kind, unix.EIO))
		if err := errors.Join(w.Write(pattern(4*page), 0), w.Flush()); !errors.Is(err, ErrOut) {
			t.Errorf("%s: %v", kind, err)
		}
		if _, err := f.Create(Block{2, 1}, 2, 1, false); !errors.Is(err, ErrFull) {
			t.Errorf("a new block without a disk: %v", err)
		}
		w.Close()
	}
}

// TestFullDisk: whatever is refused for want of room, what was acknowledged stays, and
// another block may be written once there is room again.
func TestFullDisk(t *testing.T) {
	for _, kind := range []string{"write", "allocate", "short", "header"} {
		f := openFaulty(t, 1<<24, 2*page, "/a")
		content := pattern(5 * page)
		w := mustCreate(t, f.Store, Block{1, 1}, 1, 5*page)
		if err := errors.Join(w.Write(content[:1000], 0), w.Sync()); err != nil {
			t.Fatal(err)
		}
		switch kind {
		case "short":
			f.when(on("/a", "write", &vfs.Short{N: 700, Err: unix.ENOSPC}))
		case "header":
			f.when(on("/a", "write", unix.ENOSPC))
			if _, err := f.Create(Block{2, 1}, 1, page, false); !errors.Is(err, ErrFull) {
				t.Errorf("a block without room for its header: %v", err)
			}
			f.when(nil)
		default:
			f.when(on("/a", kind, unix.ENOSPC))
		}
		if kind != "header" {
			if err := errors.Join(w.Write(content[1000:], 1000), w.Flush()); !errors.Is(err, ErrFull) || errors.Is(err, ErrOut) {
				t.Errorf("%s: %v", kind, err)
			}
		}
		w.Close()
		f.when(nil)
		if got, err := readAll(f.Store, Block{1, 1}, 0, 1000); err != nil || !bytes.Equal(got, content[:1000]) {
			t.Errorf("%s: what was acknowledged: %v", kind, err)
		}
		mustWrite(t, f.Store, Block{2, 1}, 1, content)
		w, err := f.Recover(Block{1, 1}, 2, 1000, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Write(content[1000:], 1000), w.Finalize(5*page)); err != nil {
			t.Fatal(err)
		}
		if got, err := readAll(f.Store, Block{1, 2}, 0, 5*page); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: after going on: %v", kind, err)
		}
	}
}

func TestReserve(t *testing.T) {
	const capacity = 1 << 24
	f := openFaulty(t, capacity, 64*page, "/a")
	w := mustCreate(t, f.Store, Block{1, 1}, 1, capacity*80/100)
	if _, err := f.Create(Block{2, 1}, 2, capacity*16/100, false); !errors.Is(err, ErrFull) {
		t.Errorf("what was promised to a writer was promised again: %v", err)
	}
	content := pattern(capacity * 80 / 100)
	if err := errors.Join(w.Write(content, 0), w.Finalize(int64(len(content)))); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, f.Store, Block{3, 1}, 2, pattern(capacity*12/100))
	if _, err := f.Create(Block{4, 1}, 2, capacity*3/100, false); !errors.Is(err, ErrFull) {
		t.Errorf("a new block in what is to stay free: %v", err)
	}
	if _, err := f.Append(Block{3, 1}, 2, capacity*12/100); err != nil {
		t.Errorf("an old block in what is to stay free for it: %v", err)
	}
	if err := f.Delete(Block{1, 1}); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, f.Store, Block{5, 1}, 1, content)
	for _, v := range f.Volumes() {
		if v.Writers != 1 || f.volumes[0].promised != 0 {
			t.Errorf("with one writer that has all it needs: %+v, promised %d", v, f.volumes[0].promised)
		}
	}
}

func TestHangingDisk(t *testing.T) {
	for _, kind := range []string{"read", "write", "sync", "open"} {
		f := openFaulty(t, 1<<24, 2*page, "/a")
		mustWrite(t, f.Store, Block{1, 1}, 1, pattern(100))
		w := mustCreate(t, f.Store, Block{2, 1}, 2, 100)
		release := make(chan struct{})
		f.volumes[0].patience = 200 * time.Millisecond // not earlier: a slow machine is no disk that hangs
		f.when(func(op vfs.Op) error {
			if op.Kind == kind {
				<-release
			}
			return nil
		})
		var err error
		if kind == "read" || kind == "open" {
			_, err = readAll(f.Store, Block{1, 1}, 0, 100)
		} else {
			err = errors.Join(w.Write(pattern(100), 0), w.Sync())
		}
		if !errors.Is(err, ErrOut) {
			t.Errorf("%s that hangs: %v", kind, err)
		}
		if h := Hangs(f.Store); len(h) != 1 || h[0].Name != "/a" || !h[0].Silent || time.Since(h[0].Since) > time.Minute || !slices.Equal(h[0].Hanging, []string{"blocks in /a"}) {
			t.Errorf("%s that hangs: it is told %+v", kind, h)
		}
		close(release)
		testkit.Await(t, "the disk to have answered", func() bool { return len(Hangs(f.Store)) == 0 })
		w.Close()
	}
}

// TestPatience: a disk is waited for as long as anything ends on it, up to a bound, and where nothing ends it first gets no new blocks.
func TestPatience(t *testing.T) {
	w := wait{}
	for i := 1; i <= patienceTicks; i++ {
		if late, over := w.tick(0); late != (i >= lateTicks) || over != (i == patienceTicks) {
			t.Fatalf("nothing has ended in %d ticks: %v, %v", i, late, over)
		}
	}
	w = wait{}
	for i := 1; i <= mostPatience*patienceTicks; i++ {
		if late, over := w.tick(uint64(i / lateTicks)); late || over != (i == mostPatience*patienceTicks) {
			t.Fatalf("others have ended in %d ticks: %v, %v", i, late, over)
		}
	}
	f := openFaulty(t, 1<<24, 2*page, "/a", "/b")
	mustWrite(t, f.Store, Block{1, 1}, 1, pattern(100))
	first, _ := f.Stat(1)
	v := f.blocks[1].file.v
	v.late.Store(1)
	mustWrite(t, f.Store, Block{2, 1}, 1, pattern(100))
	if i, _ := f.Stat(2); i.Dir == first.Dir {
		t.Error("a disk that is late gets a new block")
	}
	if _, err := readAll(f.Store, Block{1, 1}, 0, 100); err != nil || v.late.Load() != 0 {
		t.Errorf("it is late though it has answered: %v", err)
	}
}

// TestBitFlips: no bit of a file can change without being found, and never does a wrong
// byte come out.
func TestBitFlips(t *testing.T) {
	f := openFaulty(t, 1<<26, 2*page, "/a")
	content := pattern(3*page + 700)
	mustWrite(t, f.Store, Block{1, 1}, 7, content)
	path := f.volumes[0].path(7)
	l := f.volumes[0].layout
	for off := int64(0); off < int64(len(content)); off += 97 {
		for _, at := range []int64{l.dataAt(off), l.sumAt(off)} {
			f.mem.Flip(path, at, uint(off))
			got, err := readAll(f.Store, Block{1, 1}, 0, int64(len(content)))
			partial := at != l.dataAt(off) && off >= int64(len(content))/Chunk*Chunk // its checksum is in the header
			if !errors.Is(err, ErrDamaged) && !partial || err == nil && !bytes.Equal(got, content) {
				t.Fatalf("bit at %d: %v", at, err)
			}
			f.mem.Flip(path, at, uint(off))
		}
	}
	<-f.bad
	if i, err := f.Stat(1); err != nil || !i.Damaged {
		t.Errorf("%+v, %v", i, err)
	}
	// A copy from another node takes its place.
	w, err := f.Create(Block{1, 1}, 7, int64(len(content)), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(content, 0), w.Finalize(int64(len(content)))); err != nil {
		t.Fatal(err)
	}
	if i, err := f.Stat(1); err != nil || i.Damaged {
		t.Errorf("%+v, %v", i, err)
	}
}

func TestScrubFindsDamage(t *testing.T) {
	f := openFaulty(t, 1<<26, 2*page, "/a")
	for id := int64(1); id <= 20; id++ {
		mustWrite(t, f.Store, Block{id, 1}, uint64(id%3), pattern(page))
	}
	f.mem.Flip(f.volumes[0].path(1), f.blocks[7].head.offset+f.volumes[0].dataAt(2000), 3)
	if err := f.Scrub(context.Background(), 1<<40); err != nil {
		t.Fatal(err)
	}
	if got := <-f.bad; got.ID != 7 || len(f.bad) != 0 {
		t.Errorf("told of %+v and %d more", got, len(f.bad))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if err := f.Scrub(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a byte a second: %v", err)
	}
}

func TestFences(t *testing.T) {
	f := openFaulty(t, 1<<24, 2*page, "/a")
	w := mustCreate(t, f.Store, Block{1, 5}, 1, page)
	w.Write(pattern(10), 0)
	w.Flush()
	for what, err := range map[string]error{
		"create again":          second(f.Create(Block{1, 5}, 1, page, false)),
		"create an older":       second(f.Create(Block{1, 4}, 1, page, false)),
		"recover as an older":   second(f.Recover(Block{1, 5}, 4, 0, 10)),
		"recover a newer":       second(f.Recover(Block{1, 6}, 7, 0, 10)),
		"recover with more":     second(f.Recover(Block{1, 5}, 6, 11, 20)),
		"append elsewhere":      second(f.Append(Block{1, 5}, 6, 9)),
		"complete elsewhere":    f.Complete(Block{1, 5}, 6, 11),
		"delete an older":       f.Delete(Block{1, 4}),
		"finish no recovery":    f.FinishRecovery(Block{1, 5}, 6, 10),
		"write with a gap":      w.Write([]byte{1}, 11),
		"write too much":        w.Write(pattern(page), 10),
		"close at another end":  w.Finalize(9),
		"read behind the end":   second(f.Open(Block{1, 5}, 5, 6)),
		"read a newer":          second(f.Open(Block{1, 6}, 0, 1)),
		"read what is not here": second(f.Open(Block{2, 1}, 0, 1)),
	} {
		if !errors.Is(err, ErrExists) && !errors.Is(err, ErrFenced) && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrState) {
			t.Errorf("%s: %v", what, err)
		}
	}
	again, err := f.Recover(Block{1, 5}, 6, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); !errors.Is(err, ErrFenced) {
		t.Errorf("a writer that was replaced: %v", err)
	}
	w.Close()
	if err := errors.Join(again.Write(pattern(20), 0), again.Finalize(20)); err != nil {
		t.Errorf("the other writer: %v", err)
	}
}

// TestCopyBeside: a copy from elsewhere begins beside what is here of a block, which is lost only when the copy is whole; one that
// somebody writes is not.
func TestCopyBeside(t *testing.T) {
	here := pattern(100)
	for what, end := range map[string]func(f *faulty){
		"cut off":        func(*faulty) {},
		"a shorter one":  func(f *faulty) { must(t, f.Complete(Block{1, 5}, 5, 100)) },
		"under recovery": func(f *faulty) { must(t, second(f.StartRecovery(Block{1, 5}, 6))) },
		"waiting": func(f *faulty) {
			must(t, f.Close())
			s, err := Open(f.Config)
			must(t, err)
			f.Store = s
			if i, err := s.Stat(1); err != nil || i.State != Waiting {
				t.Fatalf("%+v, %v", i, err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := openFaulty(t, 1<<24, 2*page, "/a")
			first := mustCreate(t, f.Store, Block{1, 5}, 1, page)
			must(t, first.Write(here, 0))
			must(t, first.Flush())
			if err := second(f.Create(Block{1, 6}, 1, page, true)); !errors.Is(err, ErrExists) {
				t.Errorf("beside a writer: %v", err)
			}
			must(t, first.Close())
			end(f)
			before, _ := f.Stat(1)
			begin := func() *Writer {
				w, err := f.Create(Block{1, 6}, 1, page, true)
				if err == nil {
					err = w.Write(pattern(200), 0)
				}
				must(t, err)
				return w
			}
			must(t, begin().Close())
			if after, err := f.Stat(1); err != nil || after != before {
				t.Errorf("after a copy that was given up: %+v, %v; before: %+v", after, err, before)
			}
			if got, err := readAll(f.Store, Block{1, 5}, 0, 100); err != nil || !bytes.Equal(got, here) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if what != "under recovery" { // somebody goes on with it
				w := begin()
				again, err := f.Append(Block{1, 5}, 6, 100)
				must(t, err)
				if err := w.Finalize(200); !errors.Is(err, ErrExists) {
					t.Errorf("in the place of one that is being written: %v", err)
				}
				must(t, w.Close())
				must(t, again.Write(pattern(110)[100:], 100))
				must(t, again.Flush())
				must(t, again.Close())
			}
			w := begin()
			must(t, w.Finalize(200))
			must(t, w.Close())
			if got, err := readAll(f.Store, Block{1, 6}, 0, 200); err != nil || !bytes.Equal(got, pattern(200)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestPace: of a copy that nobody waits for no more is before the disk than it may be, and a block that somebody writes waits for nothing.
func TestPace(t *testing.T) {
	const piece, pace, size = 512 << 10, 256 << 10, 3<<20 + 700
	for name, copied := range map[string]bool{"copy": true, "written": false} {
		t.Run(name, func(t *testing.T) {
			s := openFaulty(t, 64<<20, piece, "/a")
			var mu sync.Mutex
			dirty, most, waited := map[int64]bool{}, 0, 0
			s.when(func(op vfs.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if !strings.HasPrefix(op.Name, "/a/files/") {
					return nil
				}
				if op.Kind == "writeout" {
					waited++
				}
				for at := op.Off / page; at < (op.Off+op.Len+page-1)/page; at++ {
					switch op.Kind {
					case "write":
						dirty[at] = true
					case "writeout":
						delete(dirty, at)
					}
				}
				most = max(most, len(dirty))
				return nil
			})
			content := pattern(size)
			b := Block{ID: 1, Stamp: 1}
			w, err := s.Create(b, 7, size, copied)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if copied {
				w.Pace(pace)
			}
			for at := 0; at < size; at += 64 << 10 {
				if err := w.Write(content[at:min(at+64<<10, size)], int64(at)); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Finalize(size); err != nil {
				t.Fatal(err)
			}
			// Checksums are a page of each piece, of which some come when those behind them have been waited for; the header is one more.
			bound := (pace+bufferSize)/page + 2*(size/piece+2)
			if copied && (most > bound || waited < size/(pace+bufferSize)) || !copied && waited > 0 {
				t.Errorf("%d pages were before the disk, want at most %d; waited %d times", most, bound, waited)
			}
			if got, err := readAll(s.Store, b, 0, size); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

// TestFileThatCannotBeOpened: of one bad inode, which cannot be removed either, a disk is not taken out. What is in that file counts as damaged, and copies go to another disk, or nowhere.
func TestFileThatCannotBeOpened(t *testing.T) {
	f := openFaulty(t, 1<<24, 2*page, "/a", "/b")
	for id := int64(1); id <= 2; id++ {
		mustWrite(t, f.Store, Block{id, 1}, uint64(id), pattern(page))
	}
	bad := f.volumes[0].path(1)
	failing := func(op vfs.Op) error {
		if (op.Kind == "open" || op.Kind == "remove") && op.Name == bad {
			return unix.EIO
		}
		return nil
	}
	f.when(failing)
	if _, err := readAll(f.Store, Block{1, 1}, 0, page); !errors.Is(err, ErrDamaged) || !errors.Is(err, unix.EIO) {
		t.Errorf("reading what cannot be opened: %v", err)
	}
	if got := <-f.bad; got.ID != 1 || !got.Damaged {
		t.Errorf("told of %+v", got)
	}
	rest := func() {
		t.Helper()
		for _, v := range f.Volumes() {
			if v.Cause != nil {
				t.Errorf("%s: %v", v.Dir, v.Cause)
			}
		}
		if got, err := readAll(f.Store, Block{2, 1}, 0, page); err != nil || !bytes.Equal(got, pattern(page)) {
			t.Errorf("another file: %v", err)
		}
	}
	rest()
	copied(t, f.Store, Block{1, 1}, pattern(page))
	if i, err := f.Stat(1); err != nil || i.Dir != "/b" || i.Damaged {
		t.Errorf("the copy of another node: %+v, %v", i, err)
	}
	rest()
	if gaps := f.Volumes()[0].Gaps; len(gaps) != 1 || gaps[0].File != 1 || !errors.Is(gaps[0].Cause, unix.EIO) {
		t.Errorf("what is left there: %v", gaps)
	}
	f.again(t, func(*Config) {})
	rest()
	if got, err := readAll(f.Store, Block{1, 1}, 0, page); err != nil || !bytes.Equal(got, pattern(page)) {
		t.Errorf("after a start: %v", err)
	}
	f.when(nil)
	f.again(t, func(*Config) {})
	if got, err := readAll(f.Store, Block{1, 1}, 0, page); err != nil || !bytes.Equal(got, pattern(page)) || f.Number() != 2 {
		t.Errorf("when it can be opened again: %v, %d blocks", err, f.Number())
	}
}

// TestFileThatCannotBeRemoved: a block is deleted whose file has a bad inode. The disk stays, also at the next start.
func TestFileThatCannotBeRemoved(t *testing.T) {
	f := openFaulty(t, 1<<24, 2*page, "/a")
	for id := int64(1); id <= 2; id++ {
		mustWrite(t, f.Store, Block{id, 1}, uint64(id), pattern(page))
	}
	must(t, f.Snapshot())
	bad := f.volumes[0].path(1)
	f.when(func(op vfs.Op) error {
		if (op.Kind == "open" || op.Kind == "remove") && op.Name == bad {
			return unix.EIO
		}
		return nil
	})
	must(t, f.Delete(Block{1, 1}))
	for _, when := range []string{"then", "after a start"} {
		if _, err := f.Stat(1); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: what was deleted: %v", when, err)
		}
		if v := f.Volumes()[0]; v.Cause != nil || len(v.Gaps) != 1 {
			t.Errorf("%s: %v, %v", when, v.Cause, v.Gaps)
		}
		if got, err := readAll(f.Store, Block{2, 1}, 0, page); err != nil || !bytes.Equal(got, pattern(page)) {
			t.Errorf("%s: another file: %v", when, err)
		}
		f.again(t, func(*Config) {})
	}
}

// TestDamagedCopyIsReplacedOnAFullDisk: where writers stop, a copy that has decayed has room to be replaced, and nothing else has.
func TestDamagedCopyIsReplacedOnAFullDisk(t *testing.T) {
	const capacity = 1 << 24
	f := openFaulty(t, capacity, 64*page, "/a")
	content := pattern(capacity * 2 / 100)
	n := int64(len(content))
	mustWrite(t, f.Store, Block{1, 1}, 1, content)
	mustWrite(t, f.Store, Block{2, 1}, 1, pattern(capacity*92/100))
	if HasRoom(f.Store, 1, n) || !errors.Is(second(f.Create(Block{1, 1}, 1, n, true)), ErrFull) {
		t.Error("a copy of a good block has room")
	}
	f.mem.Flip(f.volumes[0].path(1), f.blocks[1].head.offset+f.volumes[0].dataAt(2000), 3)
	if _, err := readAll(f.Store, Block{1, 1}, 0, n); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	if HasRoom(f.Store, 3, n) || !errors.Is(second(f.Create(Block{3, 1}, 1, n, true)), ErrFull) {
		t.Error("a copy of another block has room")
	}
	if !HasRoom(f.Store, 1, n) {
		t.Error("the copy has no room")
	}
	copied(t, f.Store, Block{1, 1}, content)
	if got, err := readAll(f.Store, Block{1, 1}, 0, n); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestDamagedOnADiskThatIsOut: decayed copies of a disk that is out of use wait for nothing.
func TestDamagedOnADiskThatIsOut(t *testing.T) {
	f := openFaulty(t, 1<<24, 64*page, "/a")
	mustWrite(t, f.Store, Block{1, 1}, 1, pattern(page))
	f.mem.Flip(f.volumes[0].path(1), f.blocks[1].head.offset+f.volumes[0].dataAt(0), 3)
	if _, err := readAll(f.Store, Block{1, 1}, 0, page); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	for _, want := range []int64{1, 0} {
		if n := f.Volumes()[0].Damaged; n != want {
			t.Errorf("%d are damaged, want %d", n, want)
		}
		f.volumes[0].takeOut(unix.EIO)
	}
}

// TestNoEndOfAFile: that another region of a file can begin nowhere is told apart from that there is no room.
func TestNoEndOfAFile(t *testing.T) {
	mem := vfs.NewMem(1<<24, 1)
	config := Config{Dirs: []string{"/a"}, FS: mem}
	s := opened(t, config)
	mustWrite(t, s, Block{1, 1}, 1, pattern(page))
	mem.Kill()
	mem.Restart(false)
	config.FS = &vfs.Faulty{FS: mem, Fail: on("/a", "open", unix.EIO)}
	s = opened(t, config)
	if _, err := s.Create(Block{2, 1}, 1, page, true); !errors.Is(err, ErrFull) || !errors.Is(err, ErrNoEnd) {
		t.Errorf("where the end is not known: %v", err)
	}
	if _, err := s.Create(Block{3, 1}, 1, 1<<30, true); !errors.Is(err, ErrFull) || errors.Is(err, ErrNoEnd) {
		t.Errorf("where there is no room: %v", err)
	}
}

// mustBegin makes blocks, from 1 on, that have a page of what they may get.
func mustBegin(t *testing.T, s *Store, n int, most int64) {
	t.Helper()
	for id := int64(1); id <= int64(n); id++ {
		w := mustCreate(t, s, Block{id, 1}, uint64(id), most)
		must(t, errors.Join(w.Write(pattern(page), 0), w.Finalize(page)))
	}
}

// TestAppendsAtOnce: who goes on with a block is refused the room that another one is to have who has just begun with that. It is given back when that fails.
func TestAppendsAtOnce(t *testing.T) {
	const capacity, most = 1 << 24, 6 << 20
	f := openFaulty(t, capacity, 64*page, "/a")
	mustBegin(t, f.Store, 2, most)
	mustWrite(t, f.Store, Block{3, 1}, 3, pattern(capacity*40/100)) // there is room for one of them
	f.when(on("/a", "open", unix.EIO))
	if _, err := f.Append(Block{1, 1}, 2, page); !errors.Is(err, unix.EIO) {
		t.Fatal(err)
	}
	f.when(nil)
	if v := f.Volumes()[0]; f.volumes[0].promised != 0 || v.Writers != 0 {
		t.Errorf("after one that failed %d are promised to %d", f.volumes[0].promised, v.Writers)
	}
	var other error
	f.point = func(at string) {
		if at == "reopened" {
			f.point = nil
			_, other = f.Append(Block{2, 1}, 2, page)
		}
	}
	w, err := f.Append(Block{1, 1}, 2, page)
	if err != nil || !errors.Is(other, ErrFull) {
		t.Fatalf("%v; at the same time: %v", err, other)
	}
	if n := f.volumes[0].promised; n != most-page {
		t.Errorf("%d are promised", n)
	}
	must(t, w.Close())
	if n := f.volumes[0].promised; n != 0 {
		t.Errorf("at the end %d are promised", n)
	}
}

// TestAppendsKeepToTheReserve: who goes on with blocks has room for all that they may get, and nobody fills a disk to its end: the names may lie there.
func TestAppendsKeepToTheReserve(t *testing.T) {
	const capacity, most = 1 << 24, 1 << 20
	f := openFaulty(t, capacity, 64*page, "/a")
	mustBegin(t, f.Store, 10, most)
	mustWrite(t, f.Store, Block{11, 1}, 11, pattern(capacity*75/100))
	free := func() int64 { n, _, _ := f.mem.Space("/a"); return n }
	var writers []*Writer
	for id := int64(1); id <= 10; id++ {
		w, err := f.Append(Block{id, 1}, 2, page)
		if err == nil {
			writers = append(writers, w)
		} else if !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
	}
	if n := free(); int64(len(writers)) != (n-capacity/100)/(most-page) {
		t.Errorf("%d of %d bytes each are let in, with %d free", len(writers), most-page, n)
	}
	// Somebody else fills the disk meanwhile.
	other, err := f.mem.Open("/other", os.O_CREATE|os.O_RDWR)
	must(t, err)
	must(t, other.Allocate(0, 2*most))
	var failed error
	for _, w := range writers {
		if err := errors.Join(w.Write(pattern(most)[page:], page), w.Flush()); err != nil {
			failed = err
		}
	}
	if !errors.Is(failed, ErrFull) || free() < capacity/100 {
		t.Errorf("%d bytes are free; %v", free(), failed)
	}
	for _, w := range writers {
		w.Close()
	}
}

// TestWritersThatReserveAtOnce: what is left to nobody is left, also where one writer asks how much there is while another takes of it.
func TestWritersThatReserveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const capacity, piece = 1 << 24, 64 * page
		f := openFaulty(t, capacity, piece, "/a")
		first, second := mustCreate(t, f.Store, Block{1, 1}, 1, piece), mustCreate(t, f.Store, Block{2, 1}, 2, piece)
		free := func() int64 { n, _, _ := f.mem.Space("/a"); return n }
		other, err := f.mem.Open("/other", os.O_CREATE|os.O_RDWR)
		must(t, err)
		must(t, other.Allocate(0, down(free()-capacity/100-piece*3/2, page))) // for one, and half of another one
		goOn, asked := make(chan struct{}), 0
		f.when(func(op vfs.Op) error {
			if op.Kind == "allocate" {
				if asked++; asked == 1 {
					<-goOn
				}
			}
			return nil
		})
		var writing sync.WaitGroup
		errs := make([]error, 2)
		for i, w := range []*Writer{first, second} {
			writing.Go(func() { errs[i] = w.Write(pattern(piece/2), 0); errs[i] = errors.Join(errs[i], w.Flush()) })
			synctest.Wait()
		}
		close(goOn)
		writing.Wait()
		if errs[0] != nil || !errors.Is(errs[1], ErrFull) || free() < capacity/100 {
			t.Errorf("%v; %v; %d bytes are free of %d", errs[0], errs[1], free(), capacity)
		}
		f.when(nil)
		must(t, errors.Join(first.Close(), second.Close(), f.Close()))
	})
}

// TestAllocationThatHangs: while one does, others get room of the disk.
func TestAllocationThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const piece = 64 * page
		f := openFaulty(t, 1<<24, piece, "/a")
		mustWrite(t, f.Store, Block{3, 1}, 3, pattern(page))
		first, second := mustCreate(t, f.Store, Block{1, 1}, 1, piece), mustCreate(t, f.Store, Block{2, 1}, 2, piece)
		goOn := make(chan struct{})
		f.when(func(op vfs.Op) error {
			if op.Kind == "allocate" && op.Name == f.volumes[0].path(1) {
				<-goOn
			}
			return nil
		})
		hung := make(chan error)
		go func() { hung <- errors.Join(first.Write(pattern(piece/2), 0), first.Flush()) }()
		synctest.Wait()
		began := time.Now()
		must(t, errors.Join(second.Write(pattern(piece/2), 0), second.Flush()))
		w, err := f.Append(Block{3, 1}, 2, page)
		must(t, err)
		if time.Since(began) > 0 {
			t.Error("others have waited")
		}
		close(goOn)
		must(t, <-hung)
		must(t, errors.Join(first.Close(), second.Close(), w.Close(), f.Close()))
	})
}

// TestCopyOnADiskThatFails: a copy that was being made beside a block, on a disk that has failed since, is not in the way of another one.
func TestCopyOnADiskThatFails(t *testing.T) {
	f := openFaulty(t, 1<<24, 2*page, "/a", "/b")
	mustWrite(t, f.Store, Block{1, 1}, 1, pattern(page))
	f.volumes[0].late.Store(1)
	w := mustCopy(t, f.Store, Block{1, 2}, 1, pattern(page))
	f.volumes[0].late.Store(0)
	f.volumes[1].takeOut(unix.EIO)
	must(t, w.Close())
	copied(t, f.Store, Block{1, 2}, pattern(page))
	if got, err := readAll(f.Store, Block{1, 2}, 0, page); err != nil || !bytes.Equal(got, pattern(page)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
