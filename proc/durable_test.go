package proc_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"headrace/proc"
)

// unwritten counts the pages of a file that are in memory only (cachestat(2)),
// or skips the test where that cannot be told.
func (w *world) unwritten(path string) uint64 {
	w.Helper()
	const sysCachestat = 451
	f, err := os.Open(path)
	w.must(err)
	defer f.Close()
	var fs unix.Statfs_t
	w.must(unix.Fstatfs(int(f.Fd()), &fs))
	if fs.Type == unix.TMPFS_MAGIC {
		w.Skip("files in memory are never written")
	}
	var whole struct{ off, length uint64 }
	var stat struct{ cache, dirty, writeback, evicted, recentlyEvicted uint64 }
	_, _, errno := unix.Syscall6(sysCachestat, f.Fd(), uintptr(unsafe.Pointer(&whole)), uintptr(unsafe.Pointer(&stat)), 0, 0, 0)
	if errors.Is(errno, unix.ENOSYS) || errors.Is(errno, unix.EPERM) {
		w.Skipf("cachestat, which came with Linux 6.5: %v", errno)
	}
	if errno != 0 {
		w.Fatal(errno)
	}
	return stat.dirty + stat.writeback
}

// What a task has written before its checkpoint outlives a power failure as the
// checkpoint does, in its logs and in the files that it has open.
func TestCheckpointMakesFilesDurable(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	own := filepath.Join(t.TempDir(), "own")
	s := w.spec("writer", "python3", "-uc", `
import os, sys, time
f = open(sys.argv[1], "a", buffering=1)
kernel = open("/proc/self/comm", "r+") # cannot be synced
removed = open(sys.argv[1] + ".removed", "a", buffering=1)
os.remove(sys.argv[1] + ".removed")
for out in f, removed, sys.stderr, sys.stdout: print("x" * 100000, "ready", file=out)
while True: time.sleep(1)
`, own)
	task := w.start(s)
	w.awaitOutput(task, "ready")
	files := []string{own, filepath.Join(w.rt.TaskDir("writer"), "stdout"), filepath.Join(w.rt.TaskDir("writer"), "stderr")}
	for _, f := range files {
		t.Logf("%s: %d pages in memory only before the checkpoint", f, w.unwritten(f))
	}
	w.checkpoint(task)
	for _, f := range files {
		if n := w.unwritten(f); n != 0 {
			t.Errorf("%s: %d pages are in memory only after the checkpoint", f, n)
		}
	}
	w.restore(s, proc.RestoreOptions{})
}

// TestEndOnAFullDisk: how a task ended is written down when there is room again, by init
// and by its supervisor.
func TestEndOnAFullDisk(t *testing.T) {
	w := newWorld(t)
	if os.Geteuid() != 0 {
		t.Skip("a disk of its own needs root")
	}
	disk := t.TempDir()
	w.must(unix.Mount("tmpfs", disk, "tmpfs", 0, "mode=711,size=64m"))
	defer unix.Unmount(disk, unix.MNT_DETACH)
	w.rt.Dir = filepath.Join(disk, "tasks")
	task := w.start(w.spec("t", "/bin/sh", "-c", `echo ready; read x < "$0"; exit 7`, w.fifo("go")))
	w.awaitOutput(task, "ready")
	filler, err := os.Create(filepath.Join(disk, "filler"))
	w.must(err)
	defer filler.Close()
	for _, err = filler.Write(make([]byte, 4096)); err == nil; _, err = filler.Write(make([]byte, 4096)) {
	}
	w.must(os.WriteFile(w.fifo("go"), []byte("x\n"), 0))
	w.await("the end of the command", func() bool { return len(w.taskProcesses("t")) == 0 })
	select {
	case <-task.Exited():
		t.Errorf("it has ended without a record: %+v", task.Exit())
	case <-time.After(500 * time.Millisecond): // nothing must happen
	}
	w.must(filler.Truncate(0))
	if e := w.end(task); e.Code != 7 || e.Lost {
		t.Errorf("ended with %+v, want code 7", e)
	}
	w.must(w.rt.Remove(w.ctx, "t"))
}

// fifo returns a named pipe of the test.
func (w *world) fifo(name string) string {
	w.Helper()
	path := filepath.Join(filepath.Dir(w.store), name)
	if err := unix.Mkfifo(path, 0o600); err != nil && !os.IsExist(err) {
		w.Fatal(err)
	}
	return path
}
