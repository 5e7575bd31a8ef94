package proc_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"headrace/internal/testkit"
	"headrace/proc"
)

// TestSupervisors: the supervisor of a task is found whatever has become of the task's directory, and as long as it is there nothing of
// the task is begun again or given up. Who only calls itself so is none.
func TestSupervisors(t *testing.T) {
	w := newWorld(t)
	w.start(w.spec("t1", "sleep", "1000")).Close()
	if os.Geteuid() == 0 { // its depth in pid namespaces is not that of a supervisor; that of an ordinary user has none
		pose := exec.Command("/bin/sh", "supervise", "-dir", w.rt.TaskDir("t2"), "")
		pose.Dir = t.TempDir()
		if err := os.WriteFile(filepath.Join(pose.Dir, "supervise"), []byte("echo up; read x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		says, _ := testkit.Converse(t, pose)
		if _, err := says.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	all, err := w.rt.Supervisors()
	pid := all["t1"]
	if err != nil || pid == 0 || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	if err := os.Rename(w.rt.TaskDir("t1"), filepath.Join(t.TempDir(), "t1")); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"unreached": w.rt.Unreached("t1"), "end": w.rt.End(w.ctx, "t1"), "reset": w.rt.Reset(w.ctx, w.spec("t1", "sleep", "1"))} {
		if !errors.Is(err, proc.ErrNotNow) || !strings.Contains(err.Error(), "kill -KILL") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "the supervisor to be gone", func() bool { all, err = w.rt.Supervisors(); return err == nil && len(all) == 0 })
	if err := errors.Join(w.rt.Unreached("t1"), w.rt.End(w.ctx, "t1")); err != nil {
		t.Error(err)
	}
}
