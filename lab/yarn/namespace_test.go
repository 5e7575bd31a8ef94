package yarn

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// testMachine skips the test where there can be none.
func testMachine(t *testing.T, own, home string) *namespace {
	t.Helper()
	m := &namespace{}
	err := m.mount(bind{own, home})
	if errors.Is(err, unix.EPERM) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.close() })
	return m
}

// has reports whether a process is on the machine, with a mount namespace of its own
// perhaps, by the directory that the machine has at home.
func (m *namespace) has(pid int, own string) bool {
	there, err := os.Stat(filepath.Join(fmt.Sprintf("/proc/%d/root", pid), m.home))
	if err != nil {
		return false
	}
	here, err := os.Stat(own)
	return err == nil && os.SameFile(there, here)
}

// Two machines have different files at the same path, and this process has neither.
func TestMachines(t *testing.T) {
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	names := []string{"a", "b"}
	for _, d := range append(names, "home") {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var machines []*namespace
	for _, name := range names {
		m := testMachine(t, filepath.Join(dir, name), home)
		machines = append(machines, m)
		err := m.do(func() error { return os.WriteFile(filepath.Join(home, "name"), []byte(name), 0o644) })
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range machines {
		own := filepath.Join(dir, names[i])
		if text := must(os.ReadFile(filepath.Join(own, "name")))(t); string(text) != names[i] {
			t.Errorf("on machine %s the file has %q", names[i], text)
		}
		cmd := exec.Command("sh", "-c", "cat name; read x")
		cmd.Dir = home
		in := must(cmd.StdinPipe())(t)
		out := new(strings.Builder)
		cmd.Stdout = out
		if err := m.do(cmd.Start); err != nil {
			t.Fatal(err)
		}
		for j, other := range names {
			if has := m.has(cmd.Process.Pid, filepath.Join(dir, other)); has != (i == j) {
				t.Errorf("a process of machine %s is on %s: %v", names[i], other, has)
			}
		}
		in.Close()
		cmd.Wait()
		if out.String() != names[i] {
			t.Errorf("a process of machine %s has read %q", names[i], out)
		}
	}
	if left := must(os.ReadDir(home))(t); len(left) > 0 {
		t.Errorf("of the machines is seen elsewhere: %v", left)
	}
	if mounts := must(linux.ProcFS("").MountedIn("self", dir))(t); len(mounts) > 0 {
		t.Errorf("mounts of the machines are seen elsewhere: %v", mounts)
	}
}

// A mount on a machine that nobody has undone is found, and ends with the machine.
func TestMachineMounts(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"own", "home", "more"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := testMachine(t, filepath.Join(dir, "own"), filepath.Join(dir, "home"))
	if mounts := must(m.mounts(dir))(t); len(mounts) > 0 {
		t.Errorf("a new machine has %v", mounts)
	}
	more := filepath.Join(dir, "more")
	if err := m.do(func() error { return unix.Mount("tmpfs", more, "tmpfs", 0, "size=1m") }); err != nil {
		t.Fatal(err)
	}
	if mounts := must(m.mounts(dir))(t); len(mounts) != 1 || mounts[0] != more {
		t.Errorf("mounts of the machine: %v, want %s", mounts, more)
	}
	if mounts := must(linux.ProcFS("").MountedIn("self", dir))(t); len(mounts) > 0 {
		t.Errorf("mounts of the machine are seen elsewhere: %v", mounts)
	}
}
