package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/criu"
)

// findCriu skips the test, and says why, if there is no CRIU that can be used.
func findCriu(t *testing.T) string {
	if os.Geteuid() != 0 {
		t.Skip("CRIU needs root")
	}
	c, err := criu.Find()
	if err != nil {
		t.Skip(err)
	}
	return c.Path
}

// TestCriu runs the tests below as the first process of a pid and a mount
// namespace, where pids are free.
func TestCriu(t *testing.T) {
	path := findCriu(t)
	victim := filepath.Join(t.TempDir(), "victim")
	build := exec.Command("go", "build", "-trimpath", "-o", victim, "./testdata/victim")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the victim: %v: %s", err, out)
	}
	for _, name := range []string{"Restore", "RestoreCompressed", "DeviceFull", "Cancelled", "CriuDies", "Injected"} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestInNamespace$/^"+name+"$", "-test.v")
			cmd.Env = append(os.Environ(), "HEADRACE_CRIU="+path, "CHECKPOINT_TEST_VICTIM="+victim, "CHECKPOINT_TEST_DIR="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
			out, err := cmd.CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("--- PASS: TestInNamespace/"+name)) {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

func TestInNamespace(t *testing.T) {
	if os.Getenv("CHECKPOINT_TEST_VICTIM") == "" {
		t.Skip("runs only as a child of TestCriu")
	}
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""),
		unix.CloseRange(3, 1<<20, unix.CLOSE_RANGE_CLOEXEC), // whatever was inherited
	); err != nil {
		t.Fatal(err)
	}
	t.Run("Restore", func(t *testing.T) { testRestore(t, Options{}) })
	t.Run("RestoreCompressed", func(t *testing.T) { testRestore(t, Options{Compress: true}) })
	t.Run("DeviceFull", testCriuDeviceFull)
	t.Run("Cancelled", testCancelled)
	t.Run("CriuDies", testCriuDies)
	t.Run("Injected", testInjected)
}

// A victim is a running testdata/victim.
type victim struct {
	t       *testing.T
	dir     string
	pid     int
	answers int
	watch   *os.File // inotify: files that appear in dir
}

// patience is how long a test waits for something that must happen.
const patience = 2 * time.Minute

const victimPages = 64 << 20 / pageSize

// startVictim starts one as the leader of a session with nothing open but
// standard files.
func startVictim(t *testing.T) (v *victim, hash string) {
	t.Helper()
	v = &victim{t: t, dir: filepath.Join(os.Getenv("CHECKPOINT_TEST_DIR"), "victim")}
	if err := os.Mkdir(v.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK) // so that reads have deadlines
	if err != nil {
		t.Fatal(err)
	}
	v.watch = os.NewFile(uintptr(fd), "inotify")
	t.Cleanup(func() { v.watch.Close() })
	if _, err := unix.InotifyAddWatch(fd, v.dir, unix.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(filepath.Join(v.dir, "out"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(os.Getenv("CHECKPOINT_TEST_VICTIM"), strconv.Itoa(victimPages))
	cmd.Dir, cmd.Stdout, cmd.Stderr = v.dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v.pid = cmd.Process.Pid
	cmd.Process.Release()
	return v, v.answer()
}

// answer waits for the next answer.
func (v *victim) answer() string {
	v.t.Helper()
	v.answers++
	path := filepath.Join(v.dir, fmt.Sprintf("result-%d", v.answers))
	buf := make([]byte, 4096)
	if err := v.watch.SetReadDeadline(time.Now().Add(patience)); err != nil {
		v.t.Fatal(err)
	}
	for {
		b, err := os.ReadFile(path)
		if err == nil {
			return string(b)
		}
		if _, err := v.watch.Read(buf); err != nil {
			v.t.Fatal(err)
		}
	}
}

func (v *victim) ask(sig syscall.Signal) string {
	v.t.Helper()
	if err := syscall.Kill(v.pid, sig); err != nil {
		v.t.Fatal(err)
	}
	return v.answer()
}

// kill ends it and waits until its pid is free.
func (v *victim) kill() {
	v.t.Helper()
	if err := syscall.Kill(v.pid, syscall.SIGKILL); err != nil {
		v.t.Fatal(err)
	}
	if _, err := syscall.Wait4(v.pid, nil, 0, nil); err != nil {
		v.t.Fatal(err)
	}
}

// dumpCommand returns the criu that dumps it and lets it run.
func (v *victim) dumpCommand(w *Writer) *exec.Cmd {
	cmd := exec.Command(os.Getenv("HEADRACE_CRIU"), "dump", "-t", strconv.Itoa(v.pid), "-D", w.Dir(), "-o", "dump.log", "-v2",
		"--leave-running", "--page-server", "--ps-socket", "3")
	cmd.ExtraFiles = []*os.File{w.PageSocket()}
	return cmd
}

func (v *victim) checkpoint(s *Store) *Image {
	v.t.Helper()
	w, err := s.Begin("victim", BeginOptions{})
	if err != nil {
		v.t.Fatal(err)
	}
	defer w.Abort()
	if out, err := v.dumpCommand(w).CombinedOutput(); err != nil {
		log, _ := os.ReadFile(filepath.Join(w.Dir(), "dump.log"))
		v.t.Fatalf("criu dump: %v\n%s%s", err, out, log)
	}
	im, err := w.Commit(nil)
	if err != nil {
		v.t.Fatal(err)
	}
	return im
}

// restore brings it back with a plain criu restore.
func (v *victim) restore(im *Image) {
	v.t.Helper()
	scratch := v.t.TempDir()
	dir, closeDir, err := im.Open(v.t.Context(), scratch)
	if err != nil {
		v.t.Fatal(err)
	}
	pidfile, logfile := filepath.Join(scratch, "pid"), filepath.Join(scratch, "restore.log")
	out, err := exec.Command(os.Getenv("HEADRACE_CRIU"), "restore", "-D", dir, "-o", logfile, "-v2", "-d", "--pidfile", pidfile).CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(logfile)
		v.t.Fatalf("criu restore: %v\n%s%s", err, out, log)
	}
	if err := closeDir(); err != nil {
		v.t.Fatal(err)
	}
	b, err := os.ReadFile(pidfile)
	if err != nil {
		v.t.Fatal(err)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err != nil || pid != v.pid {
		v.t.Fatalf("restored as %q, want %d", b, v.pid)
	}
}

func testRestore(t *testing.T, o Options) {
	s, err := Open(filepath.Join(os.Getenv("CHECKPOINT_TEST_DIR"), "store"), o)
	if err != nil {
		t.Fatal(err)
	}
	v, first := startVictim(t)
	full := v.checkpoint(s)
	const memory = victimPages * pageSize / 8 * 9
	if full.Chain != 1 || full.Stored < memory/7*6 || full.Zero < memory/8 {
		t.Errorf("full: %+v", full)
	}
	changed := v.ask(syscall.SIGUSR1)
	if changed == first {
		t.Fatal("the victim's memory has not changed")
	}
	second := v.checkpoint(s)
	if second.Chain != 2 || second.Stored > memory/8 || second.Stored < memory/10 {
		t.Errorf("second, with a tenth changed: %+v", second)
	}
	v.ask(syscall.SIGUSR1)
	third := v.checkpoint(s)
	latest := v.ask(syscall.SIGUSR2)
	t.Logf("bytes to read: full %d, second %d, third %d", full.BytesToRead(), second.BytesToRead(), third.BytesToRead())

	for _, c := range []struct {
		im   *Image
		want string
		n    int // answers given when it was dumped
	}{{third, latest, 3}, {second, changed, 2}, {full, first, 1}} {
		v.kill()
		if err := c.im.Verify(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		v.restore(c.im)
		for n := c.n + 1; n <= 4; n++ {
			os.Remove(filepath.Join(v.dir, fmt.Sprintf("result-%d", n)))
		}
		v.answers = c.n
		if got := v.ask(syscall.SIGUSR2); got != c.want {
			t.Errorf("checkpoint %d: restored memory has hash %s, want %s", c.im.Seq, got, c.want)
		}
	}
	again := v.checkpoint(s) // of a restored process
	if again.Chain != 4 || again.Stored > memory/3 {
		t.Errorf("after restore: %+v", again)
	}
	v.kill()
	v.restore(again)
	if got := v.ask(syscall.SIGUSR2); got != first {
		t.Errorf("restored twice: hash %s, want %s", got, first)
	}
	v.kill()
}

// testCriuDeviceFull: criu reports the failure, and the task runs on.
func testCriuDeviceFull(t *testing.T) {
	s, err := Open(fullDevice(t, "40m"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, first := startVictim(t)
	w, err := s.Begin("victim", BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := v.dumpCommand(w).CombinedOutput(); err == nil {
		t.Errorf("criu dump succeeded: %s", out)
	}
	if err := commitError(t, w); !errors.Is(err, ErrNoSpace) {
		t.Errorf("%v, want no space left", err)
	}
	if got := v.ask(syscall.SIGUSR2); got != first {
		t.Errorf("hash %s, want %s", got, first)
	}
	v.kill()
}

// testCancelled: criu fails, and the task runs on.
func testCancelled(t *testing.T) {
	s, err := Open(filepath.Join(os.Getenv("CHECKPOINT_TEST_DIR"), "store"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, first := startVictim(t)
	for attempt := 1; !v.cancelDump(s); attempt++ {
		if attempt == 10 {
			t.Fatal("criu dump always succeeds")
		}
	}
	if got := v.ask(syscall.SIGUSR2); got != first {
		t.Errorf("hash %s, want %s", got, first)
	}
	v.kill()
}

// cancelDump reports false if the dump was faster.
func (v *victim) cancelDump(s *Store) bool {
	v.t.Helper()
	w, err := s.Begin("victim", BeginOptions{})
	if err != nil {
		v.t.Fatal(err)
	}
	defer w.Abort()
	cmd := v.dumpCommand(w)
	if err := cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); w.server.received.Load() == 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			cmd.Process.Kill()
			v.t.Fatalf("criu has sent nothing: %v", cmd.Wait())
		}
	}
	w.Cancel()
	if err := cmd.Wait(); err == nil {
		return false
	}
	commitError(v.t, w)
	return true
}

// testCriuDies: criu is killed in the middle of the pages; nobody waits, and the
// next dump works. (Killed while it makes the task execute system calls, at the
// beginning and at the end, criu takes the task with it, by SIGTRAP.)
func testCriuDies(t *testing.T) {
	s, err := Open(filepath.Join(os.Getenv("CHECKPOINT_TEST_DIR"), "store"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, first := startVictim(t)
	w, err := s.Begin("victim", BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	near, far := os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far")
	defer near.Close()
	cmd := v.dumpCommand(w)
	cmd.ExtraFiles = []*os.File{far}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	far.Close()
	go io.Copy(near, w.PageSocket())
	if _, err := io.CopyN(w.PageSocket(), near, victimPages*pageSize/2); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill() // it waits for us to read on
	cmd.Wait()
	if err := commitError(t, w); !errors.Is(err, errNoClose) {
		t.Errorf("%v, want %v", err, errNoClose)
	}
	if got := v.ask(syscall.SIGUSR2); got != first {
		t.Errorf("hash %s, want %s", got, first)
	}
	im := v.checkpoint(s)
	v.kill()
	v.restore(im)
	if got := v.ask(syscall.SIGUSR2); got != first {
		t.Errorf("restored: hash %s, want %s", got, first)
	}
	v.kill()
}
