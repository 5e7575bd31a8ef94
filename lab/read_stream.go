package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"headrace/internal/linux"
	"headrace/wire"
)

// streamed is the method of Headrace: a daemon of its own for each run, the tasks
// of a job share its file.
type streamed struct{ h *harness }

type streamSession struct {
	d *daemon
	// submit is held while a job is submitted: one person does so one by one.
	submit sync.Mutex
}

func (m streamed) begin(ctx context.Context, g *readGroup, jobs []readJob) (readSession, error) {
	c := daemonConfig{policy: "wait", noSwap: true, reading: g}
	for _, j := range jobs {
		c.slots += j.consumers
	}
	d, err := m.h.start(ctx, c)
	return &streamSession{d: d}, err
}

func (s *streamSession) count() bool     { return true }
func (s *streamSession) daemon() float64 { return s.d.cpu() }

func (s *streamSession) close() error { return s.d.end() }

func (s *streamSession) job(ctx context.Context, j readJob) ([]Consumed, time.Duration, error) {
	args := []string{"consume"}
	if j.slow > 0 {
		args = append(args, "-slow", strconv.FormatInt(j.slow, 10), "-slow-number", "0")
	}
	q := s.d.workload("reader", args)
	q.Input = &wire.Input{Paths: []string{j.file.path}, Split: wire.Split_SPLIT_LINES, Tasks: uint32(j.consumers), NoWarm: true}
	s.submit.Lock()
	resp, err := s.d.Run(ctx, q)
	s.submit.Unlock()
	if err != nil {
		return nil, 0, fmt.Errorf("%w: submit %d readers of %s: %w", errWrong, j.consumers, j.file.path, err)
	}
	if len(resp.Ids) != j.consumers {
		return nil, 0, fmt.Errorf("the daemon has made %d tasks of %d", len(resp.Ids), j.consumers)
	}
	tasks := make([]*wire.Task, j.consumers)
	for i, id := range resp.Ids {
		t, err := s.d.watch.end(ctx, id)
		if err != nil {
			return nil, 0, fmt.Errorf("reader %s: %w", id, err)
		}
		tasks[i] = t.task
	}
	ended := linux.Clock()
	var told []Consumed
	var errs []error
	for i, t := range tasks {
		out, err := s.d.check(ctx, t, "")
		if err == nil && i > 0 && out == "" && t.GetInput().GetUnits() == 0 {
			continue // nothing was left for it, so it did not run
		}
		if err == nil {
			var c Consumed
			c, err = consumedOf(out)
			told = append(told, c)
		}
		errs = append(errs, err)
	}
	return told, ended, errors.Join(errs...)
}
