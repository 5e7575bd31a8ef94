package proc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headrace/proc"
)

// What the command has left as daemons is in every checkpoint, not only in the
// first, with the same pids, groups and parents.
func TestDaemonsSurviveEveryCheckpoint(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	program, err := filepath.Abs("testdata/programs/daemon.py")
	w.must(err)
	dir := t.TempDir()
	s := w.spec("daemon", "python3", program, dir)
	task := w.start(s)
	w.awaitOutput(task, "ready")
	alive := func() {
		t.Helper()
		for _, name := range []string{"daemon", "child"} {
			before := w.lines(filepath.Join(dir, name))
			w.await(name, func() bool { return len(w.lines(filepath.Join(dir, name))) > len(before)+2 })
		}
	}
	alive()
	for range 3 {
		w.checkpoint(task)
		task = w.restore(s, proc.RestoreOptions{})
		alive()
	}
	w.must(os.WriteFile(filepath.Join(dir, "end"), nil, 0o600))
	if e := w.end(task); e.Code != 0 || !strings.Contains(w.log("daemon", "stdout"), "daemon and child") {
		t.Errorf("ended with %+v: %s", e, w.log("daemon", "stdout"))
	}
	for _, name := range []string{"daemon", "child"} {
		lines := w.lines(filepath.Join(dir, name))
		for _, l := range lines[2:] { // the first may be from before it was adopted
			if l != lines[2] {
				t.Fatalf("%s: pid, group and parent were %q and are %q", name, lines[2], l)
			}
		}
	}
}

// lines returns the complete lines of a file, none if there is no file.
func (w *world) lines(path string) []string {
	w.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		w.Fatal(err)
	}
	all := strings.Split(string(b), "\n")
	return all[:len(all)-1]
}
