package dfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/block"
	"headrace/meta"
)

// withoutPool makes a disk one of the versions that did not note of which file system its blocks are.
func withoutPool(t *testing.T, disk string) {
	t.Helper()
	version := filepath.Join(disk, "VERSION")
	b, _, ok := bytes.Cut(must[[]byte](t)(os.ReadFile(version)), []byte("pool "))
	if !ok {
		t.Fatalf("it is none of any file system: %q", b)
	}
	if err := os.WriteFile(version, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestForeignDisks: blocks of another file system are none of this one's, though their numbers are. Disks of earlier versions, which do not say of which
// they are, stay those of the node that had them.
func TestForeignDisks(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "disk")
	own, other := t.TempDir(), t.TempDir()
	config := Config{Dir: own, Disks: []string{disk}, Upkeep: time.Hour}
	n := open(t, config)
	b := write(t, n, "/f", "some bytes")
	closeNode(t, n)
	refused := func() {
		t.Helper()
		for range 2 { // also once it has been founded
			n, err := Open(Config{Dir: other, Disks: []string{disk}, Owner: "root"})
			if err == nil {
				closeNode(t, n)
			}
			if !errors.Is(err, block.ErrForeign) || !strings.Contains(err.Error(), "--disk") {
				t.Fatalf("another file system has the disk: %v", err)
			}
		}
	}
	refused()
	withoutPool(t, disk)
	refused()
	for range 2 {
		n = open(t, config)
		if got := read(t, n, b); got != "some bytes" {
			t.Errorf("%q", got)
		}
		closeNode(t, n)
	}
	if v := must[[]byte](t)(os.ReadFile(filepath.Join(disk, "VERSION"))); !strings.Contains(string(v), n.Identity.Pool) {
		t.Errorf("it does not say whose it is: %q", v)
	}
	config.NewDisks = config.Disks
	withoutPool(t, disk)
	closeNode(t, open(t, config))
	// It stays in the settings, and later the disk is only not mounted.
	if err := os.Rename(disk, disk+".mounted"); err != nil {
		t.Fatal(err)
	}
	c := config
	c.Owner = "root"
	for range 2 {
		if n, err := Open(c); !errors.Is(err, block.ErrNotMounted) {
			if err == nil {
				closeNode(t, n)
			}
			t.Fatalf("a disk that was new once is taken for new again: %v", err)
		}
	}
	c.NewDisks = nil // once without: then it counts again
	if n, err := Open(c); !errors.Is(err, block.ErrNotMounted) {
		if err == nil {
			closeNode(t, n)
		}
		t.Fatal(err)
	}
	c.NewDisks = config.NewDisks
	closeNode(t, open(t, c))

	// A version before has made this one, and has not noted its disks either.
	dir := unpack(t)
	n = open(t, Config{Dir: dir, Upkeep: time.Hour})
	closeNode(t, n)
	if v := must[[]byte](t)(os.ReadFile(filepath.Join(dir, "blocks", "VERSION"))); !strings.Contains(string(v), n.Identity.Pool) {
		t.Errorf("it does not say whose it is: %q", v)
	}
}

// TestDiskThatIsNotNamed: a start without a directory that has blocks is refused, unless they are given up. The one in the node's own directory goes where that goes.
func TestDiskThatIsNotNamed(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	c := Config{Dir: at("node"), Disks: []string{at("1"), at("2")}, Owner: "root"}
	n := open(t, c)
	b, w := begin(t, n, "/f", "synced")
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	has := must[block.Info](t)(n.Blocks.Stat(int64(b.ID))).Dir
	closeNode(t, n)
	left := slices.DeleteFunc(slices.Clone(c.Disks), func(disk string) bool { return disk == has })
	refused := func(c Config, want string) {
		t.Helper()
		n, err := Open(c)
		if err == nil {
			closeNode(t, n)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	without := c
	for _, disks := range [][]string{left, nil} {
		without.Disks = disks
		refused(without, has+" has blocks of this node, and is not named any more")
	}
	if _, err := os.Stat(at("node/blocks")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there are blocks in --dir: %v", err)
	}
	n = open(t, c)
	must[meta.Result](t)(n.do(&meta.RecoverLease{Path: "/f", Holder: "d"}))
	closed(t, n, "/f")
	if got := readFile(t, n, "/f", 0, 100); got != "synced" {
		t.Errorf("%q", got)
	}
	closeNode(t, n)

	without.Disks, without.NewDisks = left, []string{at("3")}
	refused(without, "has blocks of this node")
	for _, gone := range [][]string{{has}, {has}, nil} { // it stays in the settings for a while
		without.NewDisks = gone
		closeNode(t, open(t, without))
	}
	without.NewDisks = []string{at("3")}
	refused(without, "--new-disk "+at("3")+": it is no --disk, and has had no blocks of this node")

	t.Chdir(dir)
	closeNode(t, open(t, Config{Dir: "plain"}))
	if err := os.Rename(at("plain"), at("moved")); err != nil {
		t.Fatal(err)
	}
	closeNode(t, open(t, Config{Dir: "moved"}))
	t.Chdir(at("moved"))
	closeNode(t, open(t, Config{Dir: "."}))
	refused(Config{Dir: at("moved"), Disks: []string{at("other")}, Owner: "root"}, at("moved/blocks")+" has blocks")
}
