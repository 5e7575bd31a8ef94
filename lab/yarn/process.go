package yarn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// endTime is how long a process gets to end, after it was asked to or killed. Daemons of
// Hadoop give what they do at their end 30 s.
const endTime = 2 * time.Minute

// A process is a daemon of a cluster, or a client. Its output goes to a file, which
// is continued when the same daemon is started again.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	// ended is closed when the process is gone; then err is why.
	ended chan struct{}
	err   error
}

// startProcess starts a command in a process group of its own: Ctrl-C on a terminal
// is for us alone.
func startProcess(name, logFile string, cmd *exec.Cmd) (*process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	cmd.Stderr = out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	p := &process{name: name, log: logFile, cmd: cmd, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *process) gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// kill ends the process without a chance to do anything about it, and returns when
// it is gone. Nil and ended processes are fine.
func (p *process) kill() error { return p.end(syscall.SIGKILL) }

// stop asks the process to end, and kills it when it does not.
func (p *process) stop() error {
	if err := p.end(syscall.SIGTERM); err != nil {
		return errors.Join(err, p.kill())
	}
	return nil
}

func (p *process) end(sig syscall.Signal) error {
	if p == nil || p.gone() {
		return nil
	}
	p.cmd.Process.Signal(sig)
	select {
	case <-p.ended:
		return nil
	case <-time.After(endTime):
		return fmt.Errorf("the %s is still there %v after %v", p.name, endTime, sig)
	}
}

// succeed returns when a process has come to a good end.
func (p *process) succeed(ctx context.Context) error {
	select {
	case <-p.ended:
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), p.kill())
	}
	if p.err != nil {
		return p.problem()
	}
	return nil
}

// problem returns what to say when the process has ended and should not have.
func (p *process) problem() error {
	why := "exit status 0"
	if p.err != nil {
		why = p.err.Error()
	}
	return fmt.Errorf("the %s has ended: %s%s", p.name, why, p.quote())
}

// quote returns the end of the log for the end of an error message.
func (p *process) quote() string {
	if s := tailOf(p.log); s != "" {
		return "; " + filepath.Base(p.log) + " ends with:\n" + s
	}
	return ""
}

const tailBytes = 3000

// tailOf returns the end of a file, whole lines; empty without any.
func tailOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		f.Seek(max(0, size-tailBytes), io.SeekStart)
	}
	text, _ := io.ReadAll(io.LimitReader(f, tailBytes))
	if len(text) == tailBytes {
		if _, rest, found := bytes.Cut(text, []byte("\n")); found {
			text = rest
		}
	}
	return strings.TrimSpace(string(text))
}

// kill is kill of a process that is known as running no more.
func kill(p **process) error {
	err := (*p).kill()
	*p = nil
	return err
}

// stop is stop of one that is known as running no more.
func stop(p **process) error {
	err := (*p).stop()
	*p = nil
	return err
}

// died says which of the processes has ended that should run; nil: none.
func died(all []*process) (err error) {
	for _, p := range all {
		if p != nil && p.gone() {
			err = errors.Join(err, p.problem())
		}
	}
	return err
}

func logSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// logHas reports whether a log has a text after the given place.
func logHas(path string, from int64, text string) bool {
	b, err := os.ReadFile(path)
	return err == nil && int64(len(b)) >= from && strings.Contains(string(b[from:]), text)
}

// poll is how long to wait between two looks at something that is about to happen, and seldom
// at most, when it has not for long: a look is a question to a daemon, or a walk through /proc.
const poll, seldom = 50 * time.Millisecond, 250 * time.Millisecond

// await calls done until it reports true, ever more seldom. An error from done is kept for the
// message, and ends the waiting only when it is fatal.
func await(ctx context.Context, what string, limit time.Duration, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not after %v", limit))
	defer cancel()
	var last error
	for began := time.Now(); ; {
		ok, err := done(ctx)
		if ok {
			return nil
		}
		if f := new(fatal); errors.As(err, &f) {
			return fmt.Errorf("%s: %w", what, f.err)
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(context.Cause(ctx), last))
		case <-time.After(min(max(poll, time.Since(began)/16), seldom)):
		}
	}
}

// fatal is an error after which waiting makes no sense.
type fatal struct{ err error }

func (f *fatal) Error() string { return f.err.Error() }
