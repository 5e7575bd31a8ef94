package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"headrace/cli"
)

// program in a directory, whose standard error can be watched.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	errOut output
	out    bytes.Buffer
}

func startHere(t *testing.T, dir string, args ...string) *running {
	t.Helper()
	return startWith(t, dir, func(*exec.Cmd) {}, args...)
}

// startWith changes the command before it is started.
func startWith(t *testing.T, dir string, change func(*exec.Cmd), args ...string) *running {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// testscript.Main goes by the name that the program is called by.
	name := filepath.Join(t.TempDir(), "headrace")
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, cmd: exec.Command(name, args...)}
	r.cmd.Dir, r.cmd.Env = dir, append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.errOut
	change(r.cmd)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			r.cmd.Process.Kill()
			r.cmd.Wait()
		}
	})
	return r
}

// said waits until standard error matches.
func (r *running) said(want string) {
	r.t.Helper()
	pattern := regexp.MustCompile("(?m)" + want)
	deadline := time.After(time.Minute)
	for {
		text, more := r.errOut.read()
		if pattern.MatchString(text) {
			return
		}
		select {
		case <-more:
		case <-deadline:
			r.t.Fatalf("it has not said %s:\n%s", want, text)
		}
	}
}

// interrupted sends SIGINT, and checks how the program ends and what it says.
func (r *running) interrupted(want string) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
		r.t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { r.cmd.Process.Kill() })
	defer late.Stop()
	r.cmd.Wait()
	errOut, _ := r.errOut.read()
	if code := r.cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted {
		r.t.Errorf("exit code %d, want %d:\n%s", code, cli.ExitInterrupted, errOut)
	}
	if !strings.HasSuffix(errOut, "headrace: interrupted: "+want+"\n") || (r.out.Len() > 0) == (want == unwritten) {
		r.t.Errorf("said %q and printed %q", errOut, r.out.String())
	}
}

const unwritten = "nothing was written"

// endless is a trace whose simulation takes very long where nobody makes room: one
// task waits for decades while another runs.
const endless = "job,submit_s,run_s,priority\nlow,0,500000000,0\nhigh,10,10,9\n"

func TestInterruptedSimulation(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("endless.csv", endless)
	write("old.html", "old")
	r := startHere(t, dir, "sim", "--trace", "endless.csv", "--nodes", "1", "--cores", "1", "--memory", "4G",
		"--policy", "kill,wait", "--jobs", "1", "--out", "old.html", "--json", "new/new.json")
	r.said("^kill: 2 tasks")
	r.interrupted("reported are the 1 of 2 runs that had ended")
	page, err := os.ReadFile(filepath.Join(dir, "old.html"))
	if err != nil || !bytes.Contains(page, []byte("<html")) {
		t.Errorf("the page of what had ended: %.40q, %v", page, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "new/new.json")); err != nil || !bytes.Contains(text, []byte(`"kill"`)) {
		t.Errorf("its results: %.40q, %v", text, err)
	}
}

func TestInterruptedReading(t *testing.T) {
	for _, args := range [][]string{
		{"sim", "--trace", "csv:pipe", "--nodes", "1", "--cores", "1", "--memory", "4G", "--out", "new.html"},
		{"trace", "convert", "csv:pipe", "--out", "new.csv.gz"},
	} {
		dir := t.TempDir()
		pipe := filepath.Join(dir, "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		r := startHere(t, dir, args...)
		// Open at both ends, so that neither side waits for the other.
		w, err := os.OpenFile(pipe, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		// More than fits into the pipe: once it is written some of it has been read.
		if _, err := io.WriteString(w, endless+strings.Repeat("low,20,10,0\n", 20_000)); err != nil {
			t.Fatal(err)
		}
		r.interrupted(unwritten)
		w.Close()
		if err := os.Remove(pipe); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v is there, %v", left, err)
		}
	}
}
