package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"headrace/internal/testkit"
	"headrace/wire"
	"headrace/wire/convert"
	"headrace/wire/wireconnect"
)

// process is a daemon in a process of its own.
type process struct {
	cmd   *exec.Cmd
	log   output
	ended chan struct{}
}

// launch starts a program and waits until it writes what matches up; the first group of
// that is returned.
func launch(t *testing.T, env []string, up string, argv ...string) (*process, string) {
	t.Helper()
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() { p.end(t, syscall.SIGKILL) })
	late := time.After(time.Minute)
	for {
		text, more := p.log.read()
		if m := regexp.MustCompile(up).FindStringSubmatch(text); m != nil {
			return p, m[len(m)-1]
		}
		select {
		case <-more:
		case <-p.ended:
			text, _ = p.log.read()
			t.Fatalf("%q has ended: %v\n%s", argv, p.cmd.ProcessState, text)
		case <-late:
			t.Fatalf("%q is not up\n%s", argv, text)
		}
	}
}

func (p *process) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	p.cmd.Process.Signal(signal)
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		t.Errorf("%s does not end", p.cmd)
	}
}

// TestRealCluster has a container of another scheduler run, give way and go on, with
// real processes, while manager and node are killed.
func TestRealCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this builds the programs and starts daemons")
	}
	dir := t.TempDir()
	headrace, state, token, stop := testkit.Headrace(t), filepath.Join(dir, "state"), filepath.Join(dir, "token"), filepath.Join(dir, "stop")
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer notify.Close()
	env := append(os.Environ(), "HEADRACE_STATE_DIR="+state, "NOTIFY_SOCKET="+notify.LocalAddr().String())
	told := make(chan string, 100)
	go func() { // what it is to keep it drops at once
		for b := make([]byte, 100); ; {
			n, err := notify.Read(b)
			if err != nil {
				return
			}
			if message := string(b[:n]); !strings.HasPrefix(message, "FDSTORE") {
				told <- message
			}
		}
	}()
	wantReady := func() {
		t.Helper()
		select {
		case message := <-told:
			if message != "READY=1" {
				t.Errorf("systemd is told %q", message)
			}
		case <-time.After(time.Minute):
			t.Error("systemd is told nothing")
		}
	}
	startManager := func(listen, policy string) (*process, string) {
		return launch(t, env, `the manager is up" address=(\S+)`, headrace, "manager", "--listen", listen, "--token-file", token, "--policy", policy, "--min-run", "0")
	}
	manager, addr := startManager("127.0.0.42:0", "suspend") // where no connection of others takes the port while it is down
	wantReady()
	startNode := func() *process {
		n, _ := launch(t, env, "the daemon is up", headrace, "node", "--manager", "http://"+addr, "--token-file", token, "--name", "here")
		return n
	}
	node := startNode()
	wantReady()
	t.Cleanup(func() {
		node.end(t, syscall.SIGKILL)
		d := &realDaemon{path: headrace, stateDir: state, env: env, cmd: node.cmd, ended: node.ended}
		if err := d.cleanUp(); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	host := wireconnect.NewHostServiceClient(wire.NewHTTPClient(wire.SocketPath(state)), wire.BaseURL)
	prepared, err := host.Prepare(context.Background(), &wire.PrepareRequest{
		Id: "container_1", Hosting: &wire.Hosting{Scheduler: "yarn", Application: "application_1", Queue: "low"}, Cpus: 1, Memory: 64 << 20, Priority: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	command := append(prepared.Argv, "/bin/bash", "-c", `until [ -e "$0" ]; do sleep 0.05; done; exit 7`, stop)
	container := exec.Command(command[0], command[1:]...)
	if err := container.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		container.Wait()
		close(over)
	}()
	t.Cleanup(func() {
		container.Process.Kill()
		<-over
	})
	raw, err := os.ReadFile(token)
	if err != nil {
		t.Fatal(err)
	}
	api := clientWith(t, addr, strings.TrimSpace(string(raw)))
	resume := func() {
		t.Helper()
		if _, err := api.Resume(context.Background(), &wire.ResumeRequest{Container: "container_1"}); err != nil {
			t.Fatal(err)
		}
		awaitContainer(t, api, "container_1", "running", inState("running"))
	}

	awaitContainer(t, api, "container_1", "running", inState("running"))
	if d := preemptOne(t, api, "container_1"); convert.MechanismName(d) != "suspend" {
		t.Fatalf("%v", d)
	}
	awaitContainer(t, api, "container_1", "suspended", inState("suspended"))
	manager.end(t, syscall.SIGKILL)
	manager, _ = startManager(addr, "suspend")
	awaitContainer(t, api, "container_1", "suspended", inState("suspended"))
	node.end(t, syscall.SIGKILL)
	node = startNode()
	c := awaitContainer(t, api, "container_1", "suspended", inState("suspended"))
	if c.Preemptions != 1 || c.Node != "here" {
		t.Errorf("%v", c)
	}
	resume()

	if path, _, _ := findCRIU(""); os.Geteuid() != 0 || path == "" {
		t.Log("no checkpoint is made: that needs root and CRIU")
	} else {
		manager.end(t, syscall.SIGTERM)
		startManager(addr, "checkpoint")
		awaitContainer(t, api, "container_1", "running", inState("running"))
		if d := preemptOne(t, api, "container_1"); convert.MechanismName(d) != "checkpoint" || d.Store == "" {
			t.Fatalf("%v", d)
		}
		awaitContainer(t, api, "container_1", "checkpointed", inState("checkpointed"))
		resume()
	}

	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-over:
	case <-time.After(time.Minute):
		t.Fatal("the container does not end")
	}
	if code := container.ProcessState.ExitCode(); code != 7 {
		t.Errorf("the exit code is %d", code)
	}
	awaitContainer(t, api, "container_1", "gone", func(c *wire.Container) bool { return c == nil })
}
