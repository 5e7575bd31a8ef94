package lab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"headrace/internal/linux"
)

// Ways to read a file with several consumers.
const (
	// methodRegions: every consumer reads regions of its own (what tasks of HDFS do).
	methodRegions = "own regions"
	// methodStream: the daemon reads the file and deals records.
	methodStream = "stream"
	// methodPlain: one program reads the file from its beginning to its end.
	methodPlain = "cat"
)

// A readJob reads one file.
type readJob struct {
	file recordFile
	// after is when it is submitted.
	after     time.Duration
	consumers int
	// slow is the rate in bytes per second of one of its consumers; 0: none.
	slow int64
}

// A readMethod reads files. begin makes ready what it needs, before the clock
// starts; all that it starts runs in the group.
type readMethod interface {
	begin(ctx context.Context, g *readGroup, jobs []readJob) (readSession, error)
}

// A readSession is for one run. job may be called from several goroutines; it
// returns what the consumers told and when the last of them had ended. count is
// false for consumers that do not count records; then there is one.
type readSession interface {
	job(ctx context.Context, j readJob) (told []Consumed, ended time.Duration, err error)
	count() bool
	// daemon is the processor time of the daemon so far, if there is one.
	daemon() float64
	// close ends what begin has started.
	close() error
}

// regions is the method of HDFS: each job has a list of regions and runs as many
// processes at a time as it has consumers, each of which reads one region.
type regions struct {
	lab   string // the program
	bytes int64
	g     *readGroup
}

func (m regions) begin(_ context.Context, g *readGroup, _ []readJob) (readSession, error) {
	m.g = g
	return m, nil
}

func (m regions) count() bool     { return true }
func (m regions) daemon() float64 { return 0 }
func (m regions) close() error    { return nil }

func (m regions) job(ctx context.Context, j readJob) ([]Consumed, time.Duration, error) {
	n := int((j.file.bytes + m.bytes - 1) / m.bytes)
	told, errs := make([]Consumed, n), make([]error, n)
	next := make(chan int)
	var consumers sync.WaitGroup
	for range j.consumers {
		consumers.Go(func() {
			for i := range next {
				told[i], errs[i] = m.region(ctx, j, i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	consumers.Wait()
	return told, linux.Clock(), errors.Join(errs...)
}

func (m regions) region(ctx context.Context, j readJob, i int) (Consumed, error) {
	args := []string{"bench-task", "consume", "-file", j.file.path,
		"-from", strconv.FormatInt(int64(i)*m.bytes, 10), "-length", strconv.FormatInt(m.bytes, 10)}
	if i == 0 && j.slow > 0 {
		args = append(args, "-slow", strconv.FormatInt(j.slow, 10))
	}
	cmd := exec.Command(m.lab, args...)
	cmd.Env = taskEnv()
	out, err := run(ctx, m.g.enter(cmd))
	if err != nil {
		return Consumed{}, fmt.Errorf("%w: region %d: %w", errWrong, i, err)
	}
	return consumedOf(out)
}

// plain is cat.
type plain struct{ g *readGroup }

func (m plain) begin(_ context.Context, g *readGroup, _ []readJob) (readSession, error) {
	return plain{g}, nil
}

func (m plain) count() bool     { return false }
func (m plain) daemon() float64 { return 0 }
func (m plain) close() error    { return nil }

func (m plain) job(ctx context.Context, j readJob) ([]Consumed, time.Duration, error) {
	began := linux.Clock()
	cmd := m.g.enter(exec.Command("/bin/sh", "-c", `exec cat "$0" >/dev/null`, j.file.path))
	_, err := run(ctx, cmd)
	ended := linux.Clock()
	if err != nil {
		return nil, ended, fmt.Errorf("%w: cat: %w", errWrong, err)
	}
	return []Consumed{{Began: began.Seconds(), Ended: ended.Seconds()}}, ended, nil
}

// run returns what a program has written to its standard output. It is killed when
// ctx ends.
func run(ctx context.Context, cmd *exec.Cmd) (string, error) {
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
