package proc_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/proc"
)

// TestLogsThatAreStillOpen: a deleted log that somebody goes on writing to is where it can
// be found, and nobody's to open.
func TestLogsThatAreStillOpen(t *testing.T) {
	w := newWorld(t)
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user's logs are that user's disk")
	}
	s := w.spec("t", "echo", "text")
	s.UID, s.GID = 12345, 12345
	w.end(w.start(s))
	path := filepath.Join(w.rt.TaskDir("t"), "stdout")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	w.must(err)
	defer f.Close()
	w.must(w.rt.Reset(w.ctx, s))
	w.end(w.start(s))
	if got := w.log("t", "stdout"); got != "text\n" {
		t.Errorf("the next start wrote %q", got)
	}
	w.must(w.rt.Remove(w.ctx, "t"))
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(w.rt.Dir), proc.OpenLogs, "*"))
	if len(left) != 1 {
		t.Fatalf("left: %q", left)
	}
	_, err = f.WriteString("more")
	w.must(err)
	var st unix.Stat_t
	w.must(unix.Stat(left[0], &st))
	if st.Uid != 0 || st.Mode&0o777 != 0 || st.Size != int64(len("text\nmore")) {
		t.Errorf("it is of user %d, mode %o, %d bytes", st.Uid, st.Mode, st.Size)
	}
}
