package proc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headrace/internal/testkit"
	"headrace/proc"
)

// comesBack has a program that waits for the file go in its last argument checkpointed and restored, twice, and returns what it
// prints then.
func (w *world) comesBack(user uint32, program string) string {
	w.Helper()
	text, err := os.ReadFile("testdata/programs/" + program) // where another user may not read it
	w.must(err)
	dir := testkit.OpenDir(w.T)
	s := w.spec("sockets", "/usr/bin/python3", "-c", string(text), dir)
	s.UID, s.GID = user, user
	task := w.start(s)
	w.awaitOutput(task, "ready\n")
	for range 2 {
		w.checkpoint(task)
		task = w.restore(s, proc.RestoreOptions{})
	}
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	if e := w.end(task); e.Code != 0 {
		w.Fatalf("ended with %+v", e)
	}
	_, said, _ := strings.Cut(w.log("sockets", "stdout"), "ready\n")
	return said
}

// TestSocketOptions: sockets of each kind come back with the options that they had, and with no others.
func TestSocketOptions(t *testing.T) {
	for _, c := range []struct {
		name  string
		user  uint32
		least int // that a kernel of this decade has
	}{{"root's task", 0, 500}, {"another user's", otherUser, 400}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t).needCheckpoints()
			if c.user != 0 {
				needSysResource(t)
			}
			kept := 0
			for line := range strings.Lines(w.comesBack(c.user, "options.py")) {
				name, what, _ := strings.Cut(strings.TrimSpace(line), ": ")
				switch what, _, _ = strings.Cut(what, " "); what {
				case "kept":
					kept++
				case "absent":
				default:
					t.Errorf("%s", strings.TrimSpace(line))
				}
				if what == "absent" && testing.Verbose() {
					t.Logf("%s: not on this machine", name)
				}
			}
			if kept < c.least {
				t.Errorf("%d options were kept, want at least %d", kept, c.least)
			}
		})
	}
}

// TestMulticastGroups: who has joined a multicast group receives what is sent to it, of the same sources, after a restore too.
func TestMulticastGroups(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	said := w.comesBack(0, "groups.py")
	states, received, _ := strings.Cut(said, "received")
	if n := strings.Count(states, " same\n"); n != 28 || strings.Count(states, "\n") != n {
		t.Errorf("%d of 28 memberships are as they were:\n%s", n, states)
	}
	want := " 239.1.2.3 239.1.2.3\nreceived 239.1.2.4 239.1.2.4\nreceived 232.1.1.1 232.1.1.1\nreceived 239.9.9.9 end\nreceived by the other end 7\n"
	if received != want {
		t.Errorf("received%s\nwant%s", received, want)
	}
}
