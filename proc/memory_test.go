package proc_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

// filled is a program that fills memory with what cannot be compressed or
// shared, says ready, and checks it when a file appears.
const filled = `
import hashlib, os, random, sys, time
b = bytearray(random.Random(7).randbytes(%d << 20))
d = hashlib.md5(b).hexdigest()
print("ready", flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.005)
print("same" if hashlib.md5(b).hexdigest() == d else "DIFFERENT")
`

// withSwap adds a swap file for the test, or skips it.
func (w *world) withSwap(size int64) {
	w.Helper()
	if os.Geteuid() != 0 {
		w.Skip("swap needs root")
	}
	dir, err := os.MkdirTemp("/var/tmp", "headrace-swap-test")
	w.must(err)
	path := filepath.Join(dir, "swap")
	w.Cleanup(func() {
		exec.Command("swapoff", path).Run() // it may never have been on
		os.RemoveAll(dir)
	})
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	w.must(err)
	err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	f.Close()
	if err != nil {
		w.Skipf("no room for a swap file: %v", err)
	}
	for _, argv := range [][]string{{"mkswap", path}, {"swapon", path}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			w.Skipf("swap cannot be added here: %v: %v: %s", argv, err, out)
		}
	}
}

func TestPageOutAndIn(t *testing.T) {
	w := newWorld(t)
	w.withSwap(400 << 20)
	file := filepath.Join(t.TempDir(), "go")
	task := w.start(w.spec("t", "python3", "-c", fmt.Sprintf(filled, 150), file))
	w.awaitOutput(task, "ready")
	if _, err := task.PageOut(w.ctx, 1<<20); err == nil {
		t.Error("memory of a running task was paged out")
	}
	_, err := task.Suspend(w.ctx, 0)
	w.must(err)
	const want = 64 << 20
	before := w.stats(task)
	moved, err := task.PageOut(w.ctx, want)
	w.must(err)
	after := w.stats(task)
	if moved < want || moved > 3*want || after.Swapped < want*9/10 || before.Resident-after.Resident < want*9/10 {
		t.Errorf("asked for %d bytes, %d moved; before %+v, after %+v", want, moved, before, after)
	}
	if _, err := task.PageIn(w.ctx); err != nil {
		t.Error(err)
	}
	w.must(task.Resume(w.ctx))
	w.must(os.WriteFile(file, nil, 0o644))
	w.end(task)
	if out := w.log("t", "stdout"); out != "ready\nsame\n" {
		t.Errorf("printed %q", out)
	}
}

// When swap is full, what does not fit stays in memory and nothing is lost.
func TestPageOutToFullSwap(t *testing.T) {
	w := newWorld(t)
	m, err := linux.ProcFS("").MemInfo()
	w.must(err)
	if m.SwapTotal > 0 {
		t.Skip("this machine has swap of its own, which the test would have to fill")
	}
	w.withSwap(40 << 20)
	file := filepath.Join(t.TempDir(), "go")
	task := w.start(w.spec("t", "python3", "-c", fmt.Sprintf(filled, 150), file))
	w.awaitOutput(task, "ready")
	_, err = task.Suspend(w.ctx, 0)
	w.must(err)
	moved, err := task.PageOut(w.ctx, 1<<30)
	w.must(err)
	if areas, err := linux.ProcFS("").Swaps(); err != nil || len(areas) != 1 {
		t.Skipf("somebody else has added swap meanwhile: %v, %v", areas, err)
	}
	// Pages of zeros are given back without being written when a huge page is
	// split, and the kernel's counts are not exact to the page.
	if moved > 50<<20 {
		t.Errorf("%d bytes moved to 40 MB of swap", moved)
	}
	w.must(task.Resume(w.ctx))
	w.must(os.WriteFile(file, nil, 0o644))
	w.end(task)
	if out := w.log("t", "stdout"); out != "ready\nsame\n" {
		t.Errorf("printed %q", out)
	}
}

// A task that is partly swapped out can be checkpointed.
func TestCheckpointOfSwapped(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	w.withSwap(300 << 20)
	file := filepath.Join(t.TempDir(), "go")
	s := w.spec("t", "python3", "-c", fmt.Sprintf(filled, 100), file)
	task := w.start(s)
	w.awaitOutput(task, "ready")
	_, err := task.Suspend(w.ctx, 0)
	w.must(err)
	_, err = task.PageOut(w.ctx, 80<<20)
	w.must(err)
	w.checkpoint(task)
	task = w.restore(s, proc.RestoreOptions{})
	w.must(os.WriteFile(file, nil, 0o644))
	w.end(task)
	if out := w.log("t", "stdout"); out != "ready\nsame\n" {
		t.Errorf("printed %q", out)
	}
}

func TestMeasureSwap(t *testing.T) {
	w := newWorld(t)
	w.withSwap(200 << 20)
	s, err := w.rt.MeasureSwap(w.ctx, 32<<20)
	w.must(err)
	if s.Out < 1e6 || s.In < 1e6 || s.Out > 1e12 || s.In > 1e12 {
		t.Errorf("%+v bytes per second cannot be", s)
	}
	if _, err := w.rt.MeasureSwap(w.ctx, 7); err == nil {
		t.Error("measured with 7 bytes")
	}
}

// What a program has reserved may be more than the machine has memory, also where a restore makes it writable for a
// moment: in an image that has another one below it.
func TestReservedAddresses(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	s := w.spec("reserved", "python3", "-uc", `
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
m = libc.mmap(None, 1 << 40, 0, 0x22, -1, 0) # PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS
assert m != ctypes.c_void_p(-1).value
def take(at):
    assert libc.mprotect(m + at, 1 << 20, 3) == 0
    ctypes.memset(m + at, 7, 1 << 20)
take(1 << 30)
print("ready")
while not os.path.exists(sys.argv[1]): time.sleep(0.005)
take(2 << 30)
print(ctypes.string_at(m + (1 << 30), 1 << 20) == ctypes.string_at(m + (2 << 30), 1 << 20))
`, filepath.Join(t.TempDir(), "go"))
	task := w.start(s)
	w.awaitOutput(task, "ready")
	for range 3 {
		w.checkpoint(task)
		task = w.restore(s, proc.RestoreOptions{})
	}
	w.must(os.WriteFile(s.Argv[len(s.Argv)-1], nil, 0o600))
	if e := w.end(task); e.Code != 0 || w.log("reserved", "stdout") != "ready\nTrue\n" {
		t.Errorf("ended with %+v: %s", e, w.log("reserved", "stdout"))
	}
}
