package solo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"headrace"
	"headrace/data"
	"headrace/proc"
	"headrace/serve"
	"headrace/solo/board"
	"headrace/solo/request"
	"headrace/wire"
	"headrace/wire/convert"
	"headrace/wire/wireconnect"
)

// maxRequest is the largest message that is read, in bytes: a command at its
// limit, in JSON with everything escaped, fits.
const maxRequest = 16 << 20

// service answers requests: what only reads from the board, the rest through
// the loop.
type service struct {
	loop    *loop
	board   *board.Board
	version string
	files   *data.Files
}

var (
	_ wireconnect.TaskServiceHandler = (*service)(nil)
	_ wireconnect.NodeServiceHandler = (*service)(nil)
	_ wireconnect.HostServiceHandler = (*service)(nil)
)

func (s *service) handler() http.Handler {
	opts := []connect.HandlerOption{
		connect.WithInterceptors(serve.Interceptor(procKinds...)),
		connect.WithReadMaxBytes(maxRequest),
		// It is a local socket, and what is small when it comes must not become large.
		connect.WithCompression("gzip", nil, nil),
	}
	mux := http.NewServeMux()
	mux.Handle(wireconnect.NewTaskServiceHandler(s, opts...))
	mux.Handle(wireconnect.NewNodeServiceHandler(s, opts...))
	ofApplications := append(slices.Clone(opts), connect.WithInterceptors(serve.NewApplications(maxPerApplication)))
	mux.Handle(wireconnect.NewHostServiceHandler(s, ofApplications...))
	mux.Handle(wireconnect.NewDataServiceHandler(s.files.Service(), opts...))
	if c := s.loop.cfg.Cluster; c != nil {
		if inputs := c.Inputs(); inputs != nil {
			mux.Handle(wireconnect.NewInputServiceHandler(inputs, ofApplications...))
		}
	}
	return mux
}

// newTask makes what a request asks for a task. It may block, in the user database.
func (s *service) newTask(q *wire.RunRequest, by serve.Caller) (*task, error) {
	c := s.loop.cfg
	want, err := request.Run(q, by, request.Bounds{Slots: c.Slots, Memory: c.Memory, PIDs: c.TaskPIDs})
	if err != nil {
		return nil, err
	}
	return &task{rec: want.Record, spec: want.Spec}, nil
}

// Run accepts a task.
func (s *service) Run(ctx context.Context, q *wire.RunRequest) (*wire.RunResponse, error) {
	by := serve.CallerOf(ctx)
	if q.Input != nil {
		return s.runInput(ctx, q, by)
	}
	t, err := s.newTask(q, by)
	if err != nil {
		return nil, err
	}
	ids, _, err := s.loop.calls.submit(ctx, by.Viewer(), t)
	if err != nil {
		return nil, err
	}
	return &wire.RunResponse{Id: string(ids[0])}, nil
}

// Get shows one task with its history and its whole command.
func (s *service) Get(ctx context.Context, q *wire.GetRequest) (*wire.Task, error) {
	by := serve.CallerOf(ctx)
	snap, ok := s.board.Get(headrace.TaskID(q.Id), by.Viewer())
	if !ok {
		return nil, notFound(q.Id)
	}
	t := s.wireTask(snap, true)
	t.Argv = snap.Argv
	return t, nil
}

// List shows the caller's tasks.
func (s *service) List(ctx context.Context, q *wire.ListRequest) (*wire.ListResponse, error) {
	by := serve.CallerOf(ctx)
	snaps := s.board.List(by.Viewer(), q.All)
	res := &wire.ListResponse{Node: s.nodeInfo(by.Viewer()), Tasks: make([]*wire.Task, 0, len(snaps))}
	for _, snap := range snaps {
		res.Tasks = append(res.Tasks, s.wireTask(snap, false))
	}
	return res, nil
}

// Watch sends what is and then what changes. A reader that is slow gets fewer,
// newer states; nothing waits for it.
func (s *service) Watch(ctx context.Context, q *wire.WatchRequest, stream *connect.ServerStream[wire.WatchEvent]) error {
	by := serve.CallerOf(ctx)
	id := headrace.TaskID(q.Id)
	w, stop := s.board.Watch(by.Viewer(), id)
	defer stop()
	var changed []*board.Task
	var forgotten []headrace.TaskID
	if id == "" {
		changed = s.board.List(by.Viewer(), true)
	} else {
		snap, ok := s.board.Get(id, by.Viewer())
		if !ok {
			return notFound(q.Id)
		}
		changed = []*board.Task{snap}
	}
	for {
		over := id != "" && (len(forgotten) > 0 || slices.ContainsFunc(changed, func(snap *board.Task) bool { return snap.Record.State.Final() }))
		if err := s.sendChanges(stream, changed, forgotten); err != nil || over {
			return err
		}
		select {
		case <-w.Wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.loop.dead:
			return serve.ErrStopping
		}
		changed, forgotten = w.Take()
	}
}

// watchTasks and watchBytes are after how many tasks and bytes a message of Watch ends: what is
// made for a reader who does not read stays small.
const watchTasks, watchBytes = 64, 128 << 10

// sendChanges sends one message, or several where there is much to tell.
func (s *service) sendChanges(stream *connect.ServerStream[wire.WatchEvent], changed []*board.Task, forgotten []headrace.TaskID) error {
	for {
		e, bytes := &wire.WatchEvent{}, 0
		for _, snap := range changed[:min(len(changed), watchTasks)] {
			t := s.wireTask(snap, true)
			e.Tasks = append(e.Tasks, t)
			if bytes += proto.Size(t); bytes >= watchBytes {
				break
			}
		}
		if changed = changed[len(e.Tasks):]; len(changed) == 0 {
			for _, f := range forgotten {
				e.Forgotten = append(e.Forgotten, string(f))
			}
		}
		if err := stream.Send(e); err != nil || len(changed) == 0 {
			return err
		}
	}
}

// Suspend stops a task's processes and holds it.
func (s *service) Suspend(ctx context.Context, q *wire.VerbRequest) (*wire.Task, error) {
	return s.command(ctx, headrace.CommandSuspend, q)
}

// Resume lets a held task run again.
func (s *service) Resume(ctx context.Context, q *wire.VerbRequest) (*wire.Task, error) {
	return s.command(ctx, headrace.CommandResume, q)
}

// Checkpoint writes a task to storage and holds it.
func (s *service) Checkpoint(ctx context.Context, q *wire.VerbRequest) (*wire.Task, error) {
	return s.command(ctx, headrace.CommandCheckpoint, q)
}

// Restore lets a held task run again, from its checkpoint if it has no
// processes.
func (s *service) Restore(ctx context.Context, q *wire.VerbRequest) (*wire.Task, error) {
	return s.command(ctx, headrace.CommandResume, q)
}

// Kill ends a task for good.
func (s *service) Kill(ctx context.Context, q *wire.VerbRequest) (*wire.Task, error) {
	return s.command(ctx, headrace.CommandKill, q)
}

// Forget removes an ended task.
func (s *service) Forget(ctx context.Context, q *wire.VerbRequest) (*wire.ForgetResponse, error) {
	if _, err := s.command(ctx, headrace.CommandForget, q); err != nil {
		return nil, err
	}
	return &wire.ForgetResponse{}, nil
}

func (s *service) command(ctx context.Context, wanted headrace.Command, q *wire.VerbRequest) (*wire.Task, error) {
	by := serve.CallerOf(ctx)
	grace, err := request.Grace(q.Grace)
	if err == nil {
		err = serve.CheckLabel("store", q.Store) // it may be kept for as long as something else is done to the task
	}
	if err != nil {
		return nil, err
	}
	snap, err := s.loop.calls.ask(ctx, &call{command: wanted, id: headrace.TaskID(q.Id), by: by.Viewer(), grace: grace, store: q.Store, force: q.Force})
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = fmt.Errorf("%w: it was broken off because something more urgent was asked of task %s", serve.ErrState, q.Id)
	}
	if err != nil {
		return nil, err
	}
	return s.wireTask(snap, true), nil
}

// Info tells about the machine.
func (s *service) Info(ctx context.Context, _ *wire.InfoRequest) (*wire.NodeInfo, error) {
	return s.nodeInfo(serve.CallerOf(ctx).Viewer()), nil
}

func (s *service) nodeInfo(v serve.Viewer) *wire.NodeInfo {
	n := s.board.Node()
	info := &wire.NodeInfo{
		Version: s.version, Hostname: n.Host, Policy: n.Policy, Pid: uint32(os.Getpid()),
		Slots: n.Slots, SlotsUsed: n.SlotsUsed, Memory: n.Memory, MemoryUsed: n.MemoryUsed,
		SwapTotal: n.SwapTotal, SwapFree: n.SwapFree, SwapOut: n.SwapOut, SwapIn: n.SwapIn,
		StartedMs: n.Started.UnixMilli(),
	}
	if e := s.loop.cfg.Elsewhere; e != nil {
		info.Archive, info.ArchiveWhy = e.String(), e.Problem()
	}
	for _, st := range n.Stores {
		w := convert.StoreMessage(st.StoreView)
		w.Dir, w.Used = st.Dir, st.Used
		if st.Compress {
			w.Compression = "zstd"
		}
		info.Stores = append(info.Stores, w)
	}
	for _, a := range n.Alone {
		info.LeftAlone = append(info.LeftAlone, &wire.LeftAlone{Id: string(a.ID), Why: a.Why})
	}
	s.files.Describe(info, v)
	return info
}

func notFound(id string) error {
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("%w: %q; headrace ps --all lists yours", serve.ErrNotFound, id))
}

// procKinds are the kinds of package proc that clients can do something about.
var procKinds = []serve.Kind{
	{Err: proc.ErrNoSpace, Code: connect.CodeResourceExhausted},
	{Err: proc.ErrNotStopped, Code: connect.CodeAborted},
	{Err: proc.ErrNoImage, Code: connect.CodeDataLoss},
	// The request does not fit what is.
	{Err: request.ErrRights, Code: connect.CodeFailedPrecondition},
	{Err: proc.ErrState, Code: connect.CodeFailedPrecondition},
	{Err: proc.ErrGone, Code: connect.CodeFailedPrecondition},
	{Err: proc.ErrNotCheckpointable, Code: connect.CodeFailedPrecondition},
	{Err: proc.ErrCheckpointLater, Code: connect.CodeFailedPrecondition},
	{Err: proc.ErrNotRestorable, Code: connect.CodeFailedPrecondition},
	{Err: proc.ErrUnsupported, Code: connect.CodeFailedPrecondition},
}
