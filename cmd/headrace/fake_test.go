package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"headrace/wire"
	"headrace/wire/wireconnect"
)

// fakeDaemon answers on a socket as the protocol says, with tasks that do
// nothing but what a script tells.
type fakeDaemon struct {
	socket string

	mu       sync.Mutex
	changed  chan struct{} // closed at every change and replaced
	tasks    []*wire.Task
	node     *wire.NodeInfo
	chunks   map[string][]*wire.LogChunk
	next     int
	watching map[string]int // open Watch streams by id
	logging  map[string]int // open Logs streams that follow, by id, once all there is was sent
	fail     map[string]error
	ends     map[string]string // what becomes of a task when the next verb is for it: done or forgotten
	follows  int               // how many Watch and Logs streams there may be at a time; 0: any number
	patience time.Duration     // how long what is written of an answer may take to be fetched; 0: for ever
	cut      chan struct{}     // gets one when an answer took longer
	wasCut   atomic.Bool       // from then on the patience is a minute: a busy machine would take more than that little again and again
	attempt  string            // which logs there are
	lastRun  *wire.RunRequest
	lastVerb *wire.VerbRequest
	together int // how many calls of verbs wait for each other before they are answered
	waiting  int
	data     fakeData
	server   *http.Server
	served   chan struct{}
}

func newFake(stateDir string) *fakeDaemon {
	return &fakeDaemon{
		socket: wire.SocketPath(stateDir), changed: make(chan struct{}), next: 100,
		chunks: map[string][]*wire.LogChunk{}, watching: map[string]int{}, logging: map[string]int{}, fail: map[string]error{}, ends: map[string]string{},
		node: &wire.NodeInfo{Version: "v1.2.3", Hostname: "mill", Policy: "cost", Slots: 2},
	}
}

// load reads a ListResponse as JSON: the tasks that there are, and the node.
func (f *fakeDaemon) load(path string) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var list wire.ListResponse
	if err := protojson.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f.tasks = list.Tasks
	if list.Node != nil {
		f.node = list.Node
	}
	return nil
}

func (f *fakeDaemon) start() error {
	if err := os.MkdirAll(filepath.Dir(f.socket), 0o700); err != nil {
		return err
	}
	l, err := wire.Listen(f.socket)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(wireconnect.NewTaskServiceHandler(f))
	mux.Handle(wireconnect.NewNodeServiceHandler(f))
	if !f.data.old {
		mux.Handle(wireconnect.NewDataServiceHandler(f))
	}
	f.server = &http.Server{Handler: f.bounded(mux)}
	f.served = make(chan struct{})
	go func() {
		f.server.Serve(l)
		close(f.served)
	}()
	return nil
}

// bounded refuses streams that are too many, as the daemon does.
func (f *fakeDaemon) bounded(next http.Handler) http.Handler {
	streams := 0
	count := func(n int) (ok bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if n > 0 && f.follows > 0 && streams >= f.follows {
			return false
		}
		streams += n
		return true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case wireconnect.TaskServiceWatchProcedure, wireconnect.TaskServiceLogsProcedure:
			if !count(1) {
				w.Header().Set("Retry-After", "1")
				connect.NewErrorWriter().Write(w, r, connect.NewError(connect.CodeResourceExhausted, errors.New("you have too many answers that go on")))
				return
			}
			defer count(-1)
		}
		if f.patience > 0 {
			w = &impatient{w, f}
		}
		next.ServeHTTP(w, r)
	})
}

// impatient breaks off an answer that nobody fetches, as the daemon does.
type impatient struct {
	http.ResponseWriter
	f *fakeDaemon
}

func (i *impatient) Unwrap() http.ResponseWriter { return i.ResponseWriter }

func (i *impatient) Flush() {
	i.within(func(c *http.ResponseController) error { return c.Flush() })
}

func (i *impatient) Write(p []byte) (n int, err error) {
	i.within(func(*http.ResponseController) error {
		n, err = i.ResponseWriter.Write(p)
		return err
	})
	return n, err
}

func (i *impatient) within(do func(*http.ResponseController) error) {
	control := http.NewResponseController(i.ResponseWriter)
	patience := i.f.patience
	if i.f.wasCut.Load() {
		patience = time.Minute
	}
	control.SetWriteDeadline(time.Now().Add(patience))
	if do(control) != nil {
		i.f.wasCut.Store(true)
		select {
		case i.f.cut <- struct{}{}:
		default:
		}
	}
	control.SetWriteDeadline(time.Time{})
}

// stop breaks all connections at once, as the death of a daemon does.
func (f *fakeDaemon) stop() {
	f.server.Close()
	<-f.served
	os.Remove(f.socket)
}

// change calls do with the state locked and wakes everybody who waits.
func (f *fakeDaemon) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

// await blocks until ready, called with the state locked, says so.
func (f *fakeDaemon) await(ctx context.Context, ready func() bool) error {
	for {
		f.mu.Lock()
		is, changed := ready(), f.changed
		f.mu.Unlock()
		if is {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// failure returns what a script wants the next call of a method to end with.
func (f *fakeDaemon) failure(method string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.fail[method]
	delete(f.fail, method)
	return err
}

// task returns the live record; the state must be locked.
func (f *fakeDaemon) task(id string) *wire.Task {
	for _, t := range f.tasks {
		if t.Id == id {
			return t
		}
	}
	return nil
}

func notFound(id string) error {
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("no task %s", id))
}

func (f *fakeDaemon) Run(_ context.Context, req *wire.RunRequest) (*wire.RunResponse, error) {
	if err := f.failure("run"); err != nil {
		return nil, err
	}
	resp := &wire.RunResponse{Job: req.Job}
	f.change(func() {
		f.lastRun = req
		for i := range max(req.Input.GetTasks(), 1) {
			f.next++
			t := &wire.Task{Id: fmt.Sprintf("t%d", f.next), Name: req.Name, Argv: req.Argv, State: "running", Progress: -1}
			if req.Input != nil {
				t.Input = &wire.TaskInput{Stream: "s1", Index: i, Of: req.Input.Tasks, Split: req.Input.Split, Files: 1, Bytes: 1e9}
			}
			f.tasks = append(f.tasks, t)
			resp.Ids = append(resp.Ids, t.Id)
		}
	})
	resp.Id = resp.Ids[0]
	if req.Input != nil && resp.Job == "" {
		resp.Job = "j1"
	}
	if f.data.old {
		return &wire.RunResponse{Id: resp.Id}, nil
	}
	return resp, nil
}

func (f *fakeDaemon) Get(_ context.Context, req *wire.GetRequest) (*wire.Task, error) {
	if err := f.failure("get"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.task(req.Id)
	if t == nil {
		return nil, notFound(req.Id)
	}
	return proto.CloneOf(t), nil
}

func (f *fakeDaemon) List(_ context.Context, req *wire.ListRequest) (*wire.ListResponse, error) {
	if err := f.failure("list"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	list := &wire.ListResponse{Node: f.node}
	for _, t := range f.tasks {
		if req.All || !ended(t) {
			t = proto.CloneOf(t)
			t.History = nil
			list.Tasks = append(list.Tasks, t)
		}
	}
	return list, nil
}

func (f *fakeDaemon) Watch(ctx context.Context, req *wire.WatchRequest, out *connect.ServerStream[wire.WatchEvent]) error {
	f.change(func() { f.watching[req.Id]++ })
	defer f.change(func() { f.watching[req.Id]-- })
	sent := map[string]*wire.Task{}
	for {
		f.mu.Lock()
		changed := f.changed
		event := f.news(req.Id, sent)
		f.mu.Unlock()
		if len(event.Tasks)+len(event.Forgotten) > 0 {
			if err := out.Send(event); err != nil {
				return err
			}
		}
		if req.Id != "" && (sent[req.Id] == nil || ended(sent[req.Id])) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// news returns what has changed since sent, which it brings up to date.
func (f *fakeDaemon) news(id string, sent map[string]*wire.Task) *wire.WatchEvent {
	event := &wire.WatchEvent{}
	for _, t := range f.tasks {
		if (id == "" || t.Id == id) && !proto.Equal(t, sent[t.Id]) {
			sent[t.Id] = proto.CloneOf(t)
			event.Tasks = append(event.Tasks, sent[t.Id])
		}
	}
	for old := range sent {
		if f.task(old) == nil {
			delete(sent, old)
			event.Forgotten = append(event.Forgotten, old)
		}
	}
	return event
}

func (f *fakeDaemon) Logs(ctx context.Context, req *wire.LogsRequest, out *connect.ServerStream[wire.LogChunk]) error {
	if err := f.failure("logs"); err != nil {
		return err
	}
	up := false
	defer func() {
		if up {
			f.change(func() { f.logging[req.Id]-- })
		}
	}()
	from, at := map[wire.Stream]int64{}, map[wire.Stream]int64{}
	if req.StdoutFrom != nil && (req.StdoutLog == "" || req.StdoutLog == f.attempt) {
		from[wire.Stream_STREAM_STDOUT] = *req.StdoutFrom
	}
	if req.StderrFrom != nil && (req.StderrLog == "" || req.StderrLog == f.attempt) {
		from[wire.Stream_STREAM_STDERR] = *req.StderrFrom
	}
	if req.Tail != nil && len(from) == 0 { // each chunk is a line
		f.mu.Lock()
		all := f.chunks[req.Id]
		f.mu.Unlock()
		for _, s := range []wire.Stream{wire.Stream_STREAM_STDOUT, wire.Stream_STREAM_STDERR} {
			starts := []int64{0}
			for _, c := range all {
				if c.Stream == s {
					starts = append(starts, starts[len(starts)-1]+int64(len(c.Data)))
				}
			}
			from[s] = starts[max(0, len(starts)-1-int(*req.Tail))]
			if err := out.Send(&wire.LogChunk{Stream: s, Offset: from[s]}); err != nil {
				return err
			}
		}
	}
	for sent := 0; ; {
		f.mu.Lock()
		t, changed := f.task(req.Id), f.changed
		all := slices.Clone(f.chunks[req.Id])
		over := t == nil || ended(t) || !req.Follow
		f.mu.Unlock()
		for _, c := range all[sent:] {
			c = &wire.LogChunk{Data: c.Data, Stream: c.Stream, Offset: at[c.Stream], Log: f.attempt}
			at[c.Stream] += int64(len(c.Data))
			if req.Stream != wire.Stream_STREAM_BOTH && req.Stream != c.Stream || c.Offset < from[c.Stream] {
				continue
			}
			if err := out.Send(c); err != nil {
				return err
			}
		}
		sent = len(all)
		if over {
			return nil
		}
		if !up {
			up = true
			f.change(func() { f.logging[req.Id]++ })
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// verb moves a task to a state.
func (f *fakeDaemon) verb(ctx context.Context, name, state string, req *wire.VerbRequest) (*wire.Task, error) {
	if err := f.failure(name); err != nil {
		return nil, err
	}
	if err := f.failure(name + ":" + req.Id); err != nil {
		return nil, err
	}
	if err := f.ending(req.Id); err != nil {
		return nil, err
	}
	f.change(func() { f.waiting++ })
	if err := f.await(ctx, func() bool { return f.waiting >= f.together }); err != nil {
		return nil, err
	}
	var t *wire.Task
	f.change(func() {
		f.lastVerb = req
		if live := f.task(req.Id); live != nil {
			live.State = state
			t = proto.CloneOf(live)
		}
	})
	if t == nil {
		return nil, notFound(req.Id)
	}
	return t, nil
}

// ending lets a task end or be forgotten if a script has said so, and returns what the daemon says then.
func (f *fakeDaemon) ending(id string) error {
	var err error
	f.change(func() {
		switch t := f.task(id); {
		case t == nil:
		case f.ends[id] == "done":
			t.State = "done"
			err = connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("task %s has ended already", id))
		case f.ends[id] == "forgotten":
			f.tasks = slices.DeleteFunc(f.tasks, func(t *wire.Task) bool { return t.Id == id })
			err = notFound(id)
		}
		delete(f.ends, id)
	})
	return err
}

func (f *fakeDaemon) Suspend(ctx context.Context, req *wire.VerbRequest) (*wire.Task, error) {
	return f.verb(ctx, "suspend", "suspended", req)
}

func (f *fakeDaemon) Resume(ctx context.Context, req *wire.VerbRequest) (*wire.Task, error) {
	return f.verb(ctx, "resume", "running", req)
}

func (f *fakeDaemon) Checkpoint(ctx context.Context, req *wire.VerbRequest) (*wire.Task, error) {
	return f.verb(ctx, "checkpoint", "checkpointed", req)
}

func (f *fakeDaemon) Restore(ctx context.Context, req *wire.VerbRequest) (*wire.Task, error) {
	return f.verb(ctx, "restore", "running", req)
}

func (f *fakeDaemon) Kill(ctx context.Context, req *wire.VerbRequest) (*wire.Task, error) {
	return f.verb(ctx, "kill", "killed", req)
}

func (f *fakeDaemon) Forget(_ context.Context, req *wire.VerbRequest) (*wire.ForgetResponse, error) {
	if err := f.failure("forget"); err != nil {
		return nil, err
	}
	f.change(func() {
		f.tasks = slices.DeleteFunc(f.tasks, func(t *wire.Task) bool { return t.Id == req.Id })
	})
	return &wire.ForgetResponse{}, nil
}

func (f *fakeDaemon) Info(context.Context, *wire.InfoRequest) (*wire.NodeInfo, error) {
	return f.node, nil
}
