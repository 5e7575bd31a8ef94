package yarn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// A conversation is with a process that carries out many jobs: it reads one a line as JSON
// and tells of each as Events. It may be used by several goroutines.
type conversation struct {
	run *Run

	mu    sync.Mutex
	stdin io.WriteCloser
	read  int64 // of the output
	part  string
	jobs  map[string][]Event
}

// converse starts the process, which ends with the cluster, and returns when it is ready.
func (c *clients) converse(ctx context.Context, name string, cmd *exec.Cmd) (*conversation, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	t := &conversation{stdin: stdin, jobs: map[string][]Event{}}
	if t.run, err = c.start(name, cmd); err != nil {
		return nil, err
	}
	_, err = t.Await(ctx, "", "ready")
	return t, err
}

// say hands over a job.
func (t *conversation) say(name string, job any) error {
	line, err := json.Marshal(job)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("submit the job %s: %w", name, errors.Join(err, t.run.client.problem()))
	}
	return nil
}

// Events returns what has happened to a job so far.
func (t *conversation) Events(job string) ([]Event, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.catchUp(); err != nil {
		return nil, err
	}
	return append([]Event(nil), t.jobs[job]...), nil
}

// catchUp reads what the process has written since the last time.
func (t *conversation) catchUp() error {
	f, err := os.Open(t.run.out)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(t.read, io.SeekStart); err != nil {
		return err
	}
	text, err := io.ReadAll(f)
	t.read += int64(len(text))
	lines := strings.Split(t.part+string(text), "\n")
	t.part = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		if !strings.HasPrefix(line, "{") {
			continue // Hadoop's examples talk to people
		}
		var e struct {
			Event
			Job string `json:"job"`
		}
		if bad := json.Unmarshal([]byte(line), &e); bad != nil {
			return errors.Join(err, fmt.Errorf("the %s has said %q: %w", t.run.client.name, line, bad))
		}
		t.jobs[e.Job] = append(t.jobs[e.Job], e.Event)
	}
	return err
}

// Await returns the first event of a kind of a job when there is one. It fails when
// the job can have no more events.
func (t *conversation) Await(ctx context.Context, job, kind string) (Event, error) {
	var found Event
	err := await(ctx, fmt.Sprintf("wait for event %s of job %q", kind, job), longestJob, func(context.Context) (bool, error) {
		gone := t.run.client.gone()
		events, err := t.Events(job)
		if err != nil {
			return false, &fatal{err}
		}
		for _, e := range events {
			if e.Event == kind {
				found = e
				return true, nil
			}
			if end := e.end(); end != nil {
				return false, &fatal{end}
			}
		}
		if gone {
			return false, &fatal{t.run.client.problem()}
		}
		return false, nil
	})
	return found, err
}

// longestJob is a bound for a job that does not come to an end.
const longestJob = 30 * time.Minute
