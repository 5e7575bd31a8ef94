package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAsUserRights opens files as users who may and may not, from many
// goroutines at once, while the process itself keeps its rights.
func TestAsUserRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	dir := t.TempDir()
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if fi, err := os.Stat(d); err == nil && fi.Mode()&0o001 == 0 && d != os.TempDir() {
			os.Chmod(d, 0o755)
		}
	}
	secret, shared, group := filepath.Join(dir, "secret"), filepath.Join(dir, "shared"), filepath.Join(dir, "group")
	for p, mode := range map[string]os.FileMode{secret: 0o600, shared: 0o644, group: 0o640} {
		if err := os.WriteFile(p, []byte("x"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(group, 0, 4321); err != nil {
		t.Fatal(err)
	}
	open := func(c Credentials, p string) error {
		return AsUser(c, func() error {
			f, err := os.Open(p)
			if err == nil {
				f.Close()
			}
			return err
		})
	}
	user, member := Credentials{UID: 12345, GID: 12345}, Credentials{UID: 12346, GID: 12346, Groups: []uint32{4321}}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				if err := open(user, secret); !errors.Is(err, fs.ErrPermission) {
					t.Errorf("a stranger opened the owner's file: %v", err)
				}
				if err := open(user, shared); err != nil {
					t.Error(err)
				}
				if err := open(user, group); !errors.Is(err, fs.ErrPermission) {
					t.Errorf("a stranger opened the group's file: %v", err)
				}
				if err := open(member, group); err != nil {
					t.Errorf("a member of the group: %v", err)
				}
				if err := open(Credentials{}, secret); err != nil {
					t.Errorf("root: %v", err)
				}
				if f, err := os.Open(secret); err != nil {
					t.Errorf("the process lost its rights: %v", err)
				} else {
					f.Close()
				}
			}
		})
	}
	wg.Wait()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		st, err := os.ReadFile("/proc/self/task/" + e.Name() + "/status")
		if err != nil {
			continue
		}
		if got := fsUID(string(st)); got != "0" {
			t.Errorf("thread %s keeps the identity %s", e.Name(), got)
		}
	}
}

// TestAsUserIsOutOfReach: a thread with a user's file-system identity is not the user's, who can do nothing to it that can be done
// to a process which has become the user.
func TestAsUserIsOutOfReach(t *testing.T) {
	if target := os.Getenv(reachEnv); target != "" {
		tryReach(target)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "hr-reach-") // where that user may pass
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "program")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(program, self, 0o755)); err != nil {
		t.Fatal(err)
	}
	user := Credentials{UID: 12345, GID: 12345}
	of := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user.UID, Gid: user.GID}}
	reached := func(pid, tid int) string {
		t.Helper()
		cmd := exec.Command(program, "-test.run=^TestAsUserIsOutOfReach$")
		cmd.Env, cmd.Dir, cmd.SysProcAttr = []string{fmt.Sprintf("%s=%d %d", reachEnv, pid, tid)}, "/", of
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		could, _, _ := strings.Cut(string(out), "PASS")
		return could
	}
	tid, over, done := make(chan int), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- AsUser(user, func() error {
			tid <- unix.Gettid()
			<-over
			return nil
		})
	}()
	thread := <-tid
	if st, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", thread)); err != nil || fsUID(string(st)) != "12345" {
		t.Errorf("thread %d: %v\n%s", thread, err, st)
	}
	if could := reached(os.Getpid(), thread); could != "" {
		t.Errorf("what the user can do to the thread:\n%s", could)
	}
	close(over)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	process := exec.Command("/bin/sleep", "1000")
	process.Dir, process.SysProcAttr = "/", of
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer process.Wait()
	defer process.Process.Kill()
	if could := reached(process.Process.Pid, process.Process.Pid); strings.Count(could, "\n") != len(reaches) {
		t.Errorf("what the user can do to a process of the same user:\n%s", could)
	}
}

// reachEnv names the process and the thread that the test binary is to reach, as a user.
const reachEnv = "HEADRACE_TEST_REACH"

// reaches are ways to have an effect on a thread, or to see what it has.
var reaches = []struct {
	what string
	try  func(pid, tid int) error
}{
	{"send its process signals", func(pid, _ int) error { return unix.Kill(pid, 0) }},
	{"send it signals", func(pid, tid int) error { return unix.Tgkill(pid, tid, 0) }},
	{"limit it", func(_, tid int) error { return unix.Prlimit(tid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil) }},
	{"make it wait for others", func(_, tid int) error { return unix.Setpriority(unix.PRIO_PROCESS, tid, 19) }},
	{"choose its processors", func(_, tid int) error {
		var set unix.CPUSet
		err := unix.SchedGetaffinity(tid, &set)
		return errors.Join(err, unix.SchedSetaffinity(tid, &set))
	}},
	{"list its descriptors", func(_, tid int) error { _, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", tid)); return err }},
	{"read its environment", func(_, tid int) error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", tid)); return err }},
	{"go where it is", func(_, tid int) error { _, err := os.Stat(fmt.Sprintf("/proc/%d/cwd/", tid)); return err }},
	{"open its memory", func(_, tid int) error { return opens(fmt.Sprintf("/proc/%d/mem", tid), os.O_RDWR) }},
	{"have it killed first", func(_, tid int) error { return opens(fmt.Sprintf("/proc/%d/oom_score_adj", tid), os.O_WRONLY) }},
	{"take a descriptor", func(pid, _ int) error {
		process, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			_, err = unix.PidfdGetfd(process, 0, 0)
		}
		return err
	}},
	{"trace it", func(_, tid int) error { return unix.PtraceSeize(tid) }}, // until this program ends
}

// tryReach says which of them succeed.
func tryReach(target string) {
	var pid, tid int
	if _, err := fmt.Sscan(target, &pid, &tid); err != nil {
		panic(err)
	}
	runtime.LockOSThread()
	for _, r := range reaches {
		if r.try(pid, tid) == nil {
			fmt.Println(r.what)
		}
	}
}

func opens(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0)
	if err == nil {
		f.Close()
	}
	return err
}

func fsUID(status string) string {
	for line := range strings.Lines(status) {
		if f := strings.Fields(line); len(f) == 5 && f[0] == "Uid:" {
			return f[4]
		}
	}
	return "?"
}

func TestAsUserNeedsRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may act as anybody")
	}
	if err := AsUser(Credentials{UID: 0}, func() error { return nil }); err == nil {
		t.Error("an ordinary user acted as root")
	}
	called := false
	if err := AsUser(Credentials{UID: uint32(unix.Geteuid())}, func() error { called = true; return nil }); err != nil || !called {
		t.Error("a user cannot act as itself", err)
	}
}
