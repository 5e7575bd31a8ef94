package main

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/wire"
)

// terminal returns both ends of a new terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// TestStopped: who stops what paints on a terminal (Ctrl-Z) has a terminal as it was, and it begins anew afterwards.
func TestStopped(t *testing.T) {
	const (
		hideCursor, showCursor       = "\x1b[?25l", "\x1b[?25h"
		cutLines, wrapLines          = "\x1b[?7l", "\x1b[?7h"
		showAlternate, hideAlternate = "\x1b[?1049h", "\x1b[?1049l"
		home, eraseLine              = "\x1b[H", "\x1b[K"
		given                        = wrapLines + showCursor
	)
	for name, c := range map[string]struct {
		args        []string
		took, given string
	}{
		"ps":  {[]string{"ps", "--watch", "--interval", "0.05"}, hideCursor + cutLines, given},
		"top": {[]string{"top", "--interval", "0.05"}, showAlternate + hideCursor + cutLines, given + hideAlternate},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fake := newFake(dir)
			fake.tasks = []*wire.Task{{Id: "t1", Name: "nightly", State: "running"}}
			if err := fake.start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(fake.stop)
			master, slave := terminal(t)
			var screen output
			go io.Copy(&screen, master)
			at := 0
			shows := func(pattern string) {
				t.Helper()
				re := regexp.MustCompile(pattern)
				deadline := time.After(2 * time.Minute) // the machine may be busy
				for {
					text, more := screen.read()
					if found := re.FindStringIndex(text[at:]); found != nil {
						at += found[1]
						return
					}
					select {
					case <-more:
					case <-deadline:
						t.Fatalf("the terminal has %q, want %s", text[at:], pattern)
					}
				}
			}
			r := startWith(t, dir, func(cmd *exec.Cmd) {
				cmd.Env = append(cmd.Env, "HEADRACE_STATE_DIR="+dir, "TERM=xterm")
				cmd.Stdin, cmd.Stdout = slave, slave
				// A group of its own, as a shell makes one.
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			}, c.args...)
			shows("nightly")
			for range 2 {
				if err := r.cmd.Process.Signal(syscall.SIGTSTP); err != nil {
					t.Fatal(err)
				}
				var status syscall.WaitStatus
				if _, err := syscall.Wait4(r.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
					t.Fatalf("it has not stopped: %v, %v", status, err)
				}
				shows(regexp.QuoteMeta(c.given) + "$")
				if err := r.cmd.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				shows("^" + regexp.QuoteMeta(c.took+map[string]string{"top": home}[name]+eraseLine))
				shows("nightly")
			}
			if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			if err := r.cmd.Wait(); err != nil {
				t.Error(err)
			}
			shows(regexp.QuoteMeta(c.given) + "$")
		})
	}
}
