package dfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"headrace/block"
	"headrace/meta"
	"headrace/ring"
	"headrace/wire"
)

// TestWhoIsAskedToRecover: nodes that are known not to be there are not asked, and count as ones that may have more, or as given up.
func TestWhoIsAskedToRecover(t *testing.T) {
	p := sixNodes(t, ring.Down{Node: "n2"}, ring.Down{Node: "n3"}, ring.Out{Node: "n3"})
	b := meta.LocatedBlock{Block: meta.Block{ID: 1, Stamp: 5, Size: 10}, Nodes: []string{"n1", "n2", "n3", "removed"}}
	var mu sync.Mutex
	var asked []string
	hear := func(length int64) []heard {
		return p.hear(p.names(b), func(node string) (*wire.BlockCopy, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, node)
			return &wire.BlockCopy{Block: 1, Stamp: 5, Length: length, State: wire.BlockCopy_WRITING}, nil
		})
	}
	said := hear(20)
	if !slices.Equal(asked, []string{"n1"}) {
		t.Errorf("%v were asked", asked)
	}
	for i, want := range []heard{{node: "n1"}, {node: "n2", err: errNotUp}, {node: "n3", err: errNotUp, gone: true}, {node: "removed", err: errNotUp, gone: true}} {
		if got := said[i]; got.node != want.node || got.gone != want.gone || got.err != want.err || (got.copy != nil) != (want.err == nil) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if length, at, err := agree(b.Block, 6, 0, said); length != 20 || !slices.Equal(at, []string{"n1"}) || err != nil {
		t.Errorf("%d at %v, %v", length, at, err)
	}
	if _, _, err := agree(b.Block, 6, 0, hear(5)); !errors.Is(err, errNotUp) { // the record says 10: n2 may have them
		t.Error(err)
	}
}

// TestUnreadableIsNotNothing: a copy that is damaged from its first byte on is no reason to give the block up, also where it has not been
// recorded that there was anything.
func TestUnreadableIsNotNothing(t *testing.T) {
	unreadable := heard{node: "n1", copy: &wire.BlockCopy{Block: 1, Stamp: 5, Damaged: true, State: wire.BlockCopy_WAITING}}
	nothing := heard{node: "n2", copy: &wire.BlockCopy{Block: 1}}
	for _, size := range []int64{0, 100} {
		b := meta.Block{ID: 1, Stamp: 5, Size: size}
		if length, _, err := agree(b, 6, 0, []heard{unreadable, nothing}); !errors.Is(err, errUnreadable) {
			t.Errorf("size %d: %d, %v", size, length, err)
		}
		sound := heard{node: "n3", copy: &wire.BlockCopy{Block: 1, Stamp: 5, Length: 100, State: wire.BlockCopy_WRITING}}
		if length, at, err := agree(b, 6, 0, []heard{unreadable, sound}); length != 100 || !slices.Equal(at, []string{"n3"}) || err != nil {
			t.Errorf("size %d: %d at %v, %v", size, length, at, err)
		}
	}
}

// TestDiskThatCannotBeUsed: of a block on a disk that cannot be used at the start it is not said that there is nothing. It is there when the
// disk is.
func TestDiskThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	c := Config{Dir: filepath.Join(dir, "node"), Disks: []string{filepath.Join(dir, "1"), filepath.Join(dir, "2")}}
	n := open(t, c)
	b, w := begin(t, n, "/f", "flushed")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	version := filepath.Join(must[block.Info](t)(n.Blocks.Stat(int64(b.ID))).Dir, "VERSION")
	closeNode(t, n)
	before := must[[]byte](t)(os.ReadFile(version))
	put := func(content string) {
		if err := os.WriteFile(version, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("not to be read")
	n = open(t, c)
	must[meta.Result](t)(n.do(&meta.RecoverLease{Path: "/f", Holder: "d"}))
	n.Keeper.all.recoverBlocks()
	if l := stat(t, n, "/f").Located; l.Last == nil || !l.Open {
		t.Fatalf("%+v: the block was given up", l)
	}
	closeNode(t, n)
	put(string(before))
	n = open(t, c)
	closed(t, n, "/f")
	if got := readFile(t, n, "/f", 0, 100); got != "flushed" {
		t.Errorf("%q", got)
	}
}

// TestDiskThatIsNotThere: a node begins without a disk of which not even the directory above can be opened, with all that the others have. It is no new one when it is there again.
func TestDiskThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	mount, away := filepath.Join(dir, "mount"), filepath.Join(dir, "away")
	link := filepath.Join(dir, "link") // stands for a mount whose file system has failed
	if err := errors.Join(os.Mkdir(mount, 0o700), os.Symlink(mount, link)); err != nil {
		t.Fatal(err)
	}
	c := Config{Dir: filepath.Join(dir, "node"), Disks: []string{filepath.Join(link, "1"), filepath.Join(dir, "2")}}
	n := open(t, c)
	for i := range 2 {
		name := fmt.Sprintf("/f%d", i)
		b, w := begin(t, n, name, name)
		if i == 0 && must[block.Info](t)(n.Blocks.Stat(int64(b.ID))).Dir != c.Disks[0] {
			t.Fatal("the first disk has no block")
		}
		defer w.Close() // a second block goes where nobody writes
	}
	closeNode(t, n)
	for range 2 {
		if err := os.Rename(mount, away); err != nil {
			t.Fatal(err)
		}
		n = open(t, c)
		for i, v := range n.Blocks.Volumes() {
			if (v.Cause != nil) != (i == 0) || (v.Unseen != nil) != (i == 0) {
				t.Errorf("%s: %v, %v", v.Dir, v.Cause, v.Unseen)
			}
		}
		closeNode(t, n)
		if err := os.Rename(away, mount); err != nil {
			t.Fatal(err)
		}
	}
	n = open(t, c)
	for i := range 2 {
		name := fmt.Sprintf("/f%d", i)
		must[meta.Result](t)(n.do(&meta.RecoverLease{Path: name, Holder: "d"}))
		closed(t, n, name)
		if got := readFile(t, n, name, 0, 100); got != name {
			t.Errorf("%q, want %q", got, name)
		}
	}
	closeNode(t, n)
}

// TestRecoveryPassesOverWhatIsDamaged: all nodes of a block have lost power. One has more of it than the others, but a bit of that has flipped.
func TestRecoveryPassesOverWhatIsDamaged(t *testing.T) {
	m := newModel(0, modelFault{}, map[string]int{})
	m.begin()
	m.content = bytes.Repeat([]byte("0123456789abcdef"), 200)
	for i, n := range m.nodes {
		size := []int64{3000, 2000, 2000}[i]
		if err := errors.Join(n.w.Write(m.content[:size], 0), n.w.Sync()); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range m.nodes {
		m.kill(n, true)
		if n.name == "A" {
			n.home.mem.Flip(n.home.path(), 4096+64<<10+100, 3)
		}
		n.open(m)
	}
	var said []heard
	for _, n := range m.nodes {
		c, err := n.k.fence(context.Background(), modelBlock, 5, false)
		said = append(said, heard{node: n.name, copy: c, err: err})
	}
	if length, at, err := agree(m.record, 5, 0, said); length != 2000 || !slices.Equal(at, []string{"B", "C"}) || err != nil {
		t.Errorf("%d at %v, %v: %v", length, at, err, said)
	}
}

// TestRecoveryIsNotKeptWaiting: a block is recovered while other upkeep does not come to an end.
func TestRecoveryIsNotKeptWaiting(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir()})
	_, w := begin(t, n, "/f", "flushed")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	n.Keeper.all.settling.Lock()
	defer n.Keeper.all.settling.Unlock()
	must[meta.Result](t)(n.do(&meta.RecoverLease{Path: "/f", Holder: "d"}))
	closed(t, n, "/f")
	if got := readFile(t, n, "/f", 0, 100); got != "flushed" {
		t.Errorf("%q", got)
	}
}
