package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"headrace/cli/clitest"
)

type background struct {
	cmd         *exec.Cmd
	out, errOut output
}

// output can be read while a process writes it.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and forgotten at every write
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
	return o.text.Write(p)
}

// read returns what there is now, and a channel that is closed when there is more.
func (o *output) read() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.text.String(), o.changed
}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME prog [arg...]")
	}
	b := &background{cmd: exec.Command(program(ts, args[1]), args[2:]...)}
	b.cmd.Dir = ts.Getenv("WORK")
	b.cmd.Env = scriptEnv(ts)
	b.cmd.Stdout, b.cmd.Stderr = &b.out, &b.errOut
	ts.Check(b.cmd.Start())
	stateIn(ts).background[args[0]] = b
	ts.Defer(func() {
		if b.cmd.ProcessState == nil {
			b.cmd.Process.Kill()
			b.cmd.Wait()
		}
	})
}

// program returns the path of a program on the script's PATH.
func program(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path
		}
	}
	ts.Fatalf("%s is not on PATH", name)
	return ""
}

func scriptEnv(ts *testscript.TestScript) []string {
	env := os.Environ()
	for _, key := range []string{"HEADRACE_STATE_DIR", "HOME", "TZ", "LANG", "GORACE", "PATH"} {
		env = append(env, key+"="+ts.Getenv(key))
	}
	return env
}

func cmdPrinted(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: printed NAME REGEXP")
	}
	awaitText(ts, args, func(b *background) *output { return &b.out })
}

func cmdWrote(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: wrote NAME REGEXP")
	}
	awaitText(ts, args, func(b *background) *output { return &b.errOut })
}

// awaitText waits for args[1] in what the background process args[0] writes.
func awaitText(ts *testscript.TestScript, args []string, where func(*background) *output) {
	want, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	deadline := time.After(time.Minute)
	for {
		text, more := where(stateIn(ts).background[args[0]]).read()
		if want.MatchString(text) {
			return
		}
		select {
		case <-more:
		case <-deadline:
			ts.Fatalf("%s has not written %s:\n%s", args[0], args[1], text)
		}
	}
}

func cmdInterrupt(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(stateIn(ts).background[args[0]].cmd.Process.Signal(syscall.SIGINT))
}

func cmdFinish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: finish NAME N")
	}
	b := stateIn(ts).background[args[0]]
	late := time.AfterFunc(time.Minute, func() { b.cmd.Process.Kill() })
	err := b.cmd.Wait()
	late.Stop()
	out, _ := b.out.read()
	errOut, _ := b.errOut.read()
	fmt.Fprint(ts.Stdout(), out)
	fmt.Fprint(ts.Stderr(), errOut)
	clitest.WantCode(ts, args[1], err)
}
