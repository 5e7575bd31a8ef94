package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"headrace/internal/testkit"
)

// piping starts headrace run --stdin - with a pipe that stays open.
func piping(t *testing.T, stateDir string) (r *running, in io.WriteCloser) {
	t.Helper()
	r = startWith(t, t.TempDir(), func(cmd *exec.Cmd) {
		var err error
		if in, err = cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
	}, "run", "--stdin", "-", "--state-dir", stateDir, "cat")
	return r, in
}

// TestNobodyIsThereForWhatIsPiped: that is said before whoever makes it has worked for nothing.
func TestNobodyIsThereForWhatIsPiped(t *testing.T) {
	r, in := piping(t, t.TempDir())
	defer in.Close()
	r.said("^headrace: no daemon at ")
	r.cmd.Wait()
	if code := r.cmd.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit code %d", code)
	}
}

// TestPipedWhileTheDaemonIsAway: the daemon is started again just when everything has come.
func TestPipedWhileTheDaemonIsAway(t *testing.T) {
	fake := newFake(t.TempDir())
	if err := fake.start(); err != nil {
		t.Fatal(err)
	}
	r, in := piping(t, filepath.Dir(fake.socket))
	testkit.Await(t, "the file for what is piped", func() bool { return len(fake.piped()) > 0 })
	fake.stop()
	if _, err := io.WriteString(in, "hours of work\n"); err != nil {
		t.Fatal(err)
	}
	in.Close()
	r.said("^headrace: no daemon at .*; trying again for up to 30s$")
	if err := fake.start(); err != nil {
		t.Fatal(err)
	}
	defer fake.stop()
	if err := r.cmd.Wait(); err != nil || r.out.String() != "t101\n" {
		t.Errorf("%v, and it prints %q", err, r.out.String())
	}
	path := fake.stdin()
	defer os.Remove(path)
	if got, err := os.ReadFile(path); string(got) != "hours of work\n" || err != nil {
		t.Errorf("the task is given %q, %v", got, err)
	}
}
