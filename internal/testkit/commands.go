package testkit

import (
	"bufio"
	"io"
	"os/exec"
	"sync"
	"testing"
)

// Start starts a command that ends with the test; the channel is closed when it has
// ended.
func Start(t testing.TB, cmd *exec.Cmd) (ended <-chan struct{}) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		cmd.Wait()
		close(gone)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-gone
	})
	return gone
}

// Pipes returns what a command that is yet to start will read, and what it will say.
func Pipes(t testing.TB, cmd *exec.Cmd) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	return in, out
}

// Converse starts a command whose standard input stays open, and returns what it says.
// end, which the end of the test calls too, closes its input and ends it.
func Converse(t testing.TB, cmd *exec.Cmd) (says *bufio.Reader, end func()) {
	t.Helper()
	in, out := Pipes(t, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	t.Cleanup(end)
	return bufio.NewReader(out), end
}

// Content reads all of what was opened, as in Content(f.Open(name))(t).
func Content(r io.ReadCloser, err error) func(testing.TB) string {
	return func(t testing.TB) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}
