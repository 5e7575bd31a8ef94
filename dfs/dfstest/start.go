package dfstest

import (
	"bufio"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"headrace/internal/freeport"
	"headrace/internal/testkit"
)

// A Process is a running node. Ended is closed when it has ended.
type Process struct {
	Cmd   *exec.Cmd
	Ended <-chan struct{}
	HDFS  string // its address of RPC, as a URL
	out   *bufio.Reader
}

// Launch starts a node in a directory, with any ports unless flags name them, and returns when clients may come.
func Launch(t testing.TB, dir string, flags ...string) *Process {
	t.Helper()
	return LaunchProgram(t, testkit.Headrace(t), dir, flags...)
}

// LaunchProgram is Launch of a program that was built.
func LaunchProgram(t testing.TB, program, dir string, flags ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(program, append([]string{"dfs", "start", "--dir", dir, "--port", "0", "--data-port", "0"}, flags...)...)}
	p.Cmd.Stderr = t.Output()
	out, err := p.Cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Ended, p.out = testkit.Start(t, p.Cmd), bufio.NewReader(out)
	p.HDFS = p.line(t)
	return p
}

// line reads an address that the node writes.
func (p *Process) line(t testing.TB) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("headrace dfs start: %v", err)
	}
	return strings.TrimSpace(line)
}

// Start starts a node that serves WebHDFS, too, and returns both of its addresses. It fails the test if the node does not end
// well with it.
func Start(t testing.TB) (hdfs, web string) { return StartIn(t, t.TempDir()) }

// StartIn is Start for a directory.
func StartIn(t testing.TB, dir string, flags ...string) (hdfs, web string) {
	t.Helper()
	l, err := freeport.Listen("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	p := Launch(t, dir, append(flags, "--http-port", strconv.Itoa(port))...)
	t.Cleanup(func() {
		p.Cmd.Process.Signal(syscall.SIGTERM)
		<-p.Ended
		if p.Cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("headrace dfs start ends with %v", p.Cmd.ProcessState)
		}
	})
	return p.HDFS, p.line(t)
}
