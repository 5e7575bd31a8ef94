package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// GoDown does to the processes that have a directory in their command line or environment
// what an orderly shutdown of the machine does to all (systemd-shutdown, killall5): they are
// stopped, get a SIGTERM, and go on. It returns how many there were.
func GoDown(t testing.TB, dir string) int {
	t.Helper()
	all, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")) // it may have gone
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if strings.Contains(string(line)+"\x00"+string(env)+"\x00", dir) {
			pids = append(pids, pid)
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGTERM, syscall.SIGCONT} {
		for _, pid := range pids {
			syscall.Kill(pid, sig)
		}
	}
	return len(pids)
}

// Descriptors counts the open descriptors of this process.
func Descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// AsOrdinaryUser runs tests of this package once more as a user without rights (65534),
// with flags of go test without their "test.". That one named must is among those that
// have passed says that they were run at all.
func AsOrdinaryUser(t testing.TB, must string, flags ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("all tests run as an ordinary user already")
	}
	dir := OpenDir(t)
	binary := filepath.Join(dir, "its.test")
	b, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(binary, b, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v"}
	for _, f := range flags {
		args = append(args, "-test."+f)
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=" + dir, "HOME=" + dir, ShimEnv + "=" + Shim(t)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+must) {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
}
