package read

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"headrace/internal/linux"
	"headrace/lab/rig"
	"headrace/lab/work"
	"headrace/wire"
)

// streamed is the method of Headrace: a daemon of its own for each run, the tasks
// of a job share its file.
type streamed struct{ h *rig.Bench }

type streamSession struct {
	d *rig.Daemon
	// submit is held while a job is submitted: one person does so one by one.
	submit sync.Mutex
}

func (m streamed) begin(ctx context.Context, g *rig.Group, jobs []readJob) (readSession, error) {
	c := rig.DaemonConfig{Policy: "wait", NoSwap: true, Reading: g}
	for _, j := range jobs {
		c.Slots += j.consumers
	}
	d, err := m.h.Start(ctx, c)
	return &streamSession{d: d}, err
}

func (s *streamSession) count() bool     { return true }
func (s *streamSession) daemon() float64 { return s.d.CPU() }

func (s *streamSession) close() error { return s.d.End() }

func (s *streamSession) job(ctx context.Context, j readJob) ([]work.Consumed, time.Duration, error) {
	args := []string{"consume"}
	if j.slow > 0 {
		args = append(args, "-slow", strconv.FormatInt(j.slow, 10), "-slow-number", "0")
	}
	q := s.d.Workload("reader", args)
	q.Input = &wire.Input{Paths: []string{j.file.Path}, Split: wire.Split_SPLIT_LINES, Tasks: uint32(j.consumers), NoWarm: true}
	s.submit.Lock()
	resp, err := s.d.Run(ctx, q)
	s.submit.Unlock()
	if err != nil {
		return nil, 0, fmt.Errorf("%w: submit %d readers of %s: %w", rig.ErrWrong, j.consumers, j.file.Path, err)
	}
	if len(resp.Ids) != j.consumers {
		return nil, 0, fmt.Errorf("the daemon has made %d tasks of %d", len(resp.Ids), j.consumers)
	}
	tasks := make([]*wire.Task, j.consumers)
	for i, id := range resp.Ids {
		t, err := s.d.Tasks.End(ctx, id)
		if err != nil {
			return nil, 0, fmt.Errorf("reader %s: %w", id, err)
		}
		tasks[i] = t.Task
	}
	ended := linux.Clock()
	var told []work.Consumed
	var errs []error
	for i, t := range tasks {
		out, err := s.d.Check(ctx, t, "")
		if err == nil && i > 0 && out == "" && t.GetInput().GetUnits() == 0 {
			continue // nothing was left for it, so it did not run
		}
		if err == nil {
			var c work.Consumed
			c, err = work.ConsumedOf(out)
			told = append(told, c)
		}
		errs = append(errs, err)
	}
	return told, ended, errors.Join(errs...)
}
