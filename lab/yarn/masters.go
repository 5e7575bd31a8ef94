package yarn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Masters is one process that is the application master of many jobs, so that a job
// begins without the start of a virtual machine. It may be used by several
// goroutines.
type Masters struct {
	run *Run

	mu    sync.Mutex
	stdin io.WriteCloser
	read  int64 // of the output
	part  string
	jobs  map[string][]Event
}

// Masters starts one; it ends with the cluster. ctx is only for the start.
func (c *clients) Masters(ctx context.Context) (*Masters, error) {
	const heap = 192
	path := []string{c.confDir(), c.o.Jars.Cluster, filepath.Join(c.o.Jars.Lib, "*")}
	cmd := c.java(heap, "headrace.cluster.ShellMasters", path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	m := &Masters{stdin: stdin, jobs: map[string][]Event{}}
	if m.run, err = c.start("masters", cmd); err != nil {
		return nil, err
	}
	_, err = m.Await(ctx, "", "ready")
	return m, err
}

// Submit starts a job, whose name no other may have had.
func (m *Masters) Submit(job ShellJob) error {
	line, err := json.Marshal(shellArguments(job))
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("submit the job %s: %w", job.Name, errors.Join(err, m.run.client.problem()))
	}
	return nil
}

// shellArguments returns those of our own application masters.
func shellArguments(job ShellJob) []string {
	return []string{"--name", job.Name, "--queue", orDefault(job.Queue, "default"), "--priority", strconv.Itoa(job.Priority),
		"--tasks", strconv.Itoa(orDefault(job.Containers, 1)), "--memory", strconv.Itoa(orDefault(job.Memory, 128)),
		"--command", job.Command}
}

// Events returns what has happened to a job so far.
func (m *Masters) Events(job string) ([]Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.catchUp(); err != nil {
		return nil, err
	}
	return append([]Event(nil), m.jobs[job]...), nil
}

// catchUp reads what the process has written since the last time.
func (m *Masters) catchUp() error {
	f, err := os.Open(m.run.out)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(m.read, io.SeekStart); err != nil {
		return err
	}
	text, err := io.ReadAll(f)
	m.read += int64(len(text))
	lines := strings.Split(m.part+string(text), "\n")
	m.part = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		var e struct {
			Event
			Job string `json:"job"`
		}
		if bad := json.Unmarshal([]byte(line), &e); bad != nil {
			return errors.Join(err, fmt.Errorf("application masters have said %q: %w", line, bad))
		}
		m.jobs[e.Job] = append(m.jobs[e.Job], e.Event)
	}
	return err
}

// Await returns the first event of a kind of a job when there is one. It fails when
// the job can have no more events.
func (m *Masters) Await(ctx context.Context, job, kind string) (Event, error) {
	var found Event
	err := await(ctx, fmt.Sprintf("wait for event %s of job %q", kind, job), longestJob, func(context.Context) (bool, error) {
		gone := m.run.client.gone()
		events, err := m.Events(job)
		if err != nil {
			return false, &fatal{err}
		}
		for _, e := range events {
			if e.Event == kind {
				found = e
				return true, nil
			}
			if e.Event == "broken" || e.Event == "finished" {
				return false, &fatal{fmt.Errorf("it is over: %s %s", e.Event, e.Reason)}
			}
		}
		if gone {
			return false, &fatal{m.run.client.problem()}
		}
		return false, nil
	})
	return found, err
}

// longestJob is a bound for a job that does not come to an end.
const longestJob = 30 * time.Minute
