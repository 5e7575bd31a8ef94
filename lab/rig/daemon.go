package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"headrace/internal/linux"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// DaemonConfig is what a daemon of an experiment is told.
type DaemonConfig struct {
	Programs Programs
	Policy   string
	Slots    int // 0: one
	Memory   int64
	Enforce  bool
	// NoSwap keeps the daemon from planning with the machine's swap.
	NoSwap bool
	Stores []StoreDir
	// Group is a cgroup of version 2 to run in; empty: none.
	Group string
	// MemoryGroup is a cgroup of either version to run in, with all tasks.
	MemoryGroup string
	// Reading is where the processor time of all its processes is counted; nil: nowhere.
	Reading *Group
	Flags   []string
}

// StoreDir is a checkpoint store of a daemon.
type StoreDir struct{ Name, Dir string }

const (
	readyTime = 60 * time.Second
	stopTime  = 30 * time.Second
)

// A Daemon is headrace solo in a process of its own. One goroutine at a time may
// use it.
type Daemon struct {
	wireconnect.TaskServiceClient
	Node wireconnect.NodeServiceClient

	Config DaemonConfig
	Dir    string // of its state
	Cmd    *exec.Cmd
	log    *tail
	client *http.Client
	// ended is closed when the process is gone; then err is why.
	ended chan struct{}
	err   error

	Tasks *Watch
}

// StartDaemon returns when the daemon answers. dir must not exist.
func StartDaemon(ctx context.Context, dir string, config DaemonConfig) (*Daemon, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d := &Daemon{Config: config, Dir: dir, log: &tail{}, ended: make(chan struct{})}
	d.Cmd = enterGroup(config.MemoryGroup, exec.Command(config.Programs.Headrace, config.args(dir)...))
	if config.Reading != nil {
		d.Cmd = config.Reading.Enter(d.Cmd)
	}
	d.Cmd.Stdout, d.Cmd.Stderr = d.log, d.log
	d.Cmd.Dir = dir
	// Ctrl-C on the terminal is for us alone: we stop the daemon ourselves.
	d.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	started, err := inGroup(d.Cmd.SysProcAttr, config.Group)
	if err != nil {
		return nil, err
	}
	err = d.Cmd.Start()
	started()
	if err != nil {
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	go func() {
		d.err = d.Cmd.Wait()
		close(d.ended)
	}()
	d.client = wire.NewHTTPClient(wire.SocketPath(dir))
	d.TaskServiceClient = wireconnect.NewTaskServiceClient(d.client, wire.BaseURL)
	d.Node = wireconnect.NewNodeServiceClient(d.client, wire.BaseURL)
	if err := d.ready(ctx); err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	if d.Tasks, err = startWatch(d); err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	return d, nil
}

func (c DaemonConfig) args(dir string) []string {
	// Without the settings of this machine: experiments say themselves what counts.
	args := []string{"solo", "--config=", "--state-dir", dir, "--policy", c.Policy, "--slots", strconv.Itoa(max(1, c.Slots)), "--min-run", "0s"}
	if c.Memory > 0 {
		args = append(args, "--memory", strconv.FormatInt(c.Memory, 10))
	}
	if c.Enforce {
		args = append(args, "--enforce-memory")
	}
	if c.NoSwap {
		args = append(args, "--swap-reserve", strconv.FormatInt(1<<50, 10))
	}
	for _, s := range c.Stores {
		args = append(args, "--store", s.Name+"="+s.Dir)
	}
	return append(args, c.Flags...)
}

// ready waits until the daemon answers.
func (d *Daemon) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	for {
		_, err := d.Node.Info(ctx, &wire.InfoRequest{})
		if err == nil {
			return nil
		}
		select {
		case <-d.ended:
			return fmt.Errorf("the daemon has ended before it was ready: %w%s", d.why(), d.log.quote())
		case <-ctx.Done():
			return fmt.Errorf("the daemon did not answer: %w%s", err, d.log.quote())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// why returns the reason for an end that nobody asked for. It is only called when
// ended is closed.
func (d *Daemon) why() error {
	if d.err == nil {
		return errors.New("exit status 0")
	}
	return d.err
}

func (d *Daemon) gone() bool {
	select {
	case <-d.ended:
		return true
	default:
		return false
	}
}

// Broken reports whether the daemon is of no use any more.
func (d *Daemon) Broken() bool { return d.gone() || d.Tasks.failed() }

// abandon ends a broken daemon and its tasks, which would run on without it.
func (d *Daemon) abandon() error {
	d.Tasks.stop()
	d.client.CloseIdleConnections()
	d.Cmd.Process.Kill()
	<-d.ended
	return endProcesses(d.Dir)
}

// End stops the daemon, or abandons a broken one.
func (d *Daemon) End() error {
	if d.Broken() {
		return d.abandon()
	}
	return d.Stop()
}

// Stop ends all tasks and the daemon. It may be called again.
func (d *Daemon) Stop() error {
	if d.Tasks != nil {
		d.Tasks.stop()
	}
	defer d.client.CloseIdleConnections()
	select {
	case <-d.ended:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	err := d.endTasks(ctx)
	d.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.ended:
		return err
	case <-ctx.Done():
	}
	d.Cmd.Process.Kill()
	<-d.ended
	return errors.Join(err, fmt.Errorf("the daemon did not end %v after SIGTERM and was killed", stopTime))
}

func (d *Daemon) endTasks(ctx context.Context) error {
	list, err := d.List(ctx, &wire.ListRequest{})
	if err != nil {
		// A daemon that never answered has no tasks.
		return nil
	}
	var errs []error
	for _, t := range list.Tasks {
		if _, err := d.Kill(ctx, &wire.VerbRequest{Id: t.Id, Grace: 0.01}); err != nil {
			errs = append(errs, fmt.Errorf("kill task %s: %w", t.Id, err))
		}
	}
	return errors.Join(errs...)
}

// CPU returns the processor time of the daemon so far.
func (d *Daemon) CPU() float64 {
	st, err := linux.ProcFS("").Stat(d.Cmd.Process.Pid)
	if err != nil {
		return 0
	}
	return (st.User + st.System).Seconds()
}

// output returns what a task has written to its standard output.
func (d *Daemon) output(ctx context.Context, id string) (string, error) {
	stream, err := d.Logs(ctx, &wire.LogsRequest{Id: id, Stream: wire.Stream_STREAM_STDOUT})
	if err != nil {
		return "", err
	}
	defer stream.Close()
	var out bytes.Buffer
	for stream.Receive() {
		out.Write(stream.Msg().Data)
	}
	if err := stream.Err(); err != nil {
		return "", fmt.Errorf("read the output of task %s: %w", id, err)
	}
	return out.String(), nil
}

// errors that a task has written, for a message; empty without any.
func (d *Daemon) Complaint(t *wire.Task) string {
	if t.StderrPath == "" {
		return ""
	}
	f, err := os.Open(t.StderrPath)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 2000))
	if s := strings.TrimSpace(string(text)); s != "" {
		return ": " + s
	}
	return ""
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4000

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if n := len(t.text) - tailBytes; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(b), nil
}

// quote returns the text for the end of an error message.
func (t *tail) quote() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := strings.TrimSpace(string(t.text)); s != "" {
		return "; its log ends with:\n" + s
	}
	return ""
}

// Version returns who the daemon is.
func (d *Daemon) Version(ctx context.Context) (string, error) {
	info, err := d.Node.Info(ctx, &wire.InfoRequest{})
	if err != nil {
		return "", fmt.Errorf("ask the daemon for its version: %w", err)
	}
	return info.Version, nil
}
