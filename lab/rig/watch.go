package rig

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"headrace"
	"headrace/wire"
	"headrace/wire/convert"
)

// Watch follows all tasks of a daemon. It notes when news arrives by our own
// monotonic clock, which is what response times are measured with.
type Watch struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	tasks map[string]*Watched
	err   error
	// news is closed and replaced at every change.
	news chan struct{}
}

// Watched is a task as last heard of.
type Watched struct {
	Task *wire.Task
	// Ended is when the news of its end arrived; zero before.
	Ended time.Time
}

func startWatch(d *Daemon) (*Watch, error) {
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := d.Watch(ctx, &wire.WatchRequest{})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch the tasks: %w", err)
	}
	w := &Watch{cancel: cancel, done: make(chan struct{}), tasks: map[string]*Watched{}, news: make(chan struct{})}
	go func() {
		defer close(w.done)
		defer stream.Close()
		for stream.Receive() {
			w.take(stream.Msg(), time.Now())
		}
		w.fail(d, stream.Err())
	}()
	return w, nil
}

func (w *Watch) take(e *wire.WatchEvent, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range e.Tasks {
		known := w.tasks[t.Id]
		if known == nil {
			known = &Watched{}
			w.tasks[t.Id] = known
		}
		known.Task = t
		if known.Ended.IsZero() && Final(t) {
			known.Ended = now
		}
	}
	for _, id := range e.Forgotten {
		delete(w.tasks, id)
	}
	w.wake()
}

func (w *Watch) fail(d *Daemon, err error) {
	if err == nil {
		err = errors.New("the stream has ended")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = fmt.Errorf("the daemon is gone: %w%s", err, d.log.quote())
	w.wake()
}

func (w *Watch) wake() {
	close(w.news)
	w.news = make(chan struct{})
}

func (w *Watch) stop() {
	w.cancel()
	<-w.done
}

// failed reports whether no more news will come.
func (w *Watch) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil
}

// Get returns what is known of a task; task is nil before the first news.
func (w *Watch) Get(id string) (Watched, <-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.tasks[id]; t != nil {
		return *t, w.news, w.err
	}
	return Watched{}, w.news, w.err
}

// Until waits for a task to be as want says, and fails when the task ends
// otherwise.
func (w *Watch) Until(ctx context.Context, id string, want func(*wire.Task) bool) (Watched, error) {
	for {
		t, news, err := w.Get(id)
		switch {
		case t.Task != nil && want(t.Task):
			return t, nil
		case err != nil:
			return t, err
		case t.Task != nil && Final(t.Task):
			return t, fmt.Errorf("task %s ended: %s", id, Ending(t.Task))
		}
		select {
		case <-news:
		case <-ctx.Done():
			return t, ctx.Err()
		}
	}
}

// End waits for the end of a task.
func (w *Watch) End(ctx context.Context, id string) (Watched, error) {
	return w.Until(ctx, id, Final)
}

// Final reports whether a task has ended.
func Final(t *wire.Task) bool { return convert.Final(t) }

// InState reports whether a task is in the state, for Until.
func InState(s headrace.TaskState) func(*wire.Task) bool {
	return func(t *wire.Task) bool { return convert.In(t, s) }
}

// Ending says how a task ended.
func Ending(t *wire.Task) string {
	s := fmt.Sprintf("%s, exit code %d", convert.StateName(t), t.ExitCode)
	if t.Reason != "" {
		s += ", " + t.Reason
	}
	return s
}
