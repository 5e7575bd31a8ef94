package solo

import (
	"context"
	"errors"

	"headrace"
	"headrace/data"
	"headrace/serve"
	"headrace/solo/journal"
	"headrace/wire"
)

// streamOf returns the stream that the task is a consumer of, empty for none.
func (t *task) streamOf() string {
	if t.rec.Input == nil {
		return ""
	}
	return t.rec.Input.Stream
}

// opensItself tells whether the task has declared files that it will open itself.
func (t *task) opensItself() bool {
	return t.rec.Input != nil && t.rec.Input.Split == wire.Split_SPLIT_NONE
}

// inputKey names the task's input; the tasks of a stream have one together.
func (t *task) inputKey() string {
	if id := t.streamOf(); id != "" {
		return data.StreamKey(id)
	}
	return "task:" + string(t.rec.ID)
}

// inputView returns what the policy may know of the task's input.
func (t *task) inputView() headrace.InputView {
	if !t.opensItself() {
		return headrace.InputView{}
	}
	in := headrace.InputView{Bytes: t.rec.Input.Bytes, Resident: t.resident}
	// Where it was when it was last saved is not known.
	if t.known && t.rec.State == headrace.Running && t.rec.Checkpoint == nil {
		in.FromDisk, in.Cold = min(t.stats.Usage.ReadBytes, t.had), t.cold
	}
	return in
}

// runInput accepts the tasks of a job that reads.
func (s *service) runInput(ctx context.Context, q *wire.RunRequest, by serve.Caller) (*wire.RunResponse, error) {
	tasks, err := s.inputTasks(q, by)
	if err != nil {
		return nil, err
	}
	cred := tasks[0].spec.Credentials()
	in := journal.Input{Of: len(tasks), Split: q.Input.Split, NoWarm: q.Input.NoWarm}
	if in.Split == wire.Split_SPLIT_FIXED {
		in.RecordSize = q.Input.RecordSize
	}
	var found data.Found
	if q.Input.Split == wire.Split_SPLIT_NONE {
		found, err = s.files.Find(ctx, cred, q.Input.Paths)
	} else {
		in.Stream, found, err = s.files.OpenStream(ctx, q.Input, cred, in.Of)
	}
	if err != nil {
		return nil, err
	}
	in.Files, in.Bytes, tasks[0].resident = found.Files, found.Bytes, found.Resident
	for i, t := range tasks {
		own := in
		own.Index = i
		if i == 0 {
			own.Paths = q.Input.Paths
		}
		t.rec.Input = &own
	}
	// Not given up halfway: the stream is there already.
	ids, job, err := s.loop.calls.submit(context.WithoutCancel(ctx), by.Viewer(), tasks...)
	if err != nil {
		if in.Stream != "" && !errors.Is(err, serve.ErrStopping) {
			err = errors.Join(err, s.files.RemoveStream(in.Stream))
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
func (s *service) inputTasks(q *wire.RunRequest, by serve.Caller) ([]*task, error) {
	if err := s.files.CheckInput(q.Input); err != nil {
		return nil, err
	}
	if q.Stdin != "" && q.Input.Split != wire.Split_SPLIT_NONE {
		return nil, serve.Refusal("a file for standard input and a split input; give one of them")
	}
	var tasks []*task
	for range max(1, q.Input.Tasks) {
		t, err := s.newTask(q, by)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// wireInput shows what a task reads.
func (s *service) wireInput(in *journal.Input, resident int64) *wire.TaskInput {
	w := &wire.TaskInput{
		Stream: in.Stream, Index: uint32(in.Index), Of: uint32(in.Of), Split: in.Split,
		Files: in.Files, Bytes: in.Bytes, Resident: resident,
	}
	sum := in.Dealt
	if sum == nil && in.Stream != "" {
		sum = s.files.Dealt(in.Stream, in.Index)
	}
	if sum != nil {
		w.Dealt, w.DealtHere, w.Units = sum.All, sum.Here, uint32(sum.Units)
	}
	return w
}

// share returns how much of the stream has been dealt, 0 to 1; -1 without a stream.
func share(in *wire.TaskInput) float64 {
	if in.Stream == "" || in.Bytes == 0 {
		return -1
	}
	return min(1, float64(in.Dealt)/float64(in.Bytes))
}
