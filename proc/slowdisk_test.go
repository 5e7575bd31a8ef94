package proc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// Of linux/fs.h.
const fiFreeze, fiThaw = 0xc0045877, 0xc0045878

// TestRunnerThatWaitsForADisk: our own runner has let go of its connection to the daemon
// when its task is suspended, however long a read took that it was in.
func TestRunnerThatWaitsForADisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	program, err := filepath.Abs("testdata/programs/runner.py")
	w.must(err)
	frozen := w.frozen()
	s := w.spec("runner", "python3", program, frozen.Name())
	task := w.start(s)
	w.awaitOutput(task, "ready")
	w.await("it to wait", func() bool {
		waits := false
		for _, pid := range w.taskPIDs("runner") {
			linux.ProcFS("").ThreadStates(pid, func(_ int, state byte) bool {
				waits = waits || state == 'D'
				return true
			})
		}
		return waits
	})
	var slow sync.WaitGroup
	defer slow.Wait()
	slow.Go(func() {
		time.Sleep(4 * time.Second) // longer than a runner is waited for
		unix.IoctlSetInt(int(frozen.Fd()), fiThaw, 0)
	})
	if _, err := task.Suspend(w.ctx, 0); err != nil {
		t.Fatal(err)
	}
	if out := w.log("runner", "stdout"); !strings.Contains(out, "let go") {
		t.Errorf("it was stopped before it had let go: %q", out)
	}
	w.must(task.Resume(w.ctx))
}

// frozen returns a file of a file system that keeps writers waiting.
func (w *world) frozen() *os.File {
	w.Helper()
	image, dir := filepath.Join(w.TempDir(), "image"), w.TempDir()
	w.must(os.WriteFile(image, nil, 0o600))
	w.must(os.Truncate(image, 32<<20))
	if out, err := exec.Command("mkfs.ext4", "-q", image).CombinedOutput(); err != nil {
		w.Skipf("mkfs.ext4: %v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		w.Skipf("there are no loop devices: %v: %s", err, out)
	}
	w.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	f, err := os.Create(filepath.Join(dir, "f"))
	w.must(err)
	w.must(unix.IoctlSetInt(int(f.Fd()), fiFreeze, 0))
	w.Cleanup(func() {
		unix.IoctlSetInt(int(f.Fd()), fiThaw, 0)
		f.Close()
	})
	return f
}
