package proc_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/proc"
)

// TestAsynchronousIO: what is in flight of the kernel's asynchronous I/O has no place in a checkpoint: there is none
// while a request waits, and one that keeps what is answered and unread when it has ended.
func TestAsynchronousIO(t *testing.T) {
	for what, answer := range map[string]string{"poll": "[(7, 4), (8, 65)]", "write": "[(7, 4), (8, 4096)]"} {
		t.Run(what, func(t *testing.T) { asynchronousIO(t, what, answer) })
	}
}

func asynchronousIO(t *testing.T, what, answer string) {
	w := newWorld(t).needCheckpoints()
	program, err := filepath.Abs("testdata/programs/aio.py")
	w.must(err)
	dir, thaw := t.TempDir(), func() {}
	if what == "write" {
		dir, thaw = w.slowDisk()
	}
	sign := func(name string) { w.must(os.WriteFile(filepath.Join(dir, name), nil, 0o600)) }
	s := w.spec("aio", "python3", program, what, dir)
	task := w.start(s)
	w.awaitOutput(task, "in flight")
	refused := func(state headrace.TaskState) {
		t.Helper()
		took := time.Hour
		for tries := 0; took > 6*time.Second && tries < 5; tries++ { // a busy machine may take that long, not always
			begin := time.Now()
			_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
			if !errors.Is(err, proc.ErrCheckpointLater) || !strings.Contains(err.Error(), "1 requests of asynchronous I/O") {
				t.Fatalf("checkpoint with a request in flight: %v", err)
			}
			took = time.Since(begin)
		}
		if took > 6*time.Second { // it is tried six times, with a second for all of them
			t.Errorf("it took %v", took)
		}
		if st := w.stats(task); st.State != state {
			t.Errorf("the task is %v after the refusal, it was %v", st.State, state)
		}
	}
	refused(headrace.Running)
	_, err = task.Suspend(w.ctx, 0)
	w.must(err)
	refused(headrace.Suspended)
	w.must(task.Resume(w.ctx))
	thaw()
	if what == "write" { // nothing is in flight, and nothing has been read
		for range 3 {
			w.checkpoint(task)
			task = w.restore(s, proc.RestoreOptions{})
		}
	}
	sign("go")
	w.awaitOutput(task, answer+"\n")
	w.checkpoint(task)
	task = w.restore(s, proc.RestoreOptions{})
	sign("more")
	w.awaitOutput(task, "more [(0, 4), (1, 4), (2, 4)]\n")
	if e := w.end(task); e.Code != 0 {
		t.Errorf("ended with %+v", e)
	}
}

// slowDisk returns a directory of a file system on a disk that writes nothing until thaw is called. The disk is a file
// of a file system that is frozen.
func (w *world) slowDisk() (dir string, thaw func()) {
	w.Helper()
	below := filepath.Dir(w.frozen().Name())
	freeze := func(request uint) {
		d, err := os.Open(below)
		w.must(err)
		defer d.Close()
		w.must(unix.IoctlSetInt(int(d.Fd()), request, 0))
	}
	freeze(fiThaw)
	image, dir := filepath.Join(below, "image"), w.TempDir()
	w.must(os.WriteFile(image, make([]byte, 8<<20), 0o600))
	for _, c := range [][]string{{"mkfs.ext4", "-q", "-O", "^has_journal", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			w.Fatalf("%v: %v: %s", c, err, out)
		}
	}
	w.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	w.must(os.WriteFile(filepath.Join(dir, "file"), make([]byte, 4096), 0o600))
	for _, d := range []string{dir, below} {
		f, err := os.Open(d)
		w.must(err)
		w.must(unix.Syncfs(int(f.Fd())))
		f.Close()
	}
	freeze(fiFreeze)
	frozen := true
	thaw = func() {
		if frozen {
			freeze(fiThaw)
		}
		frozen = false
	}
	w.Cleanup(thaw)
	return dir, thaw
}
