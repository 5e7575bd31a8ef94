package crash

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		name string
		n    int64
	}{
		{"", "", 1}, {"a.b", "a.b", 1}, {"a.b:3", "a.b", 3}, {"a:0", "a:0", 1}, {"a:x", "a:x", 1}, {"a:b:2", "a:b", 2},
	} {
		if name, n := parse(c.in); name != c.name || n != c.n {
			t.Errorf("parse(%q) = %q, %d; want %q, %d", c.in, name, n, c.name, c.n)
		}
	}
}

func TestHere(t *testing.T) {
	if os.Getenv("CRASH_TEST_CHILD") != "" {
		Here("other")
		Here("here")
		os.Stdout.WriteString("once ")
		defer os.Stdout.WriteString("deferred ")
		Here("here")
		os.Exit(0)
	}
	for _, c := range []struct {
		env, out string
		killed   bool
	}{
		{"", "once ", false},
		{"elsewhere", "once ", false},
		{"here", "", true},
		{"here:2", "once ", true},
		{"here:3", "once ", false},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHere$")
		cmd.Env = append(os.Environ(), "CRASH_TEST_CHILD=1", Env+"="+c.env, "GORACE=atexit_sleep_ms=0")
		out, err := cmd.Output()
		if string(out) != c.out {
			t.Errorf("%s=%q: wrote %q, want %q", Env, c.env, out, c.out)
		}
		var exit *exec.ExitError
		killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		if killed != c.killed {
			t.Errorf("%s=%q: killed %v (%v), want %v", Env, c.env, killed, err, c.killed)
		}
	}
}

func TestHereAsFirstProcessOfAPidNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a pid namespace needs root")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestHere$")
	cmd.Env = append(os.Environ(), "CRASH_TEST_CHILD=1", Env+"=here")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 137 || len(out) != 0 {
		t.Errorf("wrote %q and ended with %v, want exit status 137 and nothing written", out, err)
	}
}
