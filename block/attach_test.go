package block

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/testkit"
	"headrace/internal/vfs"
)

// TestDiskComesAndGoes: a disk that is unmounted is taken out, with nothing written to what is below it; when it is back, what it has is there again without a restart, and
// what has come in its place meanwhile stays, once. Writers that had begun are cut off. One that has failed is not taken for one that was away, and can be unmounted.
func TestDiskComesAndGoes(t *testing.T) {
	dir, mount, detach, unmount := testkit.ComingDisk(t)
	mount()
	other := t.TempDir()
	// Whole tells what a restart believes of a block that was being written.
	s := openReal(t, dir, Config{Since: always(7)})
	content := pattern(100_000)
	at := func(n int64) []byte { return content[n : n+50_000] }
	for id := int64(1); id <= 5; id++ {
		w := mustCreate(t, s, Block{id, 1}, uint64(id), 50_000)
		if err := errors.Join(w.Write(at(id), 0), w.Finalize(50_000), w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	open := mustCreate(t, s, Block{6, 1}, 6, 50_000)
	if err := errors.Join(open.Write(at(6), 0), open.Flush()); err != nil {
		t.Fatal(err)
	}
	attached := func() bool { return len(Attach(s)) == 1 }
	cause := func() error { return s.Volumes()[0].Cause }

	detach()
	if _, err := s.Create(Block{9, 1}, 250, 100, false); err == nil {
		t.Error("a block is made where no disk is")
	}
	if attached(); !errors.Is(cause(), ErrNotMounted) {
		t.Fatalf("it is in use: %v", cause())
	}
	if err := open.Write(at(6), 0); !errors.Is(err, ErrOut) {
		t.Error(err)
	}
	open.Close()
	if _, err := readAll(s, Block{1, 1}, 0, 50_000); !errors.Is(err, ErrOut) {
		t.Error(err)
	}
	if below, err := os.ReadDir(dir); err != nil || len(below) > 0 {
		t.Errorf("%v was written below it, %v", below, err)
	}
	if attached() {
		t.Error("it is back, and is not there")
	}

	mount()
	testkit.Await(t, "the disk to be in use", attached)
	for id := int64(1); id <= 5; id++ {
		if got, err := readAll(s, Block{id, 1}, 0, 50_000); err != nil || !bytes.Equal(got, at(id)) {
			t.Errorf("block %d: %v", id, err)
		}
	}
	if i, err := s.Stat(6); err != nil || i.State != Waiting || i.Length != 50_000 || i.Whole {
		t.Errorf("%+v, %v", i, err)
	}
	if i, err := s.Stat(5); err != nil || !i.Suspect {
		t.Errorf("what nobody made durable is believed to be there: %+v, %v", i, err)
	}
	w := mustCreate(t, s, Block{7, 1}, 7, 50_000)
	if err := errors.Join(w.Write(at(7), 0), w.Finalize(50_000), w.Close()); err != nil {
		t.Error(err)
	}

	// It fails, and stays there: nobody knows what of it is only in memory.
	failed := s.disks()[0]
	failed.takeOut(unix.EIO)
	for range 3 {
		if attached() {
			t.Fatal("a disk that has failed is in use")
		}
	}
	testkit.Await(t, "its files to be closed", func() bool { attached(); return unmount() == nil })
	if attached() {
		t.Error("it is back, and is not there")
	}
	mount()
	testkit.Await(t, "the disk to be in use again", attached)
	if got, err := readAll(s, Block{7, 1}, 0, 50_000); err != nil || !bytes.Equal(got, at(7)) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}

	// The next start knows that the disk was away.
	s = opened(t, Config{Dirs: []string{dir, other}, Since: always(7)})
	if i, err := s.Stat(6); err != nil || i.Whole {
		t.Errorf("%+v, %v", i, err)
	}
	// What comes in its place, on another disk, is there once when it is back.
	detach()
	attached()
	for id := int64(1); id <= 2; id++ {
		w := mustCopy(t, s, Block{id, uint64(id)}, uint64(id), at(id))
		if err := errors.Join(w.Finalize(50_000), w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	going := mustCopy(t, s, Block{3, 1}, 3, at(3))
	mount()
	testkit.Await(t, "the disk to be in use the third time", attached)
	if err := errors.Join(going.Finalize(50_000), going.Close()); err != nil {
		t.Error(err)
	}
	for id := int64(1); id <= 5; id++ {
		i, err := s.Stat(id)
		if got, rerr := readAll(s, i.Block, 0, 50_000); err != nil || rerr != nil || !bytes.Equal(got, at(id)) {
			t.Errorf("block %d: %v, %v", id, err, rerr)
		}
		if want := map[bool]string{true: other, false: dir}[id <= 3]; i.Dir != want {
			t.Errorf("block %d is in %s, want %s", id, i.Dir, want)
		}
	}
	if v := s.Volumes(); v[0].Replicas+v[1].Replicas != int64(s.Number()) {
		t.Errorf("%d replicas in the one, %d in the other, %d in all", v[0].Replicas, v[1].Replicas, s.Number())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// mustCopy makes a copy of a block, to be finished.
func mustCopy(t *testing.T, s *Store, b Block, file uint64, content []byte) *Writer {
	t.Helper()
	w, err := s.Create(b, file, int64(len(content)), true)
	if err == nil {
		err = w.Write(content, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestDiskComesDuringTheStart: a disk that was not mounted when the store was opened, and is when it is looked for the first time, is taken into use.
func TestDiskComesDuringTheStart(t *testing.T) {
	dir, mount, _, unmount := testkit.ComingDisk(t)
	mount()
	s := openReal(t, dir, Config{})
	mustWrite(t, s, Block{1, 1}, 1, []byte("what is on it"))
	if err := errors.Join(s.Close(), unmount()); err != nil {
		t.Fatal(err)
	}
	s = opened(t, Config{Dirs: []string{dir, t.TempDir()}, Known: []string{dir}})
	if v := s.Volumes()[0]; !errors.Is(v.Cause, ErrNotMounted) {
		t.Fatalf("%+v", v)
	}
	mount()
	testkit.Await(t, "the disk to be in use", func() bool { return len(Attach(s)) == 1 })
	if got, err := readAll(s, Block{1, 1}, 0, 13); err != nil || string(got) != "what is on it" {
		t.Errorf("%q, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestDiskFailsWhenItIsBack: a disk that comes back and fails while it is opened has not lost what it had: that is out of use, and there again with the disk.
func TestDiskFailsWhenItIsBack(t *testing.T) {
	dir, mount, detach, unmount := testkit.ComingDisk(t)
	mount()
	var fail atomic.Pointer[func(vfs.Op) error]
	fs := &vfs.Faulty{FS: vfs.OS{}, Fail: func(op vfs.Op) error {
		if f := fail.Load(); f != nil {
			return (*f)(op)
		}
		return nil
	}}
	s := openReal(t, dir, Config{})
	content := pattern(50_000)
	for id := int64(1); id <= 2; id++ { // the first is found before the disk fails, the second after that
		w := mustCreate(t, s, Block{id, 1}, uint64(id), 60_000)
		must(t, errors.Join(w.Write(content, 0), w.Sync(), w.Close()))
	}
	must(t, s.Close())
	var out atomic.Int64 // it was told so often
	s = opened(t, Config{Dirs: []string{dir, t.TempDir()}, FS: fs, Out: func(_ string, cause error) {
		if errors.Is(cause, unix.EIO) {
			out.Add(1)
		}
	}})
	detach()
	if Attach(s); !errors.Is(s.Volumes()[0].Cause, ErrNotMounted) {
		t.Fatal(s.Volumes()[0].Cause)
	}
	failing := on(dir, "sync", unix.EIO)
	fail.Store(&failing)
	mount()
	testkit.Await(t, "the disk to fail again", func() bool {
		if len(Attach(s)) > 0 {
			t.Fatal("it is in use")
		}
		return errors.Is(s.Volumes()[0].Cause, unix.EIO)
	})
	testkit.Await(t, "that to be told", func() bool { return out.Load() == 1 })
	if v := s.Volumes()[0]; !errors.Is(v.Unseen, unix.EIO) {
		t.Errorf("what it has counts as known: %v", v.Unseen)
	}
	for id := int64(1); id <= 2; id++ {
		if _, err := s.Stat(id); !errors.Is(err, ErrOut) {
			t.Errorf("block %d: %v", id, err)
		}
	}
	fail.Store(nil)
	testkit.Await(t, "its files to be closed", func() bool { Attach(s); return unmount() == nil })
	Attach(s)
	mount()
	testkit.Await(t, "the disk to be in use", func() bool { return len(Attach(s)) == 1 })
	for id := int64(1); id <= 2; id++ {
		if got, err := readAll(s, Block{id, 1}, 0, 50_000); err != nil || !bytes.Equal(got, content) {
			t.Errorf("block %d: %d bytes, %v", id, len(got), err)
		}
	}
	if v := s.Volumes()[0]; v.Cause != nil || v.Unseen != nil || s.Number() != 2 {
		t.Errorf("%v, %v, %d replicas", v.Cause, v.Unseen, s.Number())
	}
	must(t, s.Close())
}

// TestAnotherDiskComes: an empty disk in the place of one with blocks is not used, and the log says once what is to be done.
func TestAnotherDiskComes(t *testing.T) {
	dir, mount, detach, unmount := testkit.ComingDisk(t)
	mount()
	must(t, openReal(t, dir, Config{}).Close())
	var log bytes.Buffer
	s := opened(t, Config{Dirs: []string{dir, t.TempDir()}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	detach()
	told := func() int {
		for range 3 {
			if len(Attach(s)) > 0 {
				t.Fatal("it is in use")
			}
		}
		return strings.Count(log.String(), "--new-disk")
	}
	if n := told(); n != 0 {
		t.Errorf("told %d times of a directory that is not mounted: %s", n, &log)
	}
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
	if n := told(); n != 1 {
		t.Errorf("told %d times: %s", n, &log)
	}
	must(t, unmount())
	told()
	mount()
	testkit.Await(t, "the disk to be in use", func() bool { return len(Attach(s)) == 1 })
	must(t, s.Close())
}
