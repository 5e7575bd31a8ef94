package proc_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"headrace/proc"
)

// program is a real program whose output must not depend on what is done to it.
type program struct {
	name string
	argv []string // DIR stands for a fresh directory
	need []string // a command that succeeds where the program can run
}

func programs(t *testing.T) []program {
	dir, err := filepath.Abs("testdata/programs")
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	return []program{
		{"shell tree", []string{"/bin/bash", at("tree.sh")}, []string{"/bin/bash", "-c", "awk 1 </dev/null"}},
		{"python threads", []string{"/usr/bin/python3", at("threads.py")}, []string{"/usr/bin/python3", "-V"}},
		{"numpy", []string{"/usr/bin/python3", at("matrix.py")}, []string{"/usr/bin/python3", "-c", "import numpy"}},
		{"java", []string{"java", "-Xmx128m", at("Tree.java")}, []string{"java", "-version"}},
		{"tcp server", []string{"/usr/bin/python3", at("server.py")}, []string{"/usr/bin/python3", "-V"}},
		{"sqlite", []string{"/usr/bin/python3", at("database.py"), "DIR"}, []string{"/usr/bin/python3", "-c", "import sqlite3"}},
		{"files", []string{"/usr/bin/python3", at("files.py"), "DIR"}, []string{"/usr/bin/python3", "-V"}},
		{"stubborn", []string{"/usr/bin/python3", at("stubborn.py")}, []string{"/usr/bin/python3", "-V"}},
	}
}

// TestMatrix runs real programs through suspend, checkpoint and restore, twice,
// and compares what they print and how they end to an undisturbed run.
func TestMatrix(t *testing.T) {
	for _, p := range programs(t) {
		t.Run(p.name, func(t *testing.T) {
			w := newWorld(t).needCheckpoints()
			if out, err := exec.Command(p.need[0], p.need[1:]...).CombinedOutput(); err != nil {
				t.Skipf("this machine cannot run it: %v: %s", err, out)
			}
			calm := w.program(p, "calm")
			want := w.end(w.start(calm))
			disturbed := w.program(p, "disturbed")
			got := w.disturb(disturbed)
			if got.Code != want.Code || got.Signal != want.Signal {
				t.Errorf("ended with %+v, undisturbed with %+v", got, want)
			}
			for _, f := range []string{"stdout", "stderr"} {
				if g, u := w.log("disturbed", f), w.log("calm", f); g != u {
					t.Errorf("%s is\n%s\nundisturbed it is\n%s", f, g, u)
				}
			}
			if n := len(w.taskProcesses("disturbed")); n != 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
}

func (w *world) program(p program, id string) proc.Spec {
	argv := append([]string{}, p.argv...)
	for i := range argv {
		if argv[i] == "DIR" {
			argv[i] = w.TempDir()
		}
	}
	return w.spec(id, argv...)
}

// disturb suspends, checkpoints and restores a task, and once more from the
// suspended state, while it takes its steps: the last of them when it is to end.
func (w *world) disturb(s proc.Spec) proc.Exit {
	w.Helper()
	task := w.start(s)
	for _, step := range []int{4, 12} {
		w.awaitOutput(task, fmt.Sprintf("step %d ", step))
		_, err := task.Suspend(w.ctx, 0)
		w.must(err)
		w.must(task.Resume(w.ctx))
		w.awaitOutput(task, fmt.Sprintf("step %d ", step+2))
		w.checkpoint(task)
		task = w.restore(s, proc.RestoreOptions{})
		w.awaitOutput(task, fmt.Sprintf("step %d ", step+4))
		_, err = task.Suspend(w.ctx, 0)
		w.must(err)
		w.checkpoint(task)
		task = w.restore(s, proc.RestoreOptions{})
	}
	return w.end(task)
}
