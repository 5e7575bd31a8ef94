package yarn

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Steps is the work of a job's tasks: each does so many steps, one after the other,
// and writes down when each was done. A task that is started again starts with the
// first, so that what was lost shows as steps done more than once.
type Steps struct {
	// Dir is where tasks write; it must be absolute and exist. One directory for a
	// job.
	Dir string
	// Count of the steps of a task, and how long one takes.
	Count int
	Each  time.Duration
}

// stepsScript writes a step only when it is done, and says so in two logs, one that stays open and one that does not. A task is told by the application
// master of this package, or by DistributedShell.
const stepsScript = `#!/bin/bash
export LC_ALL=C
task=${HEADRACE_TASK:-$YARN_SHELL_ID} logs=${LOG_DIRS:-$PWD}
file=$1/$task.$CONTAINER_ID
: >> "$file"
for ((step = 1; step <= $2; step++)); do
  sleep "$3"
  echo "$step $EPOCHREALTIME" >> "$file"
  echo "$step"
  echo "$step" >> "${logs%%,*}/journal"
  while [ -e "$1.hold" ] && [ ! -e "$1.hold/$step" ]; do sleep 0.05; done
done
`

// NewSteps makes the directory for a job below that of the cluster.
func (in *installation) NewSteps(job string, count int, each time.Duration) (Steps, error) {
	s := Steps{Dir: filepath.Join(in.Dir, "steps", job), Count: count, Each: each}
	if err := os.MkdirAll(s.Dir, 0o777); err != nil {
		return s, err
	}
	// Beyond the umask: containers may belong to others.
	if err := os.Chmod(s.Dir, 0o777); err != nil {
		return s, err
	}
	return s, os.WriteFile(s.script(), []byte(stepsScript), 0o755)
}

// script returns one for each job: a shell reads it while it runs.
func (s Steps) script() string { return s.Dir + ".sh" }

// Hold has each task stand still when it has done a step, or one that comes later, until GoOn; also after the last. Tasks that stand still already go
// on to that step.
func (s Steps) Hold(step int) error {
	err := os.MkdirAll(s.holdDir(), 0o755)
	// By names: a file that a task reads may be open in its checkpoint, and would have to be there when it goes on.
	for before := 1; before < step; before++ {
		err = errors.Join(err, os.WriteFile(filepath.Join(s.holdDir(), strconv.Itoa(before)), nil, 0o644))
	}
	return err
}

// GoOn lets tasks go on, if they are held.
func (s Steps) GoOn() error { return os.RemoveAll(s.holdDir()) }

// holdDir is there while tasks are held, with the steps after which they go on all the same.
func (s Steps) holdDir() string { return s.Dir + ".hold" }

// Command returns the line for a ShellJob.
func (s Steps) Command() string {
	return fmt.Sprintf("bash %s %s %d %s", s.script(), s.Dir, s.Count, strconv.FormatFloat(s.Each.Seconds(), 'f', -1, 64))
}

// An Attempt is what one container has done of a task.
type Attempt struct {
	Task, Container string
	// Done is when the steps were done, the first step first.
	Done []time.Time
}

// LongestPause returns the longest time between two steps.
func (a Attempt) LongestPause() time.Duration {
	var longest time.Duration
	for i := 1; i < len(a.Done); i++ {
		longest = max(longest, a.Done[i].Sub(a.Done[i-1]))
	}
	return longest
}

// Attempts returns those that were begun, by task.
func (s Steps) Attempts() (map[string][]Attempt, error) {
	files, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, err
	}
	out := map[string][]Attempt{}
	for _, f := range files {
		task, container, found := strings.Cut(f.Name(), ".")
		if !found {
			return nil, fmt.Errorf("%s was not made by steps", filepath.Join(s.Dir, f.Name()))
		}
		done, err := readSteps(filepath.Join(s.Dir, f.Name()))
		if err != nil {
			return nil, err
		}
		out[task] = append(out[task], Attempt{Task: task, Container: container, Done: done})
	}
	return out, nil
}

// readSteps fails when a step is missing or was done twice in one container.
func readSteps(path string) ([]time.Time, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var done []time.Time
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		number, at, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		if err != nil || n != len(done)+1 {
			return nil, fmt.Errorf("%s: step %s after step %d", path, number, len(done))
		}
		seconds, err := strconv.ParseFloat(at, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: step %d: %w", path, n, err)
		}
		whole, part := math.Modf(seconds)
		done = append(done, time.Unix(int64(whole), int64(part*1e9)))
	}
	return done, nil
}

// Done returns how many steps were done, over all tasks and attempts.
func (s Steps) Done() (int, error) {
	tasks, err := s.Attempts()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, attempts := range tasks {
		for _, a := range attempts {
			n += len(a.Done)
		}
	}
	return n, nil
}

// Lost returns how many steps were done in vain: those of a task beyond what its best
// attempt has done.
func (s Steps) Lost() (int, error) {
	tasks, err := s.Attempts()
	if err != nil {
		return 0, err
	}
	lost := 0
	for _, attempts := range tasks {
		best, all := 0, 0
		for _, a := range attempts {
			all += len(a.Done)
			best = max(best, len(a.Done))
		}
		lost += all - best
	}
	return lost, nil
}
