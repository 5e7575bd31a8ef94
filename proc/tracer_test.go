package proc_test

import (
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"headrace/proc"
)

//go:embed testdata/programs/tracer.py
var tracer string // another user's run of this test cannot read the file

// TestResumeOfATracer: what a tracer within the task has stopped is not continued at a resume: the tracer, which is told of each signal, would
// be told of one that nobody has sent.
func TestResumeOfATracer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	goOn := filepath.Join(t.TempDir(), "go")
	task := w.start(w.spec("tracer", "python3", "-c", tracer, goOn))
	w.awaitOutput(task, "stopped\n")
	for range 2 {
		_, err := task.Suspend(w.ctx, 0)
		w.must(err)
		if _, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store}); !errors.Is(err, proc.ErrNotCheckpointable) && !errors.Is(err, proc.ErrUnsupported) {
			t.Errorf("checkpoint: %v", err)
		}
		w.must(task.Resume(w.ctx))
	}
	w.must(os.WriteFile(goOn, nil, 0o600))
	w.awaitOutput(task, "stopped\n[12] 3\n")
	if e := w.end(task); e.Code != 0 {
		t.Errorf("ended with %+v", e)
	}
}
