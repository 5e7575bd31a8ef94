//go:build amd64

package linux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stoppedProgram starts a program that has 128 MB mapped to be executed, and nowhere there an instruction syscall, and stops it.
func stoppedProgram(t *testing.T, args ...string) (pid int) {
	return stopped(t, "int80", make([]byte, 1), args...)
}

// stopped starts a program of testdata, reads what it prints first, and stops it.
func stopped(t *testing.T, name string, says []byte, args ...string) (pid int) {
	dir := t.TempDir()
	program := filepath.Join(dir, name)
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("there is no gcc: ", err)
	}
	if out, err := exec.Command("gcc", "-O1", "-static", "-nostdlib", "-no-pie", "-fno-stack-protector", "-mno-red-zone", "-fcf-protection=none", "-Wl,-N", "-Wl,--no-warn-rwx-segments",
		"-o", program, "testdata/"+name+".c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, out)
	}
	sparse, err := os.Create(filepath.Join(dir, "sparse"))
	if err == nil {
		err = sparse.Truncate(16 << 20)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer sparse.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdin = sparse
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := io.ReadFull(out, says); err != nil {
		t.Fatal("the program does not begin: ", err)
	}
	pid = cmd.Process.Pid
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitStopped(t, pid)
	return pid
}

func awaitStopped(t *testing.T, pid int) {
	for end := time.Now().Add(2 * time.Minute); ; runtime.Gosched() { // the machine may be busy
		st, err := ProcFS("").Stat(pid)
		switch {
		case err == nil && st.State == 'T':
			return
		case err != nil || time.Now().After(end):
			t.Fatalf("got state %c, %v, want a stopped one", st.State, err)
		}
	}
}

// What a program has mapped costs nothing where it makes calls.
func TestCallAsReadsLittle(t *testing.T) {
	pid := stoppedProgram(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	read := func() (n int) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/io", unix.Gettid()))
		if err != nil {
			t.Skip("the kernel does not count what is read: ", err)
		}
		n, _ = strconv.Atoi(string(regexp.MustCompile(`rchar: (\d+)`).FindSubmatch(text)[1]))
		return n
	}
	if can, err := CanCallAs(pid); err != nil || !can {
		t.Errorf("it can be had to make calls: %v, %v", can, err)
	}
	before := read()
	err := CallAs(pid, func(call Caller) error {
		for range 100 {
			if got, err := call(unix.SYS_GETPID, []byte("x")); err != nil || int(got) != pid {
				t.Errorf("got %d, %v, want its number, %d", got, err, pid)
			}
		}
		now := make([]byte, 16)
		if _, err := call(unix.SYS_CLOCK_GETTIME, now, unix.CLOCK_MONOTONIC, AtData); err != nil || bytes.Equal(now, make([]byte, 16)) {
			t.Errorf("a call that writes to its data has written %v, %v", now, err)
		}
		_, err := call(unix.SYS_CLOSE, nil, 100)
		return err
	})
	if !errors.Is(err, unix.EBADF) {
		t.Errorf("got %v, want what the call has returned: EBADF", err)
	}
	if n := read() - before; n > 1<<20 {
		t.Errorf("%d bytes were read for the calls of a process, want less than 1 MB", n)
	}
	awaitStopped(t, pid)
}

// A thread that is in a restartable sequence is in it afterwards.
func TestCallAsInSequence(t *testing.T) {
	address := make([]byte, 8)
	pid := stopped(t, "rseq", address)
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	sequence := func() uint64 {
		word := make([]byte, 8)
		if _, err := memory.ReadAt(word, int64(binary.NativeEndian.Uint64(address))); err != nil {
			t.Fatal(err)
		}
		return binary.NativeEndian.Uint64(word)
	}
	before := sequence()
	for before == 0 { // it was aborted just now
		unix.Kill(pid, unix.SIGCONT)
		unix.Kill(pid, unix.SIGSTOP)
		awaitStopped(t, pid)
		before = sequence()
	}
	if err := CallAs(pid, func(call Caller) error { _, err := call(unix.SYS_GETPID, nil); return err }); err != nil {
		t.Fatal(err)
	}
	if now := sequence(); now != before {
		t.Errorf("it is in sequence %#x, was in %#x", now, before)
	}
}

// A program in which nothing calls the kernel in the way that is known is not had to make calls, and that is said.
func TestCallAsUnsupported(t *testing.T) {
	pid := stoppedProgram(t, "without")
	if can, err := CanCallAs(pid); err != nil || can {
		t.Errorf("it can be had to make calls: %v, %v", can, err)
	}
	err := CallAs(pid, func(Caller) error { t.Error("it makes calls"); return nil })
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}

// Whoever may send signals to a process does not keep it from coming to an end.
func TestCallAsUnderSignals(t *testing.T) {
	pid := stoppedProgram(t)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
				unix.Kill(pid, unix.SIGSTOP)
			}
		}
	}()
	var err error
	for begun, n := time.Now(), 0; n < 100 || n < 20000 && time.Since(begun) < 10*time.Second; n++ {
		if err = CallAs(pid, func(call Caller) error { _, err := call(unix.SYS_GETPID, nil); return err }); err != nil {
			break
		}
	}
	t.Log(err) // either will do, soon
	close(done)
	<-ended
}
