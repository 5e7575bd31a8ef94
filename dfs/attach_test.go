package dfs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"headrace/block"
	"headrace/internal/testkit"
	"headrace/internal/vfs"
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

// TestFailuresOfADisk: a disk that was not mounted has not failed, and a new one in its place has not either.
func TestFailuresOfADisk(t *testing.T) {
	c := Config{Dir: t.TempDir(), Disks: []string{t.TempDir()}, Upkeep: time.Hour, ScrubRate: -1, Run: t.TempDir()}
	disk := c.Disks[0]
	n := open(t, c)
	want := func(when string, want uint64) {
		t.Helper()
		if got := failuresOf(n.db, disk); got != want {
			t.Errorf("%s it has failed %d times, want %d", when, got, want)
		}
	}
	n.Blocks.Out(disk, fmt.Errorf("%s: %w", disk, block.ErrNotMounted))
	want("not mounted", 0)
	n.Blocks.Out(disk, unix.EIO)
	want("after a failure", 1)
	closeNode(t, n)
	n = open(t, c)
	want("at the next start", 1)
	closeNode(t, n)
	c.NewDisks = c.Disks
	n = open(t, c)
	want("as a new one", 0)
	n.Blocks.Out(disk, unix.EIO)
	closeNode(t, n)
	n = open(t, c)
	want("when that has failed, and the settings still say that it is new,", 1)
	closeNode(t, n)
}

// TestRunOfAnotherUser: who may not look into the directory for such notes has none there, and knows of its disks what it knew.
func TestRunOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	n := open(t, Config{Dir: t.TempDir(), Upkeep: time.Hour, ScrubRate: -1, Run: filepath.Join(t.TempDir(), "run")})
	defer closeNode(t, n)
	want := diskSince(n, "boot", "/")
	if want == 0 {
		t.Skip("the kernel does not tell mounts apart")
	}
	must[struct{}](t)(struct{}{}, os.MkdirAll(n.Config.Run, 0o700))
	got := make(chan uint64, 1)
	go func() {
		runtime.LockOSThread() // it ends with the goroutine
		if err := unix.Setfsuid(65534); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(runningNote(n, "/")); !errors.Is(err, os.ErrPermission) {
			t.Errorf("another user can look there: %v", err)
		}
		got <- diskSince(n, "boot", "/")
	}()
	if got := <-got; got != want {
		t.Errorf("%x, want %x", got, want)
	}
}

// TestRunIsTheFirst: a service may have several directories of its own.
func TestRunIsTheFirst(t *testing.T) {
	t.Setenv("RUNTIME_DIRECTORY", "/run/a:/run/b")
	if got := (Config{Dir: "/d"}).filled().Run; got != "/run/a" {
		t.Error(got)
	}
}

// TestDiskFailsAtItsFirstStart: a disk that is named for the first time and fails before it says what it is may have blocks. When it is not there at the next start, no new store is made in its place.
func TestDiskFailsAtItsFirstStart(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	c := Config{Dir: at("node"), Disks: []string{at("1")}, Upkeep: time.Hour, ScrubRate: -1, Run: t.TempDir()}
	closeNode(t, open(t, c))
	c.Disks = append(c.Disks, at("2"))
	bad := c
	bad.FS = &vfs.Faulty{FS: vfs.OS{}, Fail: func(op vfs.Op) error {
		if strings.HasPrefix(op.Name, at("2")) {
			return unix.EIO
		}
		return nil
	}}
	for _, c := range []Config{bad, c} {
		n := open(t, c)
		if v := n.Blocks.Volumes()[1]; v.Unseen == nil || v.Identified {
			t.Errorf("it is taken for a new one: %+v", v)
		}
		closeNode(t, n)
	}
}
