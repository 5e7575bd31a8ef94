package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"
)

// cancelAfter returns a context and a progress function that cancels it at its
// nth call.
func cancelAfter(t *testing.T, n int) (context.Context, func(int64, int64)) {
	ctx, cancel := context.WithCancel(t.Context())
	return ctx, func(int64, int64) {
		if n--; n == 0 {
			cancel()
		}
	}
}

// commitError ends a dump with Commit, which must fail.
func commitError(t *testing.T, w *Writer) error {
	t.Helper()
	_, err := w.Commit(nil)
	if err == nil {
		t.Fatal("committed")
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	return err
}

func TestMalformedRequests(t *testing.T) {
	page := bytes.Repeat([]byte{5}, pageSize)
	open := request{cmd: cmdOpen, dst: 257}
	add := request{cmd: cmdAdd, flags: flagPresent, pages: 1, vaddr: 8 * pageSize, dst: 257}
	change := func(r request, f func(*request)) request { f(&r); return r }
	for name, c := range map[string]struct {
		requests []request
		want     string
	}{
		"pages before open": {[]request{add}, "before it opened"},
		"unknown command":   {[]request{change(open, func(r *request) { r.cmd = 77 })}, "unknown request 77"},
		"unknown image":     {[]request{change(open, func(r *request) { r.dst = 3 })}, "unknown type 3"},
		"opened twice":      {[]request{open, add, open, add}, "twice"},
		"descending":        {[]request{open, add, add}, "after those below"},
		"hole":              {[]request{open, change(add, func(r *request) { r.flags = flagParent })}, "flags 0x1"},
		"lazy":              {[]request{open, change(add, func(r *request) { r.flags = flagLazy })}, "flags 0x2"},
		"no pages":          {[]request{open, change(add, func(r *request) { r.pages = 0 })}, "number of pages 0"},
		"too many pages":    {[]request{open, change(add, func(r *request) { r.pages = 1 << 60 })}, "number of pages"},
		"odd address":       {[]request{open, change(add, func(r *request) { r.vaddr = 5 })}, "address 0x5"},
		"beyond memory":     {[]request{open, change(add, func(r *request) { r.vaddr = 1 << 63 })}, "address"},
		"cut off":           {[]request{open, change(add, func(r *request) { r.pages = 1 << 40 })}, "in the middle"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := openStore(t, Options{}).Begin("task", BeginOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range c.requests {
				w.PageSocket().Write(encodeRequest(r))
				if r.cmd == cmdAdd {
					w.PageSocket().Write(page)
				}
			}
			if name != "cut off" {
				w.PageSocket().Write(encodeRequest(request{cmd: cmdForceClose}))
				io.Copy(io.Discard, w.PageSocket()) // until the server hangs up
			}
			err = commitError(t, w)
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

func TestOldProtocolIsRecognised(t *testing.T) {
	for _, cmd := range []uint32{cmdOpen, cmdForceClose} {
		w, err := openStore(t, Options{}).Begin("task", BeginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, oldRequestSize) // u32 cmd, u32 nr_pages, u64 vaddr, u64 dst_id
		binary.LittleEndian.PutUint32(b, cmd)
		binary.LittleEndian.PutUint64(b[16:], 257)
		if _, err := w.PageSocket().Write(b); err != nil {
			t.Fatal(err)
		}
		if n, err := w.PageSocket().Read(b); n != 0 {
			t.Errorf("answered %v, %v", b[:n], err)
		}
		if err := commitError(t, w); !strings.Contains(err.Error(), "before 4.2") {
			t.Errorf("%v", err)
		}
	}
}

func TestServerIsNotToBlame(t *testing.T) {
	s := openStore(t, Options{})
	for name, dump := range map[string]func(fakeCriu) error{
		"said nothing": func(fakeCriu) error { return nil },
		"ended early":  func(c fakeCriu) error { return c.request(request{cmd: cmdOpen, dst: 257}, 1) },
		"closed":       func(c fakeCriu) error { return c.request(request{cmd: cmdForceClose}, 4) },
	} {
		w, err := s.Begin("task", BeginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := dump(fakeCriu{conn: w.PageSocket()}); err != nil {
			t.Errorf("criu %s: %v", name, err)
		}
		if err := errors.Join(w.ServerErr(), w.Abort()); err != nil {
			t.Errorf("criu %s: %v", name, err)
		}
	}
}

func TestParentQuestion(t *testing.T) {
	w, err := openStore(t, Options{}).Begin("task", BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := (fakeCriu{conn: w.PageSocket()}).request(request{cmd: cmdParent, dst: 257}, 4); err != nil {
		t.Error(err)
	}
}

// fullDevice mounts a memory file system of a few megabytes.
func fullDevice(t *testing.T, size string) string {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Skipf("mounting a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestDeviceFull(t *testing.T) {
	for _, compress := range []bool{false, true} {
		s, err := Open(fullDevice(t, "40m"), Options{Compress: compress})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 1))
		w := &world{r, memory{"pagemap-1": {}, "pagemap-2": {}}}
		for a := range uint64(20) {
			w.m["pagemap-1"][a*pageSize] = w.page()
		}
		good := checkpoint(t, s, "task", w.m, BeginOptions{})
		before := w.m.clone()
		for a := range uint64(40000) { // about 80 MB
			w.m["pagemap-2"][a*pageSize] = w.page()
		}
		writer, err := s.Begin("task", BeginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := (fakeCriu{}).dumpInto(writer, w.m, nil); err == nil {
			t.Error("criu saw no error")
		}
		if left, err := free(s.Dir); left < reserve/4 || err != nil {
			t.Errorf("%d bytes are left for others, %v", left, err)
		}
		if err := writer.ServerErr(); !errors.Is(err, ErrNoSpace) {
			t.Errorf("the server tells %v, want no space left", err)
		}
		if err := commitError(t, writer); !errors.Is(err, ErrNoSpace) {
			t.Errorf("%v, want no space left", err)
		}
		compareMemory(t, restored(t, good), before)
		w.m["pagemap-2"] = nil
		delete(w.m, "pagemap-2")
		checkpoint(t, s, "task", w.m, BeginOptions{})
	}
}

// A brokenSink fails at the nth call.
type brokenSink struct{ calls int }

var errBroken = errors.New("broken")

func (b *brokenSink) fail() error {
	if b.calls--; b.calls < 0 {
		return errBroken
	}
	return nil
}

func (b *brokenSink) open(string) error  { return b.fail() }
func (b *brokenSink) store(*block) error { return b.fail() }
func (b *brokenSink) finish() error      { return b.fail() }

// TestFailedStoring fails at each step of a dump: criu and we see it, and nobody
// waits for ever.
func TestFailedStoring(t *testing.T) {
	m := memory{"pagemap-1": {}, "pagemap-2": {}}
	for a := range uint64(5000) {
		m["pagemap-1"][a*pageSize] = zeroPage
		m["pagemap-2"][a*pageSize] = zeroPage
	}
	const steps = 1 + 5 + 1 + 5 + 1 // 5000 pages are 5 blocks
	for n := range steps + 1 {
		ours, theirs := net.Pipe()
		s := &pageServer{conn: ours, sink: &brokenSink{n}, hangUp: func() { ours.Close() }}
		served := make(chan error)
		go func() { served <- s.serve() }()
		client := fakeCriu{conn: theirs, maxRun: 700}.dump(m)
		server := <-served
		if n == steps {
			if client != nil || server != nil {
				t.Errorf("nothing fails: criu %v, server %v", client, server)
			}
		} else if client == nil || !errors.Is(server, errBroken) {
			t.Errorf("step %d fails: criu %v, server %v", n, client, server)
		}
	}
}

// encodeMM makes an mm image with mappings of these flags and status.
func encodeMM(vmas ...[2]uint64) []byte {
	msg := protowire.AppendTag(nil, 1, protowire.VarintType)
	msg = protowire.AppendVarint(msg, 0x400000)
	for _, v := range vmas {
		var vma []byte
		for num, value := range map[protowire.Number]uint64{1: 0x1000, 2: 0x2000, vmaFieldFlags: v[0], vmaFieldStatus: v[1]} {
			vma = protowire.AppendVarint(protowire.AppendTag(vma, num, protowire.VarintType), value)
		}
		msg = protowire.AppendBytes(protowire.AppendTag(msg, mmFieldVMA, protowire.BytesType), vma)
	}
	b := binary.LittleEndian.AppendUint64(nil, mmMagic<<32|imageMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(msg)))
	return append(b, msg...)
}

// TestHugePages: an incremental image of a task with a private mapping of huge
// pages is refused, a full one is not, and the next is full by itself.
func TestHugePages(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "store[1]"), Options{}) // which is no pattern
	if err != nil {
		t.Fatal(err)
	}
	plain := map[string][]byte{"mm-1.img": encodeMM([2]uint64{mapPrivate, 1}, [2]uint64{1 | mapHugetlb, 0})}
	huge := map[string][]byte{"mm-1.img": encodeMM([2]uint64{mapPrivate, 0}, [2]uint64{mapPrivate | mapHugetlb, 0})}
	plugin := map[string][]byte{"mm-1.img": plain["mm-1.img"], "mm-2.img": encodeMM([2]uint64{1, vmaPlugin})}
	for i, c := range []struct {
		other map[string][]byte
		o     BeginOptions
		chain int // 0: ErrNeedsFull
	}{
		{plain, BeginOptions{}, 1}, {plain, BeginOptions{}, 2},
		{huge, BeginOptions{}, 0}, {huge, BeginOptions{Full: true}, 1}, {huge, BeginOptions{}, 1}, {plain, BeginOptions{}, 1},
		{plain, BeginOptions{}, 2}, {plugin, BeginOptions{}, 0},
	} {
		w, err := s.Begin("task", c.o)
		if err != nil {
			t.Fatal(err)
		}
		if err := (fakeCriu{}).dumpInto(w, memory{}, c.other); err != nil {
			t.Fatal(err)
		}
		if c.chain == 0 {
			if err := commitError(t, w); !errors.Is(err, ErrNeedsFull) {
				t.Errorf("%d: %v, want ErrNeedsFull", i, err)
			}
			continue
		}
		im, err := w.Commit(nil)
		if err != nil || im.Chain != c.chain {
			t.Fatalf("%d: %+v, %v; want a chain of %d", i, im, err, c.chain)
		}
	}
}

func FuzzServer(f *testing.F) {
	page := bytes.Repeat([]byte{5}, pageSize)
	seed := encodeRequest(request{cmd: cmdOpen, dst: 257})
	seed = append(seed, encodeRequest(request{cmd: cmdAdd, flags: flagPresent, pages: 2, vaddr: pageSize, dst: 257})...)
	seed = append(append(append(seed, page...), zeroPage...), encodeRequest(request{cmd: cmdForceClose})...)
	f.Add(seed)
	f.Add(seed[:oldRequestSize])
	f.Add(encodeRequest(request{cmd: cmdAdd, flags: flagPresent, pages: 1 << 62, vaddr: 0}))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		d := &dumpWriter{dir: dir, parentIndex: func(string) (*os.File, error) { return nil, nil }}
		s := &pageServer{conn: struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(b), io.Discard}, sink: d, hangUp: func() {}, memory: func(int, uint64, []byte) error { return errBroken }}
		err := s.serve()
		d.abandon()
		if err != nil {
			return
		}
		m, err := readMemory(dir)
		if err != nil {
			t.Fatalf("unreadable image: %v", err)
		}
		var total int64
		for _, pages := range m {
			total += int64(len(pages)) * pageSize
		}
		if total != d.counts.Total || total > int64(len(b)) {
			t.Fatalf("%d bytes of pages, counted %d", total, d.counts.Total)
		}
	})
}

func FuzzIndex(f *testing.F) {
	var buf bytes.Buffer
	x, _ := newIndexWriter(&buf)
	x.add(indexEntry{pageSize, zeroHash})
	x.add(indexEntry{3 * pageSize, zeroHash})
	x.flush()
	f.Add(buf.Bytes())
	f.Add([]byte(indexMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := newIndexReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		found := 0
		for a := uint64(0); a < 64*pageSize; a += pageSize {
			ok, err := x.has(indexEntry{a, zeroHash})
			if err != nil {
				return
			}
			if ok {
				found++
			}
		}
		if found > len(b)/indexEntrySize {
			t.Fatalf("found %d entries in %d bytes", found, len(b))
		}
	})
}

func FuzzManifest(f *testing.F) {
	m := &manifest{Task: "t", Seq: 2, Parent: 1, ParentID: "x", Chain: 2, Files: []manifestFile{{Name: "a", Sum: "b"}, {Name: "p", Sums: "a"}}}
	b, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	_, body, _ := bytes.Cut(b, []byte{'\n'})
	f.Add(b, false)
	f.Add(body, true)
	f.Fuzz(func(t *testing.T, b []byte, sign bool) {
		if sign { // else hardly anything gets past the checksum
			b = signed(b)
		}
		m, err := parseManifest(b)
		if err != nil {
			return
		}
		if m.size() < 0 && m.Stored >= 0 && len(m.Files) < 2 {
			t.Fatalf("size %d", m.size())
		}
		again, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseManifest(again); err != nil {
			t.Fatalf("encoded again: %v", err)
		}
	})
}

func FuzzSums(f *testing.F) {
	var buf bytes.Buffer
	w, _ := newSumsWriter(&buf)
	w.add(extent{off: 0, length: pageSize, stored: pageSize})
	w.add(extent{off: 2 * pageSize, length: 2 * pageSize, stored: 2 * pageSize})
	w.flush()
	f.Add(buf.Bytes(), false)
	f.Fuzz(func(t *testing.T, b []byte, compressed bool) {
		r, err := newSumsReader(bytes.NewReader(b), compressed)
		if err != nil {
			return
		}
		end := int64(0)
		for {
			e, err := r.next()
			if err != nil {
				return
			}
			if e.off < end || e.length <= 0 || e.length > maxExtent || e.stored <= 0 || e.stored > maxStored {
				t.Fatalf("extent %+v after %d", e, end)
			}
			end = e.end()
		}
	})
}

func FuzzMM(f *testing.F) {
	f.Add(encodeMM([2]uint64{mapPrivate | mapHugetlb, 0}))
	f.Add(encodeMM())
	f.Fuzz(func(t *testing.T, b []byte) {
		full, err := parseMM(b)
		if full && len(b) < 12+4 {
			t.Fatalf("%d bytes show huge pages (%v)", len(b), err)
		}
	})
}
