package dfs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"headrace/block"
	"headrace/internal/testkit"
)

// TestDiskComesBack: a node goes on without a disk that is unmounted, and has its blocks again when it is mounted, without a restart.
func TestDiskComesBack(t *testing.T) {
	mounted, mount, detach, _ := testkit.ComingDisk(t)
	mount()
	n := open(t, Config{Dir: t.TempDir(), Disks: []string{mounted}, ScrubRate: 1 << 30, Run: t.TempDir()})
	b := write(t, n, "/a", "what is on it")
	detach()
	testkit.Await(t, "the disk to be out", func() bool { return errors.Is(n.Blocks.Volumes()[0].Cause, block.ErrNotMounted) })
	if _, err := n.Blocks.Stat(int64(b.ID)); !errors.Is(err, block.ErrOut) {
		t.Error(err)
	}
	if n.Room().Capacity != 0 {
		t.Errorf("%+v", n.Room())
	}
	mount()
	testkit.Await(t, "the disk to be in use, and what it has to be read", func() bool {
		i, err := n.Blocks.Stat(int64(b.ID))
		return err == nil && !i.Suspect && !i.Damaged
	})
	if n.Room().Blocks != 1 {
		t.Errorf("%+v", n.Room())
	}
	closeNode(t, n)
}

// TestDiskThatLostPages: a node ends while a block is being written, and is started again on the same machine. What it has of the block is all that was flushed, but not where the
// disk was unmounted meanwhile, or has failed: then nobody knows what of it never came to the disk, and others may have more.
func TestDiskThatLostPages(t *testing.T) {
	mounted, mount, _, unmount := testkit.ComingDisk(t)
	mount()
	c := Config{Dir: t.TempDir(), Disks: []string{mounted}, Upkeep: time.Hour, ScrubRate: -1, Run: t.TempDir()}
	n := open(t, c)
	b, w := begin(t, n, "/f", "flushed, and no more")
	for _, step := range []struct {
		what  string
		does  func()
		whole bool
	}{
		{"is started again", func() {}, true},
		{"has its disk unmounted", func() {
			if err := unmount(); err != nil {
				t.Fatal(err)
			}
			mount()
		}, false},
	} {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		closeNode(t, n)
		step.does()
		n = open(t, c)
		i, err := n.Blocks.Stat(int64(b.ID))
		if err != nil || i.State != block.Waiting || i.Whole != step.whole || i.Length != b.Size {
			t.Fatalf("a node that %s: %+v, %v", step.what, i, err)
		}
		if w, err = n.Blocks.Recover(i.Block, i.Stamp+1, b.Size, b.Size); err != nil {
			t.Fatal(err)
		}
	}
	n.Blocks.Out(mounted, unix.EIO) // in place of the store, which has a failed fsync
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	closeNode(t, n)
	n = open(t, c)
	i, err := n.Blocks.Stat(int64(b.ID))
	if err != nil || i.State != block.Waiting || i.Whole || i.Length != b.Size {
		t.Errorf("a node whose disk has failed: %+v, %v", i, err)
	}

	// It fails again, and the database, on the same device, cannot note it.
	if w, err = n.Blocks.Recover(i.Block, i.Stamp+1, b.Size, b.Size); err != nil {
		t.Fatal(err)
	}
	n.Blocks.Out(mounted, unix.EIO)
	if err := errors.Join(w.Close(), n.db.Update(func(tx *bolt.Tx) error {
		of, err := failures(tx)
		of[mounted]--
		b, jerr := json.Marshal(of)
		return errors.Join(err, jerr, tx.Bucket(nodeBucket).Put(failuresKey, b))
	})); err != nil {
		t.Fatal(err)
	}
	closeNode(t, n)
	n = open(t, c)
	if i, err := n.Blocks.Stat(int64(b.ID)); err != nil || i.State != block.Waiting || i.Whole || i.Length != b.Size {
		t.Errorf("a node whose disk has failed with its database: %+v, %v", i, err)
	}
	closeNode(t, n)
}

// TestOutSaysWhatToDo: of a disk that is not mounted the log says how to go on without it.
func TestOutSaysWhatToDo(t *testing.T) {
	var log bytes.Buffer
	n, err := Open(Config{Dir: t.TempDir(), Owner: "root", Run: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil)), Upkeep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	n.Blocks.Out("/d", fmt.Errorf("/d: %w", block.ErrNotMounted))
	closeNode(t, n)
	if !strings.Contains(log.String(), "--new-disk") {
		t.Errorf("%s", &log)
	}
}
