package solo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"headrace"
	"headrace/proc"
	"headrace/stream"
	"headrace/wire"
)

// input is what a task reads.
type input struct {
	// Stream deals it, to Of consumers of which the task is number Index; empty:
	// the command opens the files itself.
	Stream string     `json:"stream,omitempty"`
	Index  int        `json:"index,omitempty"`
	Of     int        `json:"of,omitempty"`
	Split  wire.Split `json:"split,omitempty"`
	// Paths were asked for. Of the tasks of a stream only the first has them.
	Paths []string `json:"paths,omitempty"`
	// Files and Bytes are those of the whole job, as found when it came.
	Files  int64 `json:"files"`
	Bytes  int64 `json:"bytes"`
	NoWarm bool  `json:"no_warm,omitempty"`
	// Dealt is what the stream had dealt when it ended; nil before.
	Dealt *dealtSum `json:"dealt,omitempty"`
}

// Streams deals the inputs of tasks. Package stream implements it.
type Streams interface {
	Open(ctx context.Context, spec stream.Spec) (stream.Info, error)
	Info(id string) (stream.Info, error)
	List() []stream.Info
	Fail(id string, consumer, attempt int) error
	Remove(id string) error
}

// streamSocket is where consumers connect, streamDir where streams are kept.
func (c *Config) streamSocket() string { return filepath.Join(c.StateDir, "stream.sock") }
func (c *Config) streamDir() string    { return filepath.Join(c.StateDir, "streams") }

// streamOf is the stream that the task is a consumer of, empty for none.
func (t *task) streamOf() string {
	if t.rec.Input == nil {
		return ""
	}
	return t.rec.Input.Stream
}

// specOf is what is run for the task: its command, or, if a stream deals its
// input, a consumer that runs its command. Every start from the beginning is an
// attempt of its own; what is restored from a checkpoint goes on with its
// attempt.
func (l *loop) specOf(t *task) proc.Spec {
	spec := t.spec
	if !t.hosted() { // else its scheduler sees to it
		spec.Memory, spec.CPUs, spec.PIDs, spec.IOWeight = t.rec.Memory, t.rec.CPUs, t.rec.PIDs, t.rec.IOWeight
		if spec.PIDs == 0 {
			spec.PIDs = l.cfg.TaskPIDs
		}
	}
	if id := t.streamOf(); id != "" {
		spec.Under = []string{
			"consume", "--socket", l.cfg.streamSocket(), "--stream", id,
			"--consumer", strconv.Itoa(t.rec.Input.Index), "--attempt", strconv.Itoa(t.rec.Starts),
		}
	}
	return spec
}

// giveUpLease returns what the task's attempt was dealt to the others, unless
// the attempt has committed it.
func (l *loop) giveUpLease(t *task) {
	id := t.streamOf()
	if id == "" || t.rec.Starts == 0 {
		return
	}
	task, index, attempt := t.rec.ID, t.rec.Input.Index, t.rec.Starts
	l.later(func() {
		l.background(func(context.Context) func() {
			l.failAttempt(task, id, index, attempt)
			return nil
		})
	})
}

func (l *loop) failAttempt(task headrace.TaskID, id string, index, attempt int) {
	if err := l.streams.Fail(id, index, attempt); err != nil && !errors.Is(err, stream.ErrUnknown) {
		l.log.Error("what a task was dealt does not go to the others", "id", task, "stream", id, "err", err)
	}
}

// reconcileStreams makes the streams agree with the records of the tasks.
func (l *loop) reconcileStreams() error {
	users := map[string][]*task{}
	for _, t := range l.tasks {
		id := t.streamOf()
		if id == "" {
			continue
		}
		users[id] = append(users[id], t)
		if t.rec.Starts > 0 && (t.through() || t.rec.State == headrace.Pending && t.rec.Op == nil) {
			l.failAttempt(t.rec.ID, id, t.rec.Input.Index, t.rec.Starts)
		}
	}
	for _, s := range l.streams.List() {
		if tasks := users[s.ID]; len(tasks) > 0 {
			l.endStream(s.ID, tasks)
		} else if err := l.streams.Remove(s.ID); err != nil { // its tasks were never accepted
			return fmt.Errorf("remove stream %s: %w", s.ID, err)
		}
	}
	return nil
}

// through tells whether the task has ended and cannot go on.
func (t *task) through() bool {
	return t.rec.State.Final() && (t.rec.State != headrace.Lost || t.rec.Checkpoint == nil)
}

// leaveStream ends the stream of a task that has ended, if it was the last one.
func (l *loop) leaveStream(t *task) {
	id := t.streamOf()
	if id == "" {
		return
	}
	var tasks []*task
	for _, other := range l.tasks {
		if other.streamOf() == id {
			tasks = append(tasks, other)
		}
	}
	l.endStream(id, tasks)
}

// endStream removes a stream whose tasks have all ended: nobody can read it any
// more. What it has dealt stays in their records.
func (l *loop) endStream(id string, tasks []*task) {
	for _, t := range tasks {
		if !t.through() {
			return
		}
	}
	info, err := l.streams.Info(id)
	if err != nil {
		return // it has been removed
	}
	for _, t := range tasks {
		in := *t.rec.Input
		in.Dealt = dealt(info, in.Index)
		t.rec.Input = &in
		l.touch(t)
	}
	l.later(func() {
		l.background(func(context.Context) func() {
			if err := l.streams.Remove(id); err != nil && !errors.Is(err, stream.ErrUnknown) {
				l.log.Error("remove a stream", "stream", id, "err", err)
			}
			return nil
		})
	})
}

// dealtSum is what a stream has dealt to all its consumers and to one.
type dealtSum struct {
	All   int64 `json:"all"`
	Here  int64 `json:"here"`
	Units int   `json:"units"`
}

func dealt(info stream.Info, index int) *dealtSum {
	sum := &dealtSum{All: info.DealtBytes}
	if index < len(info.Consumers) {
		sum.Here, sum.Units = info.Consumers[index].Bytes, info.Consumers[index].Units
	}
	return sum
}

// inputTrouble is why the task's stream has failed, empty if it has not.
func (l *loop) inputTrouble(t *task) string {
	id := t.streamOf()
	if id == "" {
		return ""
	}
	info, err := l.streams.Info(id)
	if err != nil {
		return ""
	}
	return info.Error
}

// wireInput shows what a task reads.
func (s *service) wireInput(in *input, resident int64) *wire.TaskInput {
	w := &wire.TaskInput{
		Stream: in.Stream, Index: uint32(in.Index), Of: uint32(in.Of), Split: in.Split,
		Files: in.Files, Bytes: in.Bytes, Resident: resident,
	}
	sum := in.Dealt
	if sum == nil && in.Stream != "" {
		if info, err := s.loop.streams.Info(in.Stream); err == nil {
			sum = dealt(info, in.Index)
		}
	}
	if sum != nil {
		w.Dealt, w.DealtHere, w.Units = sum.All, sum.Here, uint32(sum.Units)
	}
	return w
}

// share is how much of the stream has been dealt, 0 to 1; -1 without a stream.
func (s *service) share(in *wire.TaskInput) float64 {
	if in == nil || in.Stream == "" || in.Bytes == 0 {
		return -1
	}
	return min(1, float64(in.Dealt)/float64(in.Bytes))
}
