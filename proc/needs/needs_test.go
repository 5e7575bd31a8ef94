package needs

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headrace/internal/testkit"
)

// TestObserve looks at a real process.
func TestObserve(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "touch read written gone; mkfifo pipe; exec 3<read 4>>written 5<gone 6<>pipe 7</dev/null; rm gone; echo ready; read x")
	cmd.Dir = dir
	out, _ := testkit.Converse(t, cmd)
	if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatal(line, err)
	}
	n, err := Observe([]int{cmd.Process.Pid})
	if err != nil {
		t.Fatal(err)
	}
	at := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join(dir, name))
		}
		return paths
	}
	if !slices.Equal(n.Open, at("", "pipe", "read", "written")) {
		t.Errorf("open: %q", n.Open)
	}
	if !slices.Equal(n.Writing, at("written")) {
		t.Errorf("writing: %q", n.Writing)
	}
	if !slices.ContainsFunc(n.Mapped, func(p string) bool { return strings.Contains(p, "/libc") }) || slices.ContainsFunc(n.Mapped, func(p string) bool { return p[0] != '/' }) {
		t.Errorf("mapped: %q", n.Mapped)
	}
	if gone, err := Observe([]int{1 << 30}); err != nil || len(gone.Open)+len(gone.Mapped) != 0 {
		t.Errorf("a process that has ended: %+v, %v", gone, err)
	}
}

func TestRealFile(t *testing.T) {
	for path, want := range map[string]bool{
		"/usr/bin/cat": true, "/srv/data (deleted)": false, "[stack]": false, "/memfd:x": false, "/dev/zero": false, "/proc/1/maps": false,
		"/dev/shm/x": true, "anon_inode:[eventpoll]": false,
	} {
		if realFile(path) != want {
			t.Errorf("%q: %v", path, !want)
		}
	}
}
