package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/testkit"
)

// keptPages is a pageSink that keeps the pages.
type keptPages map[uint64][]byte

func (k keptPages) open(string) error { return nil }
func (k keptPages) finish() error     { return nil }
func (k keptPages) store(b *block) error {
	data := b.data
	for _, r := range b.runs {
		for i := range r.pages {
			k[r.vaddr+uint64(i)*pageSize] = bytes.Clone(data[:pageSize])
			data = data[pageSize:]
		}
	}
	return nil
}

// TestInjected: of what CRIU has written over in a page, what was there before is stored, as soon as it is there again.
func TestInjected(t *testing.T) {
	if injected == nil {
		t.Skip("it is not known what CRIU injects on this processor")
	}
	for _, code := range injected {
		testInjectedCode(t, code)
	}
}

func testInjectedCode(t *testing.T, code string) {
	page := func(head string) []byte { return append([]byte(head), make([]byte, pageSize-len(head))...) }
	bad := page(code + "the rest")
	for name, c := range map[string]struct {
		image string
		reads []string // of the process; the last but with an error
		want  string
		err   error
	}{
		"there again":      {"pagemap-7", []string{code, code, "the code"}, "the codethe rest", nil},
		"gone":             {"pagemap-7", []string{code}, "", errBroken},
		"of shared memory": {"pagemap-shmem-7", nil, code + "the rest", nil},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			kept := keptPages{}
			s := &pageServer{conn: ours, sink: kept, hangUp: func() { ours.Close() }, memory: func(pid int, at uint64, b []byte) error {
				if pid != 7 || at != 5*pageSize {
					t.Errorf("memory of process %d at %#x is read", pid, at)
				}
				if len(c.reads) == 0 {
					return errBroken
				}
				copy(b, c.reads[0])
				c.reads = c.reads[1:]
				return nil
			}}
			served := make(chan error)
			go func() { served <- s.serve() }()
			fakeCriu{conn: theirs, maxRun: 3}.dump(memory{c.image: {4 * pageSize: page("plain"), 5 * pageSize: bad, 6 * pageSize: page("\x0f\x05")}})
			if err := <-served; !errors.Is(err, c.err) {
				t.Fatalf("the server ends with %v, want %v", err, c.err)
			}
			if c.err == nil && (!bytes.Equal(kept[5*pageSize], page(c.want)) || len(kept) != 3) {
				t.Errorf("of %d pages, the one begins with %q", len(kept), kept[5*pageSize][:16])
			}
		})
	}
}

// lateReader is a connection to CRIU from which the pages are read when CRIU is in the middle of a call that it has injected, as far as that
// can be brought about.
type lateReader struct {
	net.Conn
	criu   *os.Process
	pid    int
	at     uint64 // where CRIU injects
	reads  int
	caught bool
}

func (c *lateReader) Read(b []byte) (int, error) {
	if c.reads++; c.reads != 2 { // the first are requests that CRIU waits for
		return c.Conn.Read(b)
	}
	stands := func() bool {
		now := make([]byte, injectedLen)
		return readProcess(c.pid, c.at, now) == nil && slices.Contains(injected, string(now))
	}
	for deadline := linux.Clock() + 500*time.Millisecond; !c.caught && linux.Clock() < deadline; {
		if !stands() {
			continue
		}
		c.criu.Signal(syscall.SIGSTOP)
		for !stopped(c.criu.Pid) {
			time.Sleep(20 * time.Microsecond)
		}
		c.caught = stands()
		if !c.caught {
			c.criu.Signal(syscall.SIGCONT)
		}
	}
	n, err := c.Conn.Read(b)
	c.criu.Signal(syscall.SIGCONT)
	return n, err
}

func stopped(pid int) bool {
	st, err := linux.ProcFS("").Stat(pid)
	return err != nil || linux.Stopped(st.State) || linux.Dead(st.State)
}

// testInjected: pages are handed on by CRIU without a copy, and are changed by it before they are read, where all of them have room in the
// socket.
func testInjected(t *testing.T) {
	sleep := exec.Command("sleep", "1000")
	sleep.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	pid := sleep.Process.Pid
	defer func() {
		sleep.Process.Kill()
		sleep.Wait()
	}()
	testkit.Await(t, "sleep", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		return err == nil && bytes.HasPrefix(b, fmt.Appendf(nil, "%d ", unix.SYS_CLOCK_NANOSLEEP))
	})
	var text uint64
	for m, err := range linux.ProcFS("").Maps(pid) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Rights[2] == 'x' {
			text = m.Start
			break
		}
	}
	want := make([]byte, 64)
	if err := readProcess(pid, text, want); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for try := range 200 {
		kept, late := dumpLate(t, dir, pid, text)
		got := kept[text]
		if got == nil {
			t.Fatalf("CRIU has not dumped the page at %#x, which it writes to", text)
		}
		if !bytes.Equal(got[:len(want)], want) {
			t.Fatalf("the page at %#x begins with %x, stored is %x", text, want, got[:len(want)])
		}
		if late.caught {
			t.Logf("after %d dumps", try+1)
			return
		}
	}
	t.Skip("in 200 dumps no page was read in the middle of a call")
}

// dumpLate dumps a process, and lets it run.
func dumpLate(t *testing.T, dir string, pid int, text uint64) (keptPages, *lateReader) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "server"), os.NewFile(uintptr(fds[1]), "client")
	defer ours.Close()
	defer theirs.Close()
	for _, fd := range fds {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, socketBuffer); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Getenv("HEADRACE_CRIU"), "dump", "-t", strconv.Itoa(pid), "-D", dir, "-o", "dump.log", "-v2",
		"--leave-running", "--page-server", "--ps-socket", "3")
	cmd.ExtraFiles = []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	kept, late := keptPages{}, &lateReader{Conn: conn, criu: cmd.Process, pid: pid, at: text}
	s := &pageServer{conn: late, sink: kept, hangUp: func() { conn.Close() }, memory: readProcess}
	if err := errors.Join(s.serve(), cmd.Wait()); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "dump.log"))
		t.Fatalf("%v\n%s", err, log)
	}
	return kept, late
}
