package proc_test

import (
	"os"
	"path/filepath"
	"testing"

	"headrace/proc"
)

// Calls that wait do not end early because of a checkpoint, also not when the task
// was suspended and resumed during the same call.
func TestSleepsDoNotEndEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t).needCheckpoints()
	program, err := filepath.Abs("testdata/programs/sleeper.py")
	w.must(err)
	dir := t.TempDir()
	s := w.spec("sleeper", "python3", program, dir)
	task := w.start(s)
	w.awaitOutput(task, "ready")
	for i := range 6 {
		if i%2 == 1 {
			_, err := task.Suspend(w.ctx, 0)
			w.must(err)
			w.must(task.Resume(w.ctx))
		}
		w.checkpoint(task)
		task = w.restore(s, proc.RestoreOptions{})
	}
	w.must(os.WriteFile(filepath.Join(dir, "end"), nil, 0o600))
	if e := w.end(task); e.Code != 0 {
		t.Errorf("ended with %+v", e)
	}
	if got, want := w.log("sleeper", "stdout"), "ready\nearly: {}\n"; got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}
}
