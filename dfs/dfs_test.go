package dfs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"headrace/block"
	"headrace/internal/testkit"
	"headrace/meta"
)

type logTo struct{ testing.TB }

func (l logTo) Write(b []byte) (int, error) { l.Log(strings.TrimSpace(string(b))); return len(b), nil }

func testLog(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(logTo{t}, nil)) }

// TestOpenAgain: a node is what it was after it was closed; its directory is nobody else's meanwhile.
func TestOpenAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "node")
	n := open(t, Config{Dir: dir})
	write(t, n, "/d/file", "some bytes")
	if _, err := Open(Config{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	before := n.Identity
	ownerOnly(t, dir)
	closeNode(t, n)
	if _, err := n.do(&meta.Mkdirs{Path: "/late", Parents: true}); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed node: %v", err)
	}
	if err := n.Query(n.root(), func(meta.Query) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed node: %v", err)
	}

	n = open(t, Config{Dir: dir})
	defer closeNode(t, n)
	if s := stat(t, n, "/d/file"); s == nil || s.Size != 10 {
		t.Errorf("%+v", s)
	}
	if fmt.Sprint(n.Identity) != fmt.Sprint(before) {
		t.Errorf("%+v, and before %+v", n.Identity, before)
	}
}

// TestForeignDirectory: a directory with something else in it stays as it is.
func TestForeignDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letters"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "letters") {
		t.Errorf("%v", err)
	}
	if names, err := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("%v, %v", names, err)
	}
}

// TestManyAtOnce: commands that come at once share commits, and each has its own answer.
func TestManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	n := open(t, Config{Dir: dir, Upkeep: time.Hour})
	const many = 300
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			if _, err := n.do(&meta.Mkdirs{Path: fmt.Sprintf("/d%d", i), Mode: 0o755}); err != nil {
				t.Error(err)
			}
			_, err := n.do(&meta.Delete{Path: "/.reserved"})
			if e, ok := errors.AsType[*meta.Error](err); !ok || !strings.HasSuffix(e.Class, "InvalidPathException") {
				t.Errorf("another's answer: %v", err)
			}
		})
	}
	all.Wait()
	closeNode(t, n)
	n = open(t, Config{Dir: dir})
	defer closeNode(t, n)
	if s := stat(t, n, "/"); s.Children != many {
		t.Errorf("%d directories", s.Children)
	}
}

// TestOneBadCommand: one that the database cannot take is refused alone, and so is one that says nothing.
func TestOneBadCommand(t *testing.T) {
	dir := t.TempDir()
	n := open(t, Config{Dir: dir, Upkeep: time.Hour})
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			if _, err := n.do(&meta.Mkdirs{Path: fmt.Sprintf("/d%d", i)}); err != nil {
				t.Errorf("a good one: %v", err)
			}
			if _, err := n.do(&meta.Create{Path: "/f", Holder: strings.Repeat("h", 40_000), Flags: meta.FlagCreate, Replication: 1, BlockSize: 1 << 20}); err == nil {
				t.Error("too long a key is kept")
			}
			if _, err := n.do(nil); err == nil {
				t.Error("no operation is one")
			}
		})
	}
	all.Wait()
	for range 2 {
		if n.Failure() != nil || stat(t, n, "/f") != nil || stat(t, n, "/d29") == nil {
			t.Errorf("%v: the wrong one was kept", n.Failure())
		}
		closeNode(t, n)
		n = open(t, Config{Dir: dir, Upkeep: time.Hour})
	}
	closeNode(t, n)
}

// TestFails: when what was agreed on cannot be written, nothing is answered any more.
func TestFails(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir(), Upkeep: time.Hour})
	n.db.Close()
	for range 2 {
		if _, err := n.do(&meta.Mkdirs{Path: "/d"}); err == nil {
			t.Error("acknowledged")
		}
	}
	<-n.Failed()
	if err := n.Query(n.root(), func(meta.Query) error { return nil }); err == nil || n.Failure() == nil {
		t.Error("a query was answered")
	}
	closeNode(t, n)
}

// TestDeleteFreesBlocks: the copies of a deleted file and of a deleted tree go, and so do those that no
// file has.
func TestDeleteFreesBlocks(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir()})
	defer closeNode(t, n)
	keep := write(t, n, "/keep", "kept")
	blocks := []meta.Block{write(t, n, "/file", "1"), write(t, n, "/d/e/file", "2"), write(t, n, "/d/file", "3")}
	for _, path := range []string{"/file", "/d"} {
		must[meta.Result](t)(n.do(&meta.Delete{Path: path, Recursive: true}))
	}
	for _, b := range blocks {
		gone(t, n, b)
	}
	if n.Keeper.Finished(t.Context(), &keep) != 1 {
		t.Error("a block that is in use was deleted")
	}
}

// TestStrays: a copy that no file knows is deleted by a look that comes an hour after the first one that finds it, not by one that comes early, as when a disk does.
func TestStrays(t *testing.T) {
	c := newClock()
	n := open(t, Config{Dir: t.TempDir(), Now: c.Now, Upkeep: time.Hour, Reconcile: time.Hour})
	defer closeNode(t, n)
	keep := write(t, n, "/keep", "kept")
	judged(t, n)
	w := must[*block.Writer](t)(n.Blocks.Create(block.Block{ID: 7, Stamp: 1}, 9, 1<<20, false))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{0, time.Second, 30 * time.Minute, 30 * time.Minute} {
		if _, err := n.Blocks.Stat(7); err != nil {
			t.Errorf("before the look %v later: %v", after, err)
		}
		c.pass(after)
		if err := n.Keeper.judge(t.Context(), n.Blocks.Blocks()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.Blocks.Stat(7); err == nil {
		t.Error("the stray is there still")
	}
	if n.Keeper.Finished(t.Context(), &keep) != 1 {
		t.Error("a block that is in use was deleted")
	}
}

// TestLeaseExpires: a file whose writer has gone is closed at what was flushed, once the hard limit is
// over.
func TestLeaseExpires(t *testing.T) {
	c := newClock()
	n := open(t, Config{Dir: t.TempDir(), Now: c.Now})
	defer closeNode(t, n)
	_, w := begin(t, n, "/f", "flushed")
	if err := w.Write([]byte("not"), 7); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "the file to be closed", func() bool {
		c.pass(time.Minute) // of which those count in which the node has led
		return !stat(t, n, "/f").Located.Open
	})
	if s := stat(t, n, "/f"); s.Size != 7 {
		t.Errorf("%d bytes", s.Size)
	}
	if err := w.Flush(); !errors.Is(err, block.ErrFenced) {
		t.Errorf("the old writer writes: %v", err)
	}
	w.Close()
}

// TestProblems: blocks without a good copy are told of.
func TestProblems(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir()})
	defer closeNode(t, n)
	write(t, n, "/good", "1")
	b := write(t, n, "/bad", "2")
	_, w := begin(t, n, "/open", "3")
	defer w.Close()
	problems := func() (all []Problem) {
		if err := n.Problems(n.root(), 0, func(p Problem) bool { all = append(all, p); return true }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := problems(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
	if err := n.Blocks.Delete(block.Block{ID: int64(b.ID), Stamp: b.Stamp}); err != nil {
		t.Fatal(err)
	}
	if all := problems(); len(all) != 1 || all[0] != (Problem{b.ID, "/bad", "missing"}) {
		t.Errorf("%+v", all)
	}
}

// TestNobodyWaits: who gives up waiting is let go.
func TestNobodyWaits(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir()})
	defer closeNode(t, n)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 100 {
		if _, err := n.Propose(ctx, meta.Command{Caller: n.root(), Op: &meta.Mkdirs{Path: "/d"}}); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	testkit.Await(t, "an answer after them", func() bool { _, err := n.do(&meta.Mkdirs{Path: "/e"}); return err == nil })
}
