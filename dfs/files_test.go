package dfs

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"headrace/block"
	"headrace/internal/testkit"
	"headrace/meta"
)

// readFile returns a part of a file.
func readFile(t testing.TB, n *Node, path string, offset, length int64) string {
	t.Helper()
	r, err := n.OpenFile(n.root(), path, offset, length)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b strings.Builder
	for {
		p, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		if err != nil {
			t.Fatalf("%s from %d on: %v", path, r.at, err)
		}
		b.Write(p)
	}
}

// TestFileBeingWritten: what is flushed of a block that is being written is read, from wherever.
func TestFileBeingWritten(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir()})
	_, w := begin(t, n, "/f", strings.Repeat("x", 600)+"tail")
	defer w.Close()
	for offset, want := range map[int64]string{0: strings.Repeat("x", 600) + "tail", 600: "tail", 602: "il", 604: "", 700: ""} {
		if got := readFile(t, n, "/f", offset, 1<<40); got != want {
			t.Errorf("from %d: %d bytes", offset, len(got))
		}
	}
}

// TestWriter: files are written over the ends of blocks, and appended to, also at the end of a block that is smaller than the file's.
func TestWriter(t *testing.T) {
	m := meta.DefaultConfig()
	m.MinBlockSize = 512
	n := open(t, Config{Dir: t.TempDir(), Meta: &m})
	put := func(w *Writer, err error) func(string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return func(text string) {
			t.Helper()
			if _, err := io.WriteString(w, text); err != nil {
				t.Error(err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	create := func(path string, block int64) func(string) {
		return put(n.Create(context.Background(), n.root(), meta.Create{Path: path, Mode: 0o644, Flags: meta.FlagCreate, Replication: 1, BlockSize: block}, true))
	}
	add := func(path string) func(string) { return put(n.Append(context.Background(), n.root(), path, "here")) }
	whole := strings.Repeat("0123456789abcdef", 64)
	create("/f", 1024)(whole)
	create("/small", 512)(whole[:700])
	must[meta.Result](t)(n.do(&meta.Concat{Target: "/f", Sources: []string{"/small"}}))
	add("/f")(whole)
	add("/f")("")
	if got := readFile(t, n, "/f", 0, 1<<40); got != whole+whole[:700]+whole {
		t.Errorf("%d bytes", len(got))
	}
	create("/empty", 1024)("")
	add("/empty")("more")
	if got := readFile(t, n, "/empty", 0, 1<<40); got != "more" {
		t.Errorf("%q", got)
	}
}

// TestAppendMeanwhile: a file grows while it is asked where its last block is. Who appends goes on behind that.
func TestAppendMeanwhile(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir()})
	write(t, n, "/f", "first")
	tries := 0
	a, _, err := n.Keeper.Append(t.Context(), &meta.Append{Path: "/f", Holder: "q", Machine: "m"}, func(op meta.Op) (meta.Result, error) {
		if tries++; tries == 1 {
			w := must[*Writer](t)(n.Append(t.Context(), n.root(), "/f", "here"))
			if _, err := io.WriteString(w, "second"); err != nil {
				t.Error(err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
		return n.do(op)
	})
	if err != nil || tries != 2 || a.Block == nil || a.Block.Size != 11 {
		t.Errorf("after %d tries: %+v, %v", tries, a, err)
	}
}

// TestCopiesAreKnownLate: a writer whose last block has ended, and of which nobody says yet that he has a finished copy, asks again.
func TestCopiesAreKnownLate(t *testing.T) {
	m := meta.DefaultConfig()
	m.MinBlockSize = 512
	n := open(t, Config{Dir: t.TempDir(), Meta: &m})
	w := must[*Writer](t)(n.Create(t.Context(), n.root(), meta.Create{Path: "/f", Mode: 0o644, Flags: meta.FlagCreate, Replication: 1, BlockSize: 1024}, false))
	whole := strings.Repeat("0123456789", 110)
	write := func(text string) error { _, err := io.WriteString(w, text); return err }
	if err := write(whole[:1000]); err != nil {
		t.Fatal(err)
	}
	late := func(size int64, end func() error) {
		n.Keeper.Writing(block.Block{ID: int64(w.last.ID), Stamp: w.last.Stamp + 1}, 0, "", 0) // the copy looks like an older one
		done := make(chan error, 1)
		go func() { done <- end() }()
		testkit.Await(t, "the length to be noted", func() bool { return stat(t, n, "/f").Size == size })
		n.Keeper.forget(n.Blocks)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	late(1024, func() error { return write(whole[1000:]) })
	late(1100, w.Close)
	if got := readFile(t, n, "/f", 0, 1<<40); got != whole {
		t.Errorf("%d bytes", len(got))
	}
}

// TestWriterThatFails: a file whose writer cannot go on is closed by the node at what it has of it.
func TestWriterThatFails(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir()})
	w, err := n.Create(context.Background(), n.root(), meta.Create{Path: "/f", Mode: 0o644, Flags: meta.FlagCreate, Replication: 1, BlockSize: 1 << 20}, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "flushed"); err != nil {
		t.Fatal(err)
	}
	if err := w.w.Flush(); err != nil {
		t.Fatal(err)
	}
	w.w.Close() // as if its disk had failed
	if _, err := io.WriteString(w, "lost"); err == nil {
		t.Error("it goes on")
	}
	if err := w.Close(); err == nil {
		t.Error("it is closed as if nothing were")
	}
	testkit.Await(t, "the file to be closed", func() bool { return !stat(t, n, "/f").Located.Open })
	if got := readFile(t, n, "/f", 0, 1<<40); got != "flushed" {
		t.Errorf("%q", got)
	}
}

// TestWriterKeepsItsLease: whoever writes slowly keeps the file.
func TestWriterKeepsItsLease(t *testing.T) {
	clock := newClock()
	n := open(t, Config{Dir: t.TempDir(), Now: clock.Now})
	w, err := n.Create(context.Background(), n.root(), meta.Create{Path: "/f", Mode: 0o644, Flags: meta.FlagCreate, Replication: 1, BlockSize: 1 << 20}, false)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		clock.pass(50 * time.Second) // the lease may be taken after 60
		if _, err := io.WriteString(w, "slow"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.Append(context.Background(), n.root(), "/f", "here"); err == nil || !strings.Contains(err.Error(), "AlreadyBeingCreated") {
		t.Errorf("somebody else: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if got := readFile(t, n, "/f", 0, 100); got != "slowslowslowslow" {
		t.Errorf("%q", got)
	}
}

// TestOthersFilesStayOpen: a writer that fails takes the file away from nobody who has it by then: neither another file at the same path, nor the same one.
func TestOthersFilesStayOpen(t *testing.T) {
	clock := newClock()
	n := open(t, Config{Dir: t.TempDir(), Now: clock.Now})
	first := func() *Writer {
		t.Helper()
		w := must[*Writer](t)(n.Create(t.Context(), n.root(), meta.Create{Path: "/f", Mode: 0o644, Flags: meta.FlagCreate | meta.FlagOverwrite, Replication: 1, BlockSize: 1 << 20}, false))
		if _, err := io.WriteString(w, "first"); err != nil {
			t.Fatal(err)
		}
		return w
	}
	for what, second := range map[string]func() (*Writer, error){
		"another file": func() (*Writer, error) {
			return n.Create(t.Context(), n.root(), meta.Create{Path: "/f", Mode: 0o644, Flags: meta.FlagCreate | meta.FlagOverwrite, Replication: 1, BlockSize: 1 << 20}, false)
		},
		"the same file": func() (w *Writer, err error) {
			clock.pass(2 * time.Minute) // the first one's lease may be taken
			testkit.Await(t, "it to be recovered", func() bool { w, err = n.Append(t.Context(), n.root(), "/f", "here"); return err == nil })
			return w, err
		},
	} {
		w := first()
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		other := must[*Writer](t)(second())
		if _, err := io.WriteString(other, "second"); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err == nil {
			t.Errorf("%s: the first writer has closed what is not its own", what)
		}
		if err := other.Close(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := readFile(t, n, "/f", 0, 100); !strings.HasSuffix(got, "second") {
			t.Errorf("%s: %q", what, got)
		}
	}
}

// TestRenamedFileIsClosed: a file whose writer fails is closed also where it was moved.
func TestRenamedFileIsClosed(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir()})
	w := must[*Writer](t)(n.Create(t.Context(), n.root(), meta.Create{Path: "/f", Mode: 0o644, Flags: meta.FlagCreate, Replication: 1, BlockSize: 1 << 20}, false))
	if _, err := io.WriteString(w, "flushed"); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	must[meta.Result](t)(n.do(&meta.Rename{From: "/f", To: "/g", Old: true}))
	w.w.Close() // as if its disk had failed
	if err := w.Close(); err == nil {
		t.Error("it is closed as if nothing were")
	}
	testkit.Await(t, "the file to be closed", func() bool { return !stat(t, n, "/g").Located.Open })
}
