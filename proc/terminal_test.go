package proc_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"headrace"
	"headrace/proc"
)

// CRIU writes what is queued in a terminal back while nobody reads it, and a terminal
// for people changes it a second time. What would not fit, or not come back as it was,
// is not dumped; the task goes on as it was, and can be dumped when it has read.
func TestTerminalWithUnreadOutput(t *testing.T) {
	program, err := filepath.Abs("testdata/programs/ptyqueue.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode    string
		size    int
		refused bool
	}{
		{"raw", 800, false}, {"raw", 4088, false},
		{"raw", 4096, true}, {"raw", 8000, true}, {"raw", 32000, true}, {"cooked", 80, true}, {"cooked", 100000, true},
	} {
		t.Run(fmt.Sprintf("%s %d", c.mode, c.size), func(t *testing.T) {
			w := newWorld(t).needCheckpoints()
			gate := filepath.Join(t.TempDir(), "gate")
			s := w.spec("pty", "python3", program, c.mode, strconv.Itoa(c.size), gate)
			task := w.start(s)
			w.awaitOutput(task, "queued")
			_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
			if c.refused {
				if !errors.Is(err, proc.ErrCheckpointLater) || !strings.Contains(err.Error(), "terminal") {
					t.Fatalf("checkpoint: %v", err)
				}
				if st := w.stats(task); st.State != headrace.Running {
					t.Errorf("after the refusal it is %v", st.State)
				}
			} else {
				w.must(err)
				task = w.restore(s, proc.RestoreOptions{})
			}
			w.must(os.WriteFile(gate, nil, 0o600))
			w.awaitOutput(task, "right")
			if e := w.end(task); e.Code != 0 {
				t.Errorf("ended with %+v", e)
			}
		})
	}
}

// A chatty program under script(1) goes through checkpoints at any moment.
func TestScript(t *testing.T) {
	script, err := exec.LookPath("script")
	if err != nil {
		t.Skip(err)
	}
	w := newWorld(t).needCheckpoints()
	const lines, cycles = 300, 6
	s := w.spec("script", script, "-qec",
		fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); echo "line $i of many"; sleep 0.01
			[ $i != %d ] || until [ -e "$GO_ON" ]; do sleep 0.01; done; done`, lines, lines*2/3), "/dev/null")
	task := w.start(s)
	w.awaitOutput(task, "line 3 of")
	done := 0
	for range cycles {
		_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
		if errors.Is(err, proc.ErrCheckpointLater) {
			continue
		}
		w.must(err)
		done++
		task.Close()
		task = w.restore(s, proc.RestoreOptions{})
	}
	if done == 0 {
		t.Error("it was never checkpointed")
	}
	if e := w.end(task); e.Code != 0 {
		t.Errorf("ended with %+v", e)
	}
	out := w.log("script", "stdout")
	for i := 1; i <= lines; i++ {
		if n := strings.Count(out, fmt.Sprintf("line %d of many\r\n", i)); n != 1 {
			t.Errorf("line %d is there %d times after %d checkpoints", i, n, done)
		}
	}
}
