package proc_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/testkit"
)

// TestPositions: two processes of a task read a file, each with a descriptor of its own; a
// file that is only written to is none that it reads.
func TestPositions(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	in, out := testkit.File(t, dir, "in", 5000, 0o644), testkit.File(t, dir, "out", 1, 0o644)
	task := w.start(w.spec("t1", "/bin/sh", "-c", fmt.Sprintf(
		`(exec 7<%[1]s; dd bs=100 count=1 <&7 >/dev/null; exec sleep 60) & exec 7<%[1]s 8>>%[2]s; dd bs=1000 count=3 <&7 >&8; wait`, in, out)))
	idOf := func(path string) linux.FileID {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		return linux.FileID{Dev: uint64(st.Dev), Ino: st.Ino}
	}
	var at map[linux.FileID]int64
	testkit.Await(t, "the task is at 3000 of its file", func() bool {
		var err error
		if at, err = task.Positions(); err != nil {
			t.Fatal(err)
		}
		return at[idOf(in)] == 3000
	}, func() string { return fmt.Sprint(at) })
	if n, there := at[idOf(filepath.Join(dir, "out"))]; there {
		t.Errorf("a file that it writes is read, at %d", n)
	}
}
