package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func openStore(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "store"), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// checkpoint dumps a memory and commits.
func checkpoint(t testing.TB, s *Store, task string, m memory, o BeginOptions) *Image {
	t.Helper()
	w, err := s.Begin(task, o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := (fakeCriu{}).dumpInto(w, m, nil); err != nil {
		t.Fatal(err)
	}
	im, err := w.Commit(nil)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// restored reads an image's memory through Open.
func restored(t testing.TB, im *Image) memory {
	t.Helper()
	dir, closeDir, err := im.Open(context.Background(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m, err := readMemory(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := closeDir(); err != nil {
		t.Fatal(err)
	}
	return m
}

func compareMemory(t testing.TB, got, want memory) {
	t.Helper()
	if g, w := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(g, w) {
		t.Fatalf("images %v, want %v", g, w)
	}
	for name := range want {
		if g, w := slices.Sorted(maps.Keys(got[name])), slices.Sorted(maps.Keys(want[name])); !slices.Equal(g, w) {
			t.Fatalf("%s: has %d pages, want %d, or at other addresses", name, len(g), len(w))
		}
		for a, page := range want[name] {
			if !bytes.Equal(got[name][a], page) {
				t.Fatalf("%s: page at %#x differs", name, a)
			}
		}
	}
}

// A world changes a memory at random.
type world struct {
	*rand.Rand
	m memory
}

func (w *world) page() []byte {
	switch w.IntN(4) {
	case 0:
		return zeroPage
	case 1: // compressible
		return bytes.Repeat([]byte{byte(w.IntN(3)), 7}, pageSize/2)
	}
	p := make([]byte, pageSize)
	for i := 0; i < pageSize; i += 8 {
		binary.LittleEndian.PutUint64(p[i:], w.Uint64())
	}
	return p
}

func (w *world) step() {
	names := []string{"pagemap-1", "pagemap-17", "pagemap-shmem-4", "pagemap-shmem-99999"}
	for range w.IntN(3) {
		delete(w.m, names[w.IntN(len(names))]) // a process has ended
	}
	for range 1 + w.IntN(4) {
		name := names[w.IntN(len(names))]
		if w.m[name] == nil {
			w.m[name] = make(map[uint64][]byte)
		}
		start, n := uint64(w.IntN(4000)), uint64(w.IntN(1500))
		if w.IntN(4) == 0 {
			start, n = start+0x7fff00000, n/100
		}
		switch kind := w.IntN(5); kind {
		case 0: // unmapped
			for a := start; a < start+n; a++ {
				delete(w.m[name], a*pageSize)
			}
		default: // written: all of it, some of it, a few pages, zeroed
			for a := start; a < start+n; a++ {
				if kind == 1 || w.IntN(1<<(2*kind)) == 0 {
					w.m[name][a*pageSize] = w.page()
				} else if kind == 4 {
					w.m[name][a*pageSize] = zeroPage
				}
			}
		}
	}
}

func TestRandomSequences(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := &world{rand.New(rand.NewPCG(seed, 1)), make(memory)}
			s := openStore(t, Options{Compress: seed%2 == 1})
			maxChain := 1 + int(seed)%4
			var memories []memory
			for i := range 6 {
				w.step()
				memories = append(memories, w.m.clone())
				writer, err := s.Begin("task", BeginOptions{MaxChain: maxChain})
				if err != nil {
					t.Fatal(err)
				}
				c := fakeCriu{maxRun: 1 + w.IntN(3000)}
				if err := c.dumpInto(writer, w.m, map[string][]byte{"core-1.img": w.page(), "dump.log": nil}); err != nil {
					t.Fatal(err)
				}
				im, err := writer.Commit([]byte{byte(i)})
				if err != nil {
					t.Fatal(err)
				}
				checkCounts(t, im, w.m, memories, i)
				if want := i%maxChain + 1; im.Chain != want || (writer.Full() == "") != (want > 1) {
					t.Fatalf("checkpoint %d: chain %d, want %d; full because %q", i, im.Chain, want, writer.Full())
				}
			}
			images, err := s.Images("task")
			if err != nil || len(images) != len(memories) {
				t.Fatalf("%d images, want %d: %v", len(images), len(memories), err)
			}
			for i, im := range images {
				if im.Err != nil || !bytes.Equal(im.Meta, []byte{byte(i)}) {
					t.Fatalf("image %d: meta %v, %v", i, im.Meta, im.Err)
				}
				if err := im.Verify(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				compareMemory(t, restored(t, im), memories[i])
			}
		})
	}
}

// checkCounts compares the numbers of bytes with what the memories say.
func checkCounts(t *testing.T, im *Image, now memory, memories []memory, i int) {
	t.Helper()
	var total, zero, same int64
	for name, pages := range now {
		for a, p := range pages {
			total += pageSize
			switch {
			case im.Chain > 1 && bytes.Equal(memories[i-1][name][a], p):
				same += pageSize
			case bytes.Equal(p, zeroPage):
				zero += pageSize
			}
		}
	}
	if im.Total != total || im.Zero != zero || im.Same != same || im.Stored != total-zero-same {
		t.Fatalf("checkpoint %d: total %d stored %d zero %d same %d; want total %d zero %d same %d", i, im.Total, im.Stored, im.Zero, im.Same, total, zero, same)
	}
}

func TestZeroPagesAreHoles(t *testing.T) {
	s := openStore(t, Options{})
	pages := make(map[uint64][]byte)
	for a := range uint64(20000) {
		pages[a*pageSize] = zeroPage
	}
	pages[0] = bytes.Repeat([]byte{1}, pageSize)
	im := checkpoint(t, s, "zeros", memory{"pagemap-1": pages}, BeginOptions{})
	compareMemory(t, restored(t, im), memory{"pagemap-1": pages})
	if used, err := s.Usage(); err != nil || used > 2<<20 {
		t.Errorf("80 MB of zeros use %d bytes (%v)", used, err)
	}
	if im.BytesToRead() > 2<<20 {
		t.Errorf("%d bytes to read", im.BytesToRead())
	}
}

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	s := openStore(t, Options{})
	checkpoint(t, s, "secret", memory{"pagemap-1": {0: zeroPage}}, BeginOptions{})
	checkpoint(t, s, "secret", memory{"pagemap-1": {0: zeroPage}}, BeginOptions{})
	filepath.Walk(s.Dir, func(path string, st os.FileInfo, err error) error {
		want := os.FileMode(0o600)
		if st.IsDir() {
			want = 0o700
		}
		if st.Mode()&os.ModeSymlink == 0 && st.Mode().Perm() != want {
			t.Errorf("%s has mode %o", path, st.Mode().Perm())
		}
		return err
	})
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	os.Chmod(dir, 0o750)
	if _, err := Open(dir, Options{}); err == nil {
		t.Error("opened a directory that the group may read")
	}
	file := filepath.Join(dir, "file")
	os.WriteFile(file, nil, 0o600)
	if _, err := Open(file, Options{}); err == nil {
		t.Error("opened a file")
	}
	if _, err := Open(filepath.Join(file, "below"), Options{}); err == nil {
		t.Error("opened a directory below a file")
	}
}

func TestTaskNames(t *testing.T) {
	s := openStore(t, Options{})
	for _, name := range []string{"", ".", "..", ".x", "a/b", "a b", "ä", "a\x00"} {
		if _, err := s.Begin(name, BeginOptions{}); err == nil {
			t.Errorf("began a checkpoint of %q", name)
		}
		if err := s.Remove(name); err == nil {
			t.Errorf("removed %q", name)
		}
	}
	for _, name := range []string{"b", "a-1_.Z", "0"} {
		checkpoint(t, s, name, memory{}, BeginOptions{})
	}
	if got, err := s.Tasks(); err != nil || !slices.Equal(got, []string{"0", "a-1_.Z", "b"}) {
		t.Errorf("tasks %q, %v", got, err)
	}
}

func TestAbort(t *testing.T) {
	s := openStore(t, Options{Patience: time.Millisecond})
	w, err := s.Begin("task", BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := fakeCriu{conn: w.PageSocket()}
	if err := c.request(request{cmd: cmdOpen, dst: dstOf("pagemap-1")}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin("task", BeginOptions{}); !errors.Is(err, ErrBusy) {
		t.Errorf("second Begin: %v, want ErrBusy", err)
	}
	if err := s.Collect("task"); !errors.Is(err, ErrBusy) {
		t.Errorf("Collect: %v, want ErrBusy", err)
	}
	for range 2 {
		if err := w.Abort(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(w.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory is still there: %v", err)
	}
	if _, err := w.Commit(nil); err == nil {
		t.Error("committed after Abort")
	}
	checkpoint(t, s, "task", memory{}, BeginOptions{})
}

// TestBeginRemovesWhatWasKilled: what a dump has written that was killed, and could not remove it itself, does not stay
// beside the next one.
func TestBeginRemovesWhatWasKilled(t *testing.T) {
	s := openStore(t, Options{})
	kept := checkpoint(t, s, "task", page(1), BeginOptions{})
	for range 2 {
		killed, err := s.Begin("task", BeginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(killed.Dir(), "pages-9.img"), make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		killed.Cancel()
		killed.lock.unlock() // as the end of its process does
	}
	w, err := s.Begin("task", BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	left, err := filepath.Glob(filepath.Join(s.taskDir("task"), "*", "pages-9.img"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	if aside, err := s.aside("task"); err != nil || len(aside) > 0 {
		t.Errorf("set aside and not deleted: %q, %v", aside, err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	compareMemory(t, restored(t, kept), page(1))
}

func TestCommitRefusesUnfinishedDump(t *testing.T) {
	s := openStore(t, Options{})
	for name, dump := range map[string]func(*Writer) error{
		"nothing": func(*Writer) error { return nil },
		"open": func(w *Writer) error {
			return fakeCriu{conn: w.PageSocket()}.request(request{cmd: cmdOpen, dst: 257}, 1)
		},
		"no inventory": func(w *Writer) error {
			return fakeCriu{conn: w.PageSocket()}.dump(memory{})
		},
	} {
		w, err := s.Begin("task", BeginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := dump(w); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Commit(nil); err == nil {
			t.Errorf("%s: committed", name)
		}
		if err := w.Abort(); err != nil {
			t.Fatal(err)
		}
	}
	if images, err := s.Images("task"); len(images) != 0 || err != nil {
		t.Errorf("images %v, %v", images, err)
	}
}

func TestCollect(t *testing.T) {
	s := openStore(t, Options{})
	w := &world{rand.New(rand.NewPCG(5, 5)), make(memory)}
	for range 5 { // chains 1-3, 4-5
		w.step()
		checkpoint(t, s, "task", w.m, BeginOptions{MaxChain: 3})
	}
	os.Mkdir(s.imageDir("task", 6), 0o700) // left by a crash
	if err := s.Collect("task"); err != nil {
		t.Fatal(err)
	}
	if seqs, _ := s.seqs("task"); !slices.Equal(seqs, []int{4, 5}) {
		t.Errorf("left: %v, want 4 and 5", seqs)
	}
	images, _ := s.Images("task")
	compareMemory(t, restored(t, images[1]), w.m)

	if err := s.Discard("task", 4); err != nil {
		t.Fatal(err)
	}
	images, _ = s.Images("task")
	if len(images) != 1 || !errors.Is(images[0].Err, ErrCorrupt) {
		t.Fatalf("after the parent was discarded: %+v", images)
	}
	if err := s.Collect("task"); err != nil {
		t.Fatal(err)
	}
	if seqs, _ := s.seqs("task"); !slices.Equal(seqs, []int{5}) {
		t.Errorf("left: %v, want the damaged 5", seqs)
	}
	if im := checkpoint(t, s, "task", w.m, BeginOptions{}); im.Seq != 6 || im.Chain != 1 {
		t.Errorf("after a damaged one: number %d, chain %d, want 6 and 1", im.Seq, im.Chain)
	}
	if err := s.Remove("task"); err != nil {
		t.Fatal(err)
	}
	if tasks, _ := s.Tasks(); len(tasks) != 0 {
		t.Errorf("tasks after Remove: %v", tasks)
	}
	if err := errors.Join(s.Remove("task"), s.Collect("task")); err != nil {
		t.Errorf("of an unknown task: %v", err)
	}
}

func TestOpenImageIsKept(t *testing.T) {
	s := openStore(t, Options{Patience: time.Millisecond})
	im := checkpoint(t, s, "task", memory{}, BeginOptions{})
	_, closeDir, err := im.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove("task"); !errors.Is(err, ErrBusy) {
		t.Errorf("removed while open: %v", err)
	}
	closeDir()
	closeDir()
	if err := s.Remove("task"); err != nil {
		t.Error(err)
	}
}

func TestCompressionChanges(t *testing.T) {
	plain := openStore(t, Options{})
	zipped := &Store{Dir: plain.Dir, Options: Options{Compress: true}}
	m := memory{"pagemap-1": {0: bytes.Repeat([]byte{3}, pageSize)}}
	for i, s := range []*Store{plain, zipped, zipped, plain} {
		im := checkpoint(t, s, "task", m, BeginOptions{})
		if want := []int{1, 1, 2, 1}[i]; im.Chain != want {
			t.Errorf("checkpoint %d: chain %d, want %d", i, im.Chain, want)
		}
		compareMemory(t, restored(t, im), m)
	}
}

func TestNoSpace(t *testing.T) {
	s := openStore(t, Options{})
	if _, err := s.Begin("task", BeginOptions{Need: 1 << 60}); !errors.Is(err, ErrNoSpace) {
		t.Errorf("%v, want ErrNoSpace", err)
	}
}

// Pages leave room for the deleted files that CRIU has not written yet.
func TestRoomForDeletedFiles(t *testing.T) {
	d := &dumpWriter{dir: t.TempDir(), need: 1 << 20}
	if got := d.toCome(); got != 1<<20 {
		t.Errorf("%d bytes are to come, want all", got)
	}
	for _, name := range []string{"ghost-file-1.img", "ghost-file-2.img", "pages-1.img"} {
		if err := os.WriteFile(filepath.Join(d.dir, name), make([]byte, 256<<10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.toCome(); got > 512<<10 || got < 256<<10 {
		t.Errorf("%d bytes are to come, want about the half", got)
	}
}

func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	write, read, err := Measure(t.Context(), dir, 5<<20+123)
	if err != nil || write <= 0 || read <= 0 {
		t.Errorf("write %g read %g: %v", write, read, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Measure(ctx, dir, 1<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
