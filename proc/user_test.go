package proc_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/testkit"
	"headrace/proc"
)

func TestRunsAsTheUser(t *testing.T) {
	w := newWorld(t)
	if os.Geteuid() != 0 {
		t.Skip("changing the user needs root")
	}
	secret := filepath.Join(t.TempDir(), "secret")
	w.must(os.WriteFile(secret, []byte("secret"), 0o600))
	s := w.spec("t", "/bin/sh", "-c", `id -u; id -g; id -G; echo 0.5 > $HEADRACE_PROGRESS_FILE; echo more >> /dev/stdout; cat `+secret)
	s.UID, s.GID, s.Groups = 12345, 12346, []uint32{12346, 12347}
	e := w.end(w.start(s))
	if got, want := w.log("t", "stdout"), "12345\n12346\n12346 12347\nmore\n"; got != want || e.Code != 1 {
		t.Errorf("printed %q (%+v), want %q and code 1: the file is root's", got, e, want)
	}
	s = w.spec("out", "true")
	s.UID, s.GID, s.Output = 12345, 12346, filepath.Join(filepath.Dir(secret), "created-by-root")
	if e := w.end(w.start(s)); e.Code != 126 {
		t.Errorf("an output file in a directory of root's: %+v", e)
	}
}

// TestNotTheUsersBeforeTheCommand: while a task waits for what its user has named, the user cannot get at a process that has
// other limits than the task. The command is the user's like any other.
func TestNotTheUsersBeforeTheCommand(t *testing.T) {
	w := newWorld(t)
	if os.Geteuid() != 0 {
		t.Skip("changing the user needs root")
	}
	s := w.spec("t", "/bin/sh", "-c", `ulimit -Hn; cat /proc/$$/environ >/dev/null && echo mine`)
	s.UID, s.GID, s.Groups = 12345, 12346, []uint32{12346}
	s.Limits = []proc.Limit{{Resource: unix.RLIMIT_NOFILE, Soft: 64, Hard: 64}}
	s.Output = filepath.Join(testkit.OpenDir(t), "fifo")
	w.must(unix.Mkfifo(s.Output, 0o600))
	w.must(os.Chown(s.Output, 12345, 12346))
	task := w.start(s)
	var pid int
	w.await("the process that opens the pipe", func() bool {
		for _, p := range w.taskProcesses("t") {
			calls, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", p.PID))
			for _, call := range calls {
				if b, _ := os.ReadFile(call); strings.HasPrefix(string(b), fmt.Sprint(unix.SYS_OPENAT, " ")) {
					pid = p.PID
				}
			}
		}
		return pid != 0
	})
	look := exec.Command("cat", fmt.Sprintf("/proc/%d/environ", pid)) // it takes the rights of a tracer
	look.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12346}}
	if out, err := look.CombinedOutput(); err == nil || !strings.Contains(string(out), "Permission denied") {
		t.Errorf("its user can trace it while it waits: %.40q, %v", out, err)
	}
	said, err := os.ReadFile(s.Output)
	w.must(err)
	if e := w.end(task); e.Code != 0 || string(said) != "64\nmine\n" {
		t.Errorf("the command says %q and ends with %+v", said, e)
	}
	s.ID, s.Output = "stdout", "/dev/stdout"
	if e := w.end(w.start(s)); e.Code != 0 || w.log("stdout", "stdout") != "64\nmine\n" {
		t.Errorf("with the output %s: %q, %+v", s.Output, w.log("stdout", "stdout"), e)
	}
}

// The shim itself, which has the daemon's rights until it becomes the user, does not
// obey the environment of the task: neither Go's settings nor the dynamic linker's.
func TestShimIgnoresTheEnvironmentOfTheTask(t *testing.T) {
	w := newWorld(t)
	s := w.spec("t", "printenv", "GODEBUG", "HEADRACE_CRASH", "LD_PRELOAD", proc.TaskIDEnv)
	s.Env = append(s.Env, "GODEBUG=inittrace=1,multipathtcp=0", "HEADRACE_CRASH=exec", "LD_PRELOAD=", proc.TaskIDEnv+"=other")
	e := w.end(w.start(s))
	if got, want := w.log("t", "stdout"), "inittrace=1,multipathtcp=0\nexec\n\nt\n"; got != want || e.Code != 0 {
		t.Errorf("the command has %q (%+v), want %q", got, e, want)
	}
	if said := w.log("t", "stderr"); said != "" {
		t.Errorf("Go's settings of the task reached the shim, which said:\n%s", said)
	}
}

// Without root there are no namespaces; what is possible still works.
func TestAsOrdinaryUser(t *testing.T) {
	testkit.AsOrdinaryUser(t, "TestSuspendResume", "run=Exit|CannotStart|Files|Suspend|Kill|Daemons|Usage|Progress|Attach|Resume|Refused|Spec")
}

// TestEndedTasksAreSmall: what a task with a large environment leaves is small, and it can be started anew and removed.
func TestEndedTasksAreSmall(t *testing.T) {
	w := newWorld(t)
	s := w.spec("t", "/bin/true")
	for i := range 10 {
		s.Env = append(s.Env, fmt.Sprintf("X%d=%s", i, strings.Repeat("\x01", 100_000)))
	}
	for range 2 {
		if e := w.end(w.start(s)); e.Code != 0 {
			t.Fatalf("ended with %+v", e)
		}
		w.must(w.rt.Conclude("t"))
		var size int64
		entries, err := os.ReadDir(w.rt.TaskDir("t"))
		w.must(err)
		for _, e := range entries {
			if st, err := e.Info(); err == nil { // else it has gone with the supervisor
				size += st.Size()
			}
		}
		if size > 64<<10 {
			t.Errorf("%d bytes are left of it", size)
		}
		left, err := w.rt.SpecOf("t")
		if w.must(err); len(left.Argv) != 1 || left.Argv[0] != "/bin/true" || left.UID != s.UID {
			t.Errorf("its spec is %+v", left)
		}
		w.must(w.rt.Conclude("t"))
		w.must(w.rt.Reset(w.ctx, s))
	}
	w.must(w.rt.Remove(w.ctx, "t"))
}

func TestSpecIsOwnerOnly(t *testing.T) {
	w := newWorld(t)
	task := w.start(w.spec("t", "/bin/true"))
	w.end(task)
	for _, f := range []string{"spec.json", "exit.json", "stdout", "stderr", "shim.sock", "shim.log"} {
		st, err := os.Stat(filepath.Join(w.rt.TaskDir("t"), f))
		w.must(err)
		if st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", f, st.Mode())
		}
	}
	var s proc.Spec
	w.must(json.Unmarshal([]byte(w.log("t", "spec.json")), &s))
}
