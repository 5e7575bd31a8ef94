package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace"
	"headrace/lab/pages"
	"headrace/lab/work"
	"headrace/wire"
	"headrace/wire/convert"
)

// Job is a task of an experiment.
type Job struct {
	Name   string
	Args   []string // of bench-task
	Memory int64    // what it says that it needs
	Answer string   // the last line of its output; empty: not known yet
	Alone  float64  // how long it takes without a daemon
}

// ErrWrong marks a run without numbers after which the others can go on.
var ErrWrong = errors.New("failed run")

// Called returns the name of the task.
func (j Job) Called(otherwise string) string {
	if j.Name != "" {
		return j.Name
	}
	return otherwise
}

// Submit runs a workload.
func (d *Daemon) Submit(ctx context.Context, name string, args []string, memory int64, p headrace.Priority) (string, error) {
	q := d.Workload(name, args)
	q.Priority, q.Memory = uint32(p), memory
	resp, err := d.Run(ctx, q)
	if err != nil {
		return "", fmt.Errorf("submit the task %s: %w", name, err)
	}
	return resp.Id, nil
}

// Workload asks for a task of the lab.
func (d *Daemon) Workload(name string, args []string) *wire.RunRequest {
	return &wire.RunRequest{
		Argv:  append([]string{d.Config.Programs.Lab, "bench-task"}, args...),
		Name:  name,
		Cpus:  1,
		Env:   TaskEnv(),
		Cwd:   "/",
		Umask: proto.Uint32(0o022),
	}
}

// TaskEnv returns the environment of every task. The collector of the Go runtime must
// not change its footprint between runs.
func TaskEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "GOGC=100", "GOMAXPROCS=1"}
}

// AwaitFile waits until the running task has made a file.
func (d *Daemon) AwaitFile(ctx context.Context, id, path string) error {
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		t, _, err := d.Tasks.Get(id)
		if err != nil {
			return err
		}
		if t.Task != nil && Final(t.Task) {
			return fmt.Errorf("%w: task %s ended: %s%s", ErrWrong, id, Ending(t.Task), d.Complaint(t.Task))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// SubmitHeld runs a task that is held back for a while, during which its input
// can be warmed.
func (d *Daemon) SubmitHeld(ctx context.Context, q *wire.RunRequest, wait time.Duration) (string, error) {
	q.Held = true
	until := time.Now().Add(wait)
	resp, err := d.Run(ctx, q)
	if err != nil {
		return "", fmt.Errorf("submit the job %s: %w", q.Name, err)
	}
	if err := WaitUntil(ctx, until); err != nil {
		return "", err
	}
	if _, err := d.Resume(ctx, &wire.VerbRequest{Id: resp.Id}); err != nil {
		return "", fmt.Errorf("let the job %s go: %w", q.Name, err)
	}
	return resp.Id, nil
}

// KeepCold drops the directories from the page cache whenever the task is
// checkpointed, so that a restore reads from storage. The returned function ends that.
func (d *Daemon) KeepCold(ctx context.Context, id string, dirs []string) (stop func()) {
	if len(dirs) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	stored := InState(headrace.Checkpointed)
	go func() {
		defer close(done)
		for {
			if _, err := d.Tasks.Until(ctx, id, stored); err != nil {
				return
			}
			for _, dir := range dirs {
				// What could not be dropped is read faster: seen in the numbers.
				_ = pages.DropCachedTree(dir)
			}
			if _, err := d.Tasks.Until(ctx, id, func(t *wire.Task) bool { return !stored(t) }); err != nil {
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// Check compares a task's answer with the one that it must give, if that is
// known, and returns all that it has written.
func (d *Daemon) Check(ctx context.Context, t *wire.Task, want string) (string, error) {
	if !convert.In(t, headrace.Done) {
		return "", fmt.Errorf("%w: the task %s ended: %s%s", ErrWrong, t.Name, Ending(t), d.Complaint(t))
	}
	out, err := d.output(ctx, t.Id)
	if err != nil {
		return "", err
	}
	if got := work.LastOf(out); want != "" && got != want {
		return "", fmt.Errorf("%w: the task %s gave a WRONG ANSWER: %q, want %q", ErrWrong, t.Name, got, want)
	}
	return out, nil
}

// Dispose ends a task if need be and forgets it. It works after ctx has ended,
// because the next run needs the place.
func (d *Daemon) Dispose(id string) error {
	if id == "" || d.Broken() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	t, err := d.Get(ctx, &wire.GetRequest{Id: id})
	if err != nil {
		return fmt.Errorf("remove task %s: %w", id, err)
	}
	if !Final(t) {
		if _, err := d.Kill(ctx, &wire.VerbRequest{Id: id, Grace: 0.01}); err != nil {
			return fmt.Errorf("remove task %s: %w", id, err)
		}
	}
	if _, err := d.Forget(ctx, &wire.VerbRequest{Id: id}); err != nil {
		return fmt.Errorf("remove task %s: %w", id, err)
	}
	return nil
}

// WaitUntil sleeps until the moment, or until ctx ends.
func WaitUntil(ctx context.Context, moment time.Time) error {
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run returns what a program has written to its standard output. It is killed when
// ctx ends.
func Run(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var stdout, stderr tail
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !stop() {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("%w%s", err, stderr.quote())
	}
	return string(stdout.text), nil
}
