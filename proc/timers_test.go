package proc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headrace/proc"
)

// Timers go on after a restore: periodic ones tick, others expire once and not
// before their time. Those of a task that was suspended first have unread ticks.
func TestTimersGoOn(t *testing.T) {
	t.Parallel()
	for _, suspended := range []bool{false, true} {
		t.Run(fmt.Sprintf("suspended first %t", suspended), func(t *testing.T) {
			w := newWorld(t).needCheckpoints()
			program, err := filepath.Abs("testdata/programs/timers.py")
			w.must(err)
			dir := t.TempDir()
			s := w.spec("timers", "python3", program, dir)
			task := w.start(s)
			for step := range 3 {
				w.awaitOutput(task, fmt.Sprintf("round %d\n", 3*step+1))
				if suspended {
					_, err := task.Suspend(w.ctx, 0)
					w.must(err)
				}
				w.checkpoint(task)
				task = w.restore(s, proc.RestoreOptions{})
				// The child writes again and again as long as its timer ticks.
				w.must(os.WriteFile(filepath.Join(dir, "child"), nil, 0o600))
				w.await("the child's timer", func() bool {
					b, err := os.ReadFile(filepath.Join(dir, "child"))
					return err == nil && len(b) > 0
				})
			}
			w.awaitOutput(task, "round 10\n")
			w.must(os.WriteFile(filepath.Join(dir, "end"), nil, 0o600))
			if e := w.end(task); e.Code != 0 {
				t.Errorf("ended with %+v", e)
			}
			out := w.log("timers", "stdout")
			if !strings.Contains(out, "once 1 at 1 read 0 never 0 unread 1\n") || strings.Contains(out, "early") {
				t.Errorf("it printed\n%s", out)
			}
		})
	}
}

// A signal that comes while CRIU dumps a task is there after the restore, once: that of a timer that has expired meanwhile,
// and of somebody who has sent it one.
func TestSignalsThatComeDuringADump(t *testing.T) {
	t.Parallel()
	const rounds = 6
	for name, signals := range map[string]int{"timers": 0, "timers and others when it is dumped": 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).needCheckpoints()
			program, err := filepath.Abs("testdata/programs/expiring.py")
			w.must(err)
			pid := filepath.Join(t.TempDir(), "pid")
			if signals > 0 { // the timers that are left expire before CRIU lets go of the task
				w.withAction("sleep 0.6; kill -USR1 $(cat " + pid + ")")
			}
			s := w.spec("expiring", "python3", program, pid)
			task := w.start(s)
			for n := range rounds {
				w.awaitOutput(task, fmt.Sprintf("armed %d\n", n))
				w.checkpoint(task)
				task = w.restore(s, proc.RestoreOptions{})
				w.must(os.WriteFile(fmt.Sprint(pid, ".", n), nil, 0o600)) // else the round may be over before it is dumped
				w.awaitOutput(task, fmt.Sprintf("round %d:", n))
			}
			if e := w.end(task); e.Code != 0 {
				t.Errorf("ended with %+v", e)
			}
			if out, want := w.log("expiring", "stdout"), fmt.Sprintf("alarm 1, usr1 %d, others once\n", signals); strings.Count(out, want) != rounds {
				t.Errorf("it printed\n%s", out)
			}
		})
	}
}
