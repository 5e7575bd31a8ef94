package proc_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
)

// TestStartThatNeverEnds: a task that waits for its own output to be opened runs, and can be
// suspended, continued and ended as any other.
func TestStartThatNeverEnds(t *testing.T) {
	w := newWorld(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	w.must(unix.Mkfifo(fifo, 0o600))
	s := w.spec("t", "echo", "read at last")
	s.Output = fifo
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	task, err := w.rt.Start(ctx, s)
	w.must(err)
	_, err = task.Suspend(ctx, 0)
	w.must(err)
	if st := w.stats(task); st.State != headrace.Suspended {
		t.Errorf("it is %v", st.State)
	}
	w.must(task.Resume(ctx))
	if b, err := os.ReadFile(fifo); string(b) != "read at last\n" || err != nil {
		t.Errorf("it has written %q, %v", b, err)
	}
	if e := w.end(task); e.Code != 0 || e.StartError != "" {
		t.Errorf("ended with %+v", e)
	}
}
