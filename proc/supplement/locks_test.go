//go:build amd64

package supplement

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/testkit"
)

// A process that cannot be had to make calls loses its locks, and that is all: those of others are taken.
func TestTakeLocks(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("there is no gcc: ", err)
	}
	without := filepath.Join(t.TempDir(), "int80")
	if out, err := exec.Command("gcc", "-O1", "-static", "-nostdlib", "-no-pie", "-fno-stack-protector", "-mno-red-zone", "-fcf-protection=none", "-Wl,-N", "-Wl,--no-warn-rwx-segments",
		"-o", without, "../../internal/linux/testdata/int80.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, out)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stopped := func(command ...string) int {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stdin = file
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
			t.Fatalf("%v does not begin: %v", command, err)
		}
		if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		testkit.Await(t, "stop", func() bool {
			st, err := linux.ProcFS("").Stat(cmd.Process.Pid)
			return err == nil && st.State == 'T'
		})
		return cmd.Process.Pid
	}
	stops := []string{"sh", "-c", "echo; kill -STOP $$"}
	one, other := stopped(without, "without"), stopped(stops...)
	lock := func(pid int, start int64) Lock {
		return Lock{Descriptor: linux.Descriptor{PID: pid, FD: 0}, Type: unix.F_WRLCK, Start: start, Len: 1}
	}
	lost, err := TakeLocks([]Lock{lock(other, 1), lock(one, 2), lock(other, 3), lock(one, 4)})
	if err != nil || len(lost) != 1 || !strings.Contains(lost[0].Error(), "on files that it has mapped") {
		t.Errorf("lost %v, %v", lost, err)
	}
	for at, want := range []int{0, other, 0, other, 0} {
		l := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(at), Len: 1}
		if err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &l); err != nil || want != 0 && int(l.Pid) != want || want == 0 && l.Type != unix.F_UNLCK {
			t.Errorf("byte %d: %+v, %v, want a lock of %d", at, l, err, want)
		}
	}
	if _, err := TakeLocks([]Lock{lock(stopped(stops...), 1)}); err == nil || !strings.Contains(err.Error(), "another process has taken it") {
		t.Errorf("a lock that another one has: %v", err)
	}
}
