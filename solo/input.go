package solo

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"headrace"
	"headrace/fileset"
	"headrace/internal/linux"
	"headrace/report"
	"headrace/stream"
	"headrace/wire"
)

// checkInput refuses what cannot be dealt.
func checkInput(q *wire.Input) error {
	if err := checkInputPaths(q.Paths); err != nil {
		return err
	}
	switch q.Split {
	case wire.Split_SPLIT_NONE:
		if q.Tasks > 1 {
			return refusal("%d tasks, but no split says how they share the input; give one", q.Tasks)
		}
	case wire.Split_SPLIT_LINES, wire.Split_SPLIT_FIXED, wire.Split_SPLIT_RAW, wire.Split_SPLIT_FILES:
	default:
		return refusal("split %d is unknown", q.Split)
	}
	if q.Tasks > stream.MaxConsumers {
		return refusal("%d tasks; at most %d can share an input", q.Tasks, stream.MaxConsumers)
	}
	if q.Buffer != 0 && q.Buffer < stream.MinBuffer {
		return refusal("a buffer of %s is too small; give at least %s, or nothing for the default", report.Bytes(q.Buffer), report.Bytes(stream.MinBuffer))
	}
	return nil
}

// checkRecord refuses records of a fixed size that no buffer of the request can
// hold; usual is the daemon's.
func checkRecord(q *wire.Input, usual int64) error {
	buffer := cmp.Or(q.Buffer, usual, stream.DefaultBuffer)
	if q.Split == wire.Split_SPLIT_FIXED && q.RecordSize > buffer {
		return refusal("records of %s do not fit into the buffer of %s; give a larger one, or smaller records", report.Bytes(q.RecordSize), report.Bytes(buffer))
	}
	return nil
}

// ruleOf is how the records of a request end.
func ruleOf(q *wire.Input) stream.Rule {
	switch q.Split {
	case wire.Split_SPLIT_LINES:
		if len(q.Delimiter) == 0 {
			return stream.Rule{Split: stream.Lines, Delimiter: []byte("\n")}
		}
		return stream.Rule{Split: stream.Lines, Delimiter: q.Delimiter}
	case wire.Split_SPLIT_FIXED:
		return stream.Rule{Split: stream.Fixed, Size: q.RecordSize}
	case wire.Split_SPLIT_FILES:
		return stream.Rule{Split: stream.Files}
	}
	return stream.Rule{Split: stream.Raw}
}

// runInput accepts the tasks of a job that reads.
func (s *service) runInput(ctx context.Context, q *wire.RunRequest, by caller) (*wire.RunResponse, error) {
	tasks, err := s.inputTasks(q, by)
	if err != nil {
		return nil, err
	}
	cred := tasks[0].spec.Credentials()
	in := input{Of: len(tasks), Split: q.Input.Split, NoWarm: q.Input.NoWarm}
	if q.Input.Split == wire.Split_SPLIT_NONE {
		tasks[0].waiting.resident, err = s.findInput(ctx, q.Input, cred, &in)
	} else {
		err = s.openStream(ctx, q.Input, cred, &in)
	}
	if err != nil {
		return nil, err
	}
	for i, t := range tasks {
		own := in
		own.Index = i
		if i == 0 {
			own.Paths = q.Input.Paths
		}
		t.rec.Input = &own
	}
	// Not given up halfway: the stream is there already.
	ids, job, err := s.loop.submitAll(context.WithoutCancel(ctx), by.viewer(), tasks)
	if err != nil {
		if in.Stream != "" && !errors.Is(err, errStopping) {
			err = errors.Join(err, s.loop.streams.Remove(in.Stream))
		}
		return nil, err
	}
	res := &wire.RunResponse{Id: string(ids[0]), Job: string(job)}
	for _, id := range ids {
		res.Ids = append(res.Ids, string(id))
	}
	return res, nil
}

// inputTasks makes the tasks of a job, all alike.
func (s *service) inputTasks(q *wire.RunRequest, by caller) ([]*task, error) {
	if err := checkInput(q.Input); err != nil {
		return nil, err
	}
	if err := checkRecord(q.Input, s.loop.cfg.Buffer); err != nil {
		return nil, err
	}
	if q.Stdin != "" && q.Input.Split != wire.Split_SPLIT_NONE {
		return nil, refusal("a file for standard input and a split input; give one of them")
	}
	var tasks []*task
	for range max(1, q.Input.Tasks) {
		t, err := newTask(q, by, &s.loop.cfg)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// findInput looks at files that the command will open itself, and at how much of
// them is in memory.
func (s *service) findInput(ctx context.Context, q *wire.Input, cred linux.Credentials, in *input) (resident int64, err error) {
	err = s.data.searches.find(ctx, cred, q.Paths, fileset.Visitor{File: func(f fileset.File) error {
		in.Files++
		in.Bytes += f.Size
		resident += s.loop.reading.resident(f.Path, f.Size)
		return nil
	}})
	return resident, asRefusal(err)
}

// submitAll accepts several tasks at once, as one job: all of them are durable,
// or none.
func (l *loop) submitAll(ctx context.Context, by viewer, tasks []*task) ([]headrace.TaskID, headrace.JobID, error) {
	c := &call{reply: make(chan reply, 1)}
	l.post(func() {
		if err := l.refusesFrom(by, tasks); err != nil {
			l.later(func() { c.reply <- reply{err: err} })
			return
		}
		for _, t := range tasks {
			l.admit(t)
			if t.rec.Job == "" {
				t.rec.Job = headrace.JobID(fmt.Sprintf("j%d", tasks[0].rec.Order))
			}
		}
		l.answer([]*call{c}, tasks[0], nil)
	})
	select {
	case r := <-c.reply:
		if r.err != nil {
			return nil, "", r.err
		}
	case <-ctx.Done():
		return nil, "", ctx.Err()
	case <-l.dead:
		return nil, "", errStopping
	}
	ids := make([]headrace.TaskID, len(tasks))
	for i, t := range tasks {
		ids[i] = t.spec.ID // the loop does not change it any more
	}
	return ids, tasks[0].rec.Job, nil
}
