package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"headrace/cli/clitest"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/wire"
)

// TestReal runs scripts against the real daemon with real tasks. Besides the
// commands of TestScript (but fake) they have:
//
//	daemon start [FLAG...]   start one, and wait until it answers
//	daemon stop              SIGTERM; it must end with exit code 0
//	daemon reload            SIGHUP; it must say something of limits
//	daemon kill              SIGKILL
//
// and the conditions [root], [criu], [cachestat] and [userns]: an ordinary user may
// make user namespaces.
func TestReal(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this builds the programs and starts daemons")
	}
	bin := filepath.Dir(testkit.Headrace(t))
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/real",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup:               func(env *testscript.Env) error { return setupReal(env, bin) },
		Condition:           realCondition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": clitest.Status, "start": cmdStart, "printed": cmdPrinted, "wrote": cmdWrote, "interrupt": cmdInterrupt, "finish": cmdFinish,
			"daemon": cmdDaemon,
		},
	})
}

func realCondition(name string) (bool, error) {
	switch name {
	case "root":
		return os.Geteuid() == 0, nil
	case "userns":
		return exec.Command("unshare", "-Ur", "true").Run() == nil, nil
	case "cachestat":
		return linux.ProbeCachestat() == nil, nil
	case "criu":
		path, _, err := findCRIU("")
		return path != "", err
	}
	return false, fmt.Errorf("unknown condition %s", name)
}

// realDaemon is headrace solo in a process of its own.
type realDaemon struct {
	path, stateDir string
	env            []string
	flags          []string
	cmd            *exec.Cmd
	log            output
	ended          chan struct{}
}

func setupReal(env *testscript.Env, bin string) error {
	// Longer than a socket's path may be.
	stateDir := filepath.Join(env.WorkDir, "state", strings.Repeat("x", 120))
	env.Setenv("HEADRACE_STATE_DIR", stateDir)
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("LANG", "C.UTF-8")
	env.Setenv("TZ", "UTC")
	env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
	// The script's HOME is not where it would be looked for.
	if path, _, err := findCRIU(""); err == nil && path != "" {
		env.Setenv("HEADRACE_CRIU", path)
	}
	d := &realDaemon{path: filepath.Join(bin, "headrace"), stateDir: stateDir, env: env.Vars}
	env.Values[scriptKey{}] = &scriptState{daemon: d, background: map[string]*background{}}
	env.Defer(func() {
		if err := d.cleanUp(); err != nil {
			env.T().Log(fmt.Sprintf("clean up: %v\n%s", err, d.said()))
			env.T().FailNow()
		}
	})
	return nil
}

func cmdDaemon(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: daemon start|stop|kill|reload [flag...]")
	}
	d := stateIn(ts).daemon
	switch args[0] {
	case "start":
		d.flags = args[1:]
		ts.Check(d.start())
	case "stop":
		ts.Check(d.end(syscall.SIGTERM))
		if code := d.cmd.ProcessState.ExitCode(); code != 0 {
			ts.Fatalf("the daemon's exit code is %d\n%s", code, d.said())
		}
	case "reload":
		text, _ := d.log.read()
		ts.Check(d.cmd.Process.Signal(syscall.SIGHUP))
		ts.Check(d.says(len(text), "limits"))
	case "kill":
		ts.Check(d.end(syscall.SIGKILL))
	default:
		ts.Fatalf("daemon %s: no such thing", args[0])
	}
}

func (d *realDaemon) said() string {
	text, _ := d.log.read()
	return text
}

// start returns when the daemon answers.
func (d *realDaemon) start() error {
	d.cmd = exec.Command(d.path, append([]string{"solo"}, d.flags...)...)
	d.cmd.Env = d.env
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	before := len(d.said())
	if err := d.cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	d.ended = ended
	go func() {
		d.cmd.Wait()
		close(ended)
	}()
	deadline := time.After(time.Minute)
	for {
		text, more := d.log.read()
		if strings.Contains(text[before:], "the daemon is up") {
			return nil
		}
		select {
		case <-more:
		case <-ended:
			return fmt.Errorf("the daemon has ended at once: %v\n%s", d.cmd.ProcessState, d.said())
		case <-deadline:
			return fmt.Errorf("the daemon is not up\n%s", d.said())
		}
	}
}

// says waits until the daemon's log has text from offset on.
func (d *realDaemon) says(offset int, want string) error {
	deadline := time.After(time.Minute)
	for {
		text, more := d.log.read()
		if strings.Contains(text[offset:], want) {
			return nil
		}
		select {
		case <-more:
		case <-deadline:
			return fmt.Errorf("the daemon does not say %q\n%s", want, text[offset:])
		}
	}
}

func (d *realDaemon) end(signal os.Signal) error {
	if err := d.cmd.Process.Signal(signal); err != nil {
		return err
	}
	select {
	case <-d.ended:
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("the daemon does not end\n%s", d.said())
	}
}

func (d *realDaemon) runs() bool {
	select {
	case <-d.ended:
		return false
	default:
		return true
	}
}

// cleanUp ends all tasks, for which it needs a daemon, and the daemon.
func (d *realDaemon) cleanUp() error {
	if d.cmd == nil {
		return nil
	}
	if !d.runs() {
		if err := d.start(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := (&app{stateDir: d.stateDir}).daemon()
	if err != nil {
		return err
	}
	list, err := client.List(ctx, &wire.ListRequest{})
	if err != nil {
		return err
	}
	for _, t := range list.Tasks {
		if _, err := client.Kill(ctx, &wire.VerbRequest{Id: t.Id, Grace: 0.001}); err != nil {
			return fmt.Errorf("kill %s: %w", t.Id, err)
		}
	}
	if err := d.end(syscall.SIGTERM); err != nil {
		return err
	}
	return d.leftovers()
}

// leftovers are processes that still work in the state directory.
func (d *realDaemon) leftovers() error {
	environs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, path := range environs {
		line, err := os.ReadFile(path)
		if err == nil && bytes.Contains(line, []byte(d.stateDir+"/")) {
			return fmt.Errorf("%s is still there: %q", filepath.Dir(path), line)
		}
	}
	return nil
}
