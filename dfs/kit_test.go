package dfs

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headrace/block"
	"headrace/internal/crash"
	"headrace/internal/testkit"
	"headrace/meta"
)

// clock is one that tests move.
type clock struct{ ms atomic.Int64 }

func newClock() *clock { c := &clock{}; c.ms.Store(1_700_000_000_000); return c }

func (c *clock) Now() time.Time       { return time.UnixMilli(c.ms.Load()) }
func (c *clock) pass(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// open opens the node of a configuration, which is the only one that votes: however long it stands still, as on a busy machine, it leads the names.
// The test closes it; what does not is stopped.
func open(t testing.TB, c Config) *Node {
	t.Helper()
	c.Owner, c.Log = "root", testLog(t)
	if c.Upkeep == 0 {
		c.Upkeep = time.Millisecond
	}
	c.Tick = cmp.Or(c.Tick, time.Minute)
	n, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n.ctx.Err() == nil {
			n.Close()
		}
	})
	return n
}

func closeNode(t testing.TB, n *Node) {
	t.Helper()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

func (n *Node) do(op meta.Op) (meta.Result, error) {
	return n.Propose(context.Background(), meta.Command{Caller: n.root(), Op: op})
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// stat returns what is at a path.
func stat(t testing.TB, n *Node, path string) (s *meta.Status) {
	t.Helper()
	if err := n.Query(n.root(), func(q meta.Query) (err error) { s, err = q.Stat(path, true); return err }); err != nil {
		t.Fatal(err)
	}
	return s
}

// begin creates a file, and writes bytes of its first block, which readers see.
func begin(t testing.TB, n *Node, path, text string) (meta.Block, *block.Writer) {
	t.Helper()
	return beginIn(t, n, path, text, 0)
}

// beginIn is begin with a block of that segment.
func beginIn(t testing.TB, n *Node, path, text string, segment uint16) (meta.Block, *block.Writer) {
	t.Helper()
	f := must[meta.Result](t)(n.do(&meta.Create{Path: path, Mode: 0o644, Holder: "c", Flags: meta.FlagCreate, Parents: true, Replication: 1, BlockSize: 1 << 20})).(*meta.Status)
	b := must[meta.Result](t)(n.do(&meta.AddBlock{Path: path, ID: f.ID, Holder: "c", Segment: segment, Nodes: []string{n.Identity.Node}})).(*meta.Allocated).Block
	w := must[*block.Writer](t)(n.Blocks.Create(block.Block{ID: int64(b.ID), Stamp: b.Stamp}, f.ID, 1<<20, false))
	if err := w.Write([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	b.Size = int64(len(text))
	return b, w
}

// write makes a file of one block.
func write(t testing.TB, n *Node, path, text string) meta.Block {
	t.Helper()
	return writeIn(t, n, path, text, 0)
}

// writeIn is write with a block of that segment.
func writeIn(t testing.TB, n *Node, path, text string, segment uint16) meta.Block {
	t.Helper()
	b, w := beginIn(t, n, path, text, segment)
	if err := w.Finalize(b.Size); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := must[meta.Result](t)(n.do(&meta.Complete{Path: path, Holder: "c", Last: &b, Copies: n.Keeper.Finished(t.Context(), &b)}))
	if f, ok := r.(*meta.Flag); !ok || !bool(*f) {
		t.Fatalf("%s is not closed", path)
	}
	return b
}

// closed waits until nobody has a file open.
func closed(t testing.TB, n *Node, path string) {
	t.Helper()
	testkit.Await(t, "the file to be closed", func() (is bool) {
		err := n.Query(n.root(), func(q meta.Query) (err error) { is, err = q.Closed(path); return err })
		if err != nil {
			t.Fatal(err)
		}
		return is
	})
}

// gone waits until there is no copy of a block.
func gone(t testing.TB, n *Node, b meta.Block) {
	t.Helper()
	testkit.Await(t, "the copies of a block to be deleted", func() bool {
		_, err := n.Blocks.Stat(int64(b.ID))
		return err != nil
	})
}

const childDir = "HEADRACE_TEST_DFS"

// killed runs a part of a test, in a process of its own, that dies at a crash point, and
// returns what it had said.
func killed(t *testing.T, dir, part, point string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childDir+"="+dir, "HEADRACE_TEST_PART="+part, crash.Env+"="+point, "GORACE=atexit_sleep_ms=0")
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() >= 0 {
		t.Fatalf("%s did not die at %s: %v\n%s", part, point, err, out)
	}
	return string(out)
}

// TestChild is not a test: see killed.
func TestChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("this is a part of other tests")
	}
	parts[os.Getenv("HEADRACE_TEST_PART")](t, dir)
}

// ownerOnly checks that nobody else may read what is below a directory.
func ownerOnly(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := d.Info()
		if err == nil && i.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", strings.TrimPrefix(path, dir), i.Mode())
		}
		files++
		return err
	})
	if err != nil || files < 4 {
		t.Errorf("%d files, %v", files, err)
	}
}
