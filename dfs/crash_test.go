package dfs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/block"
	"headrace/internal/testkit"
	"headrace/meta"
)

// parts are what the processes do that are killed.
var parts = map[string]func(*testing.T, string){
	"open":    func(t *testing.T, dir string) { open(t, Config{Dir: dir}) },
	"give up": func(t *testing.T, dir string) { open(t, withoutDisk(dir)) },
	// names makes a directory and moves it, again and again, and says what was acknowledged.
	"names": func(t *testing.T, dir string) {
		n := open(t, Config{Dir: dir, Upkeep: time.Hour})
		for i := 0; ; i++ {
			must[meta.Result](t)(n.Propose(context.Background(), command(n, i, &meta.Mkdirs{Path: fmt.Sprintf("/a%d", i)})))
			must[meta.Result](t)(n.Propose(context.Background(), rename(n, i)))
			os.Stdout.WriteString(".")
		}
	},
	"write": func(t *testing.T, dir string) {
		n := open(t, Config{Dir: dir})
		begin(t, n, "/f", "flushed, and no more")
		must[meta.Result](t)(n.do(&meta.RecoverLease{Path: "/f", Holder: "d"}))
		select {}
	},
	"truncate": func(t *testing.T, dir string) {
		n := open(t, Config{Dir: dir})
		write(t, n, "/f", "twenty bytes, and more")
		must[meta.Result](t)(n.do(n.Truncation("/f", 20, "h", "m")))
		n.Wake()
		select {}
	},
	"delete": func(t *testing.T, dir string) {
		n := open(t, Config{Dir: dir, Upkeep: time.Hour})
		write(t, n, "/keep", "kept")
		for i := range 3 {
			write(t, n, fmt.Sprintf("/d/f%d", i), "gone")
		}
		must[meta.Result](t)(n.do(&meta.Delete{Path: "/d", Recursive: true}))
		n.Wake()
		select {}
	},
}

func command(n *Node, call int, op meta.Op) meta.Command {
	return meta.Command{Client: "client", Call: int64(2 * call), Caller: n.root(), Op: op}
}

func rename(n *Node, i int) meta.Command {
	m := command(n, i, &meta.Rename{From: fmt.Sprintf("/a%d", i), To: fmt.Sprintf("/b%d", i), Old: true})
	m.Call++
	return m
}

// TestKilledAtCommit: what was acknowledged is there, and what was durable without anybody having heard
// of it has the same answer when it is asked for again.
func TestKilledAtCommit(t *testing.T) {
	for _, point := range []string{"before", "written", "synced"} {
		dir := t.TempDir()
		// In the third rename. Four frames come before all commands: the group, an election, a new leader's first entry, and leases renewed.
		said := len(killed(t, dir, "names", "quorum.log."+point+":10"))
		if said != 2 {
			t.Fatalf("%d were acknowledged", said)
		}
		n := open(t, Config{Dir: dir})
		for i := range said {
			if stat(t, n, fmt.Sprintf("/b%d", i)) == nil {
				t.Errorf("%s: what was acknowledged is not there", point)
			}
		}
		if there := stat(t, n, "/b2") != nil; there != (point != "before") {
			t.Errorf("%s: the third rename: %v", point, there)
		}
		r := must[meta.Result](t)(n.Propose(context.Background(), rename(n, 2)))
		if f, ok := r.(*meta.Flag); !ok || !bool(*f) || stat(t, n, "/b2") == nil {
			t.Errorf("%s: asked again, the rename says %v", point, r)
		}
		closeNode(t, n)
	}
}

// TestKilledWhileMade: a directory in which no node was made to its end is one in which nothing was made.
func TestKilledWhileMade(t *testing.T) {
	dir := t.TempDir()
	killed(t, dir, "open", "dfs.format")
	n := open(t, Config{Dir: dir})
	defer closeNode(t, n)
	if s := stat(t, n, "/"); s == nil || s.Owner != "root" {
		t.Errorf("%+v", s)
	}
}

// TestKilledInRecovery: a file whose block is being recovered, or cut, when the node dies is closed by the next one.
func TestKilledInRecovery(t *testing.T) {
	for part, want := range map[string]string{"write": "flushed, and no more", "truncate": "twenty bytes, and mo"} {
		for _, point := range []string{"started", "finished"} {
			killedInRecovery(t, part, point, want)
		}
	}
}

func killedInRecovery(t *testing.T, part, point, want string) {
	dir := t.TempDir()
	killed(t, dir, part, "dfs.recover."+point)
	n := open(t, Config{Dir: dir})
	closed(t, n, "/f")
	s := stat(t, n, "/f")
	if s.Size != 20 || s.Located == nil || len(s.Located.Blocks) != 1 {
		t.Fatalf("%s, %s: %+v", part, point, s)
	}
	if b := s.Located.Blocks[0].Block; n.Keeper.Finished(t.Context(), &b) != 1 {
		t.Errorf("%s, %s: there is no copy of %+v", part, point, b)
	} else if got := read(t, n, b); got != want {
		t.Errorf("%s, %s: %q", part, point, got)
	}
	closeNode(t, n)
}

func read(t testing.TB, n *Node, b meta.Block) string {
	t.Helper()
	r := must[*block.Reader](t)(n.Blocks.Open(block.Block{ID: int64(b.ID), Stamp: b.Stamp}, 0, b.Size))
	defer r.Close()
	p := must[block.Part](t)(r.Next(context.Background()))
	return string(p.Data)
}

// TestKilledWhileDeleting: blocks that were deleted before that was noted are no trouble.
func TestKilledWhileDeleting(t *testing.T) {
	dir := t.TempDir()
	killed(t, dir, "delete", "dfs.collect.deleted")
	n := open(t, Config{Dir: dir})
	defer closeNode(t, n)
	testkit.Await(t, "the garbage to be collected", func() bool {
		var all []meta.Garbage
		n.ask(func(q meta.Query) { all = q.Garbage(0, 10) })
		return len(all) == 0
	})
	if blocks := n.Blocks.Blocks(); len(blocks) != 1 {
		t.Errorf("%d blocks", len(blocks))
	}
	if s := stat(t, n, "/keep"); s == nil || !strings.HasPrefix(read(t, n, s.Located.Blocks[0].Block), "kept") {
		t.Errorf("%+v", s)
	}
}

func withoutDisk(dir string) Config {
	return Config{Dir: filepath.Join(dir, "node"), Disks: []string{filepath.Join(dir, "1")}, NewDisks: []string{filepath.Join(dir, "2")}, Owner: "root"}
}

// A node that gives up a disk that it is not to have any more is killed while it notes that, and starts again with the same settings.
func TestCrashGivingUpDisk(t *testing.T) {
	dir := t.TempDir()
	c := withoutDisk(dir)
	both := c
	both.Disks, both.NewDisks = append(slices.Clone(c.Disks), c.NewDisks...), nil
	closeNode(t, open(t, both))
	killed(t, dir, "give up", "dfs.disks.noted")
	for range 2 {
		closeNode(t, open(t, c))
	}
}
