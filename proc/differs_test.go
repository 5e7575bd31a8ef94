package proc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headrace/proc"
)

// What docs/checkpoint-fidelity.md says is kept is kept, and what it says is
// different is different: a row of that table that is no longer true fails here.
// What a kernel or machine does not have is passed over.
func TestTableOfWhatIsKept(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	program, err := filepath.Abs("testdata/programs/differs.py")
	w.must(err)
	dir := t.TempDir()
	s := w.spec("differs", "/usr/bin/python3", program, dir)
	task := w.start(s)
	w.awaitOutput(task, "ready")
	w.checkpoint(task)
	task = w.restore(s, proc.RestoreOptions{})
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	if e := w.end(task); e.Code != 0 {
		t.Fatalf("ended with %+v", e)
	}
	lost := map[string]bool{
		"personality": true, "memory policy": true, "memory merging": true, "machine check policy": true,
		"write or execute": true, "session keyring": true, "unread datagram": true,
		"memory locked when touched": true, "sealed memory": true, "directory notification": true, "Landlock": true,
		"name for a nameless file": true,
		"start time":               true, "processor time": true,
	}
	lines := strings.Split(strings.TrimSpace(w.log("differs", "stdout")), "\n")[1:]
	if len(lines) < len(lost)+10 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	for _, line := range lines {
		name, what, _ := strings.Cut(line, ": ")
		if want := map[bool]string{true: "lost", false: "kept"}[lost[name]]; what != want && what != "absent" {
			t.Errorf("%s is %s; the table says that it is %s", name, what, want)
		}
		if what == "absent" {
			t.Logf("%s: not on this machine", name)
		}
	}
}
