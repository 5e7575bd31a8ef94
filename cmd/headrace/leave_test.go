package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"headrace/cli"
	"headrace/internal/testkit"
	"headrace/wire"
)

// fakeHere starts a fake daemon for programs that are started by the test, with one task t1
// that runs.
func fakeHere(t *testing.T) *fakeDaemon {
	t.Helper()
	dir := t.TempDir()
	t.Setenv(wire.StateDirEnv, dir)
	f := newFake(dir)
	f.tasks = []*wire.Task{{Id: "t1", State: "running", Progress: -1}}
	f.chunks["t1"] = []*wire.LogChunk{{Data: []byte("text"), Stream: wire.Stream_STREAM_STDOUT}}
	if err := f.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.stop)
	return f
}

// TestSignalWhileInputIsPiped: whichever signal ends the client before the task is accepted,
// nothing of what was piped is left.
func TestSignalWhileInputIsPiped(t *testing.T) {
	testkit.Unignore(t, syscall.SIGHUP)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			f := fakeHere(t)
			in, feed, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			defer feed.Close()
			r := startWith(t, t.TempDir(), func(cmd *exec.Cmd) { cmd.Stdin = in }, "run", "--stdin", "-", "cat")
			if _, err := feed.WriteString("some\n"); err != nil {
				t.Fatal(err)
			}
			testkit.Await(t, "what was piped", func() bool {
				paths := f.piped()
				if len(paths) != 1 {
					return false
				}
				text, err := os.ReadFile(paths[0])
				return err == nil && string(text) == "some\n"
			})
			if err := r.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			r.cmd.Wait()
			if code := r.cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted {
				t.Errorf("it ended with %v", r.cmd.ProcessState)
			}
			if left := f.piped(); len(left) > 0 {
				t.Errorf("%q are left", left)
			}
		})
	}
}

// TestHangupEndsTheWaiting: with its terminal a client goes, and says that the task goes on.
func TestHangupEndsTheWaiting(t *testing.T) {
	testkit.Unignore(t, syscall.SIGHUP)
	f := fakeHere(t)
	r := startHere(t, t.TempDir(), "run", "--wait", "true")
	r.said("^headrace: task t101$")
	testkit.Await(t, "who waits", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.watching["t101"] > 0 })
	if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	r.cmd.Wait()
	text, _ := r.errOut.read()
	if code := r.cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted || !strings.Contains(text, "task t101 goes on") {
		t.Errorf("it ended with %v: %s", r.cmd.ProcessState, text)
	}
}

// TestNowhereToWrite: what cannot be written is said, and is no success.
func TestNowhereToWrite(t *testing.T) {
	for _, args := range [][]string{
		{"--help"}, {"--version"}, {"ps"}, {"ps", "--format", "json"}, {"show", "t1"}, {"version"}, {"completion", "bash"},
		{"logs", "t1"}, {"logs", "-f", "t1"}, {"run", "true"}, {"run", "-f", "true"}, {"kill", "t1"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			f := fakeHere(t)
			f.change(func() { f.chunks["t101"] = f.chunks["t1"] })
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if errors.Is(err, fs.ErrNotExist) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer full.Close()
			r := startWith(t, t.TempDir(), func(cmd *exec.Cmd) { cmd.Stdout = full }, args...)
			r.cmd.Wait()
			text, _ := r.errOut.read()
			if code := r.cmd.ProcessState.ExitCode(); code != cli.ExitFailure || !strings.Contains(text, "no space left on device") {
				t.Errorf("it ended with %v: %s", r.cmd.ProcessState, text)
			}
		})
	}
}

// TestReaderGone: who reads no more ends the program without a word.
func TestReaderGone(t *testing.T) {
	for _, args := range [][]string{{"ps"}, {"logs", "-f", "t1"}, {"--help"}} {
		fakeHere(t)
		out, to, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		out.Close()
		r := startWith(t, t.TempDir(), func(cmd *exec.Cmd) { cmd.Stdout = to }, args...)
		to.Close()
		r.cmd.Wait()
		text, _ := r.errOut.read()
		if ws := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGPIPE || text != "" {
			t.Errorf("%q ended with %v: %s", args, r.cmd.ProcessState, text)
		}
	}
}
