package read

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"headrace/internal/linux"
	"headrace/lab/rig"
	"headrace/lab/work"
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
	file work.RecordFile
	// after is when it is submitted.
	after     time.Duration
	consumers int
	// slow is the rate in bytes per second of one of its consumers; 0: none.
	slow int64
}

// A readMethod reads files. begin makes ready what it needs, before the clock
// starts; all that it starts runs in the group.
type readMethod interface {
	begin(ctx context.Context, g *rig.Group, jobs []readJob) (readSession, error)
}

// A readSession is for one run. job may be called from several goroutines; it
// returns what the consumers told and when the last of them had ended. count is
// false for consumers that do not count records; then there is one.
type readSession interface {
	job(ctx context.Context, j readJob) (told []work.Consumed, ended time.Duration, err error)
	count() bool
	// daemon returns the processor time of the daemon so far, if there is one.
	daemon() float64
	// close ends what begin has started.
	close() error
}

// regions is the method of HDFS: each job has a list of regions and runs as many
// processes at a time as it has consumers, each of which reads one region.
type regions struct {
	lab   string // the program
	bytes int64
	g     *rig.Group
}

func (m regions) begin(_ context.Context, g *rig.Group, _ []readJob) (readSession, error) {
	m.g = g
	return m, nil
}

func (m regions) count() bool     { return true }
func (m regions) daemon() float64 { return 0 }
func (m regions) close() error    { return nil }

func (m regions) job(ctx context.Context, j readJob) ([]work.Consumed, time.Duration, error) {
	n := int((j.file.Bytes + m.bytes - 1) / m.bytes)
	told, errs := make([]work.Consumed, n), make([]error, n)
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

func (m regions) region(ctx context.Context, j readJob, i int) (work.Consumed, error) {
	args := []string{"bench-task", "consume", "-file", j.file.Path,
		"-from", strconv.FormatInt(int64(i)*m.bytes, 10), "-length", strconv.FormatInt(m.bytes, 10)}
	if i == 0 && j.slow > 0 {
		args = append(args, "-slow", strconv.FormatInt(j.slow, 10))
	}
	cmd := exec.Command(m.lab, args...)
	cmd.Env = rig.TaskEnv()
	out, err := rig.Run(ctx, m.g.Enter(cmd))
	if err != nil {
		return work.Consumed{}, fmt.Errorf("%w: region %d: %w", rig.ErrWrong, i, err)
	}
	return work.ConsumedOf(out)
}

// plain is cat.
type plain struct{ g *rig.Group }

func (m plain) begin(_ context.Context, g *rig.Group, _ []readJob) (readSession, error) {
	return plain{g}, nil
}

func (m plain) count() bool     { return false }
func (m plain) daemon() float64 { return 0 }
func (m plain) close() error    { return nil }

func (m plain) job(ctx context.Context, j readJob) ([]work.Consumed, time.Duration, error) {
	began := linux.Clock()
	cmd := m.g.Enter(exec.Command("/bin/sh", "-c", `exec cat "$0" >/dev/null`, j.file.Path))
	_, err := rig.Run(ctx, cmd)
	ended := linux.Clock()
	if err != nil {
		return nil, ended, fmt.Errorf("%w: cat: %w", rig.ErrWrong, err)
	}
	return []work.Consumed{{Began: began.Seconds(), Ended: ended.Seconds()}}, ended, nil
}
