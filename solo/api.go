package solo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"

	"connectrpc.com/connect"

	"headrace"
	"headrace/proc"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// maxRequest is the largest message that is read, in bytes: a command at its
// limit, in JSON with everything escaped, fits.
const maxRequest = 16 << 20

// service answers requests: what only reads from the board, the rest through
// the loop.
type service struct {
	loop    *loop
	board   *board
	version string
	data    *dataService
}

var (
	_ wireconnect.TaskServiceHandler = (*service)(nil)
	_ wireconnect.NodeServiceHandler = (*service)(nil)
	_ wireconnect.HostServiceHandler = (*service)(nil)
)

func (s *service) handler() http.Handler {
	opts := []connect.HandlerOption{
		connect.WithReadMaxBytes(maxRequest),
		connect.WithCompressMinBytes(math.MaxInt), // it is a local socket
	}
	mux := http.NewServeMux()
	mux.Handle(wireconnect.NewTaskServiceHandler(s, opts...))
	mux.Handle(wireconnect.NewNodeServiceHandler(s, opts...))
	mux.Handle(wireconnect.NewHostServiceHandler(s, opts...))
	mux.Handle(wireconnect.NewDataServiceHandler(s.data, opts...))
	mux.Handle(wireconnect.NewStreamServiceHandler(streamService{s}, opts...))
	return mux
}

// Run accepts a task.
func (s *service) Run(ctx context.Context, q *wire.RunRequest) (*wire.RunResponse, error) {
	by, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if q.Input != nil {
		res, err := s.runInput(ctx, q, by)
		if err != nil {
			return nil, coded(err)
		}
		return res, nil
	}
	t, err := newTask(q, by, &s.loop.cfg)
	if err != nil {
		return nil, coded(err)
	}
	id, err := s.loop.submit(ctx, t)
	if err != nil {
		return nil, coded(err)
	}
	return &wire.RunResponse{Id: string(id)}, nil
}

// Get shows one task with its history.
func (s *service) Get(ctx context.Context, q *wire.GetRequest) (*wire.Task, error) {
	by, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	snap, ok := s.board.get(headrace.TaskID(q.Id), by.viewer())
	if !ok {
		return nil, notFound(q.Id)
	}
	return s.wireTask(snap, true), nil
}

// List shows the caller's tasks.
func (s *service) List(ctx context.Context, q *wire.ListRequest) (*wire.ListResponse, error) {
	by, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	snaps := s.board.list(by.viewer(), q.All)
	res := &wire.ListResponse{Node: s.nodeInfo(), Tasks: make([]*wire.Task, 0, len(snaps))}
	for _, snap := range snaps {
		res.Tasks = append(res.Tasks, s.wireTask(snap, false))
	}
	return res, nil
}

// Watch sends what is and then what changes. A reader that is slow gets fewer,
// newer states; nothing waits for it.
func (s *service) Watch(ctx context.Context, q *wire.WatchRequest, stream *connect.ServerStream[wire.WatchEvent]) error {
	by, err := callerOf(ctx)
	if err != nil {
		return err
	}
	id := headrace.TaskID(q.Id)
	w, stop := s.board.watch(by.viewer(), id)
	defer stop()
	first := s.board.list(by.viewer(), true)
	if id != "" {
		snap, ok := s.board.get(id, by.viewer())
		if !ok {
			return notFound(q.Id)
		}
		first = []*snapshot{snap}
	}
	changed, forgotten := first, []headrace.TaskID(nil)
	for {
		e := &wire.WatchEvent{}
		over := false
		for _, snap := range changed {
			e.Tasks = append(e.Tasks, s.wireTask(snap, true))
			over = over || id != "" && snap.rec.State.Final()
		}
		for _, f := range forgotten {
			e.Forgotten = append(e.Forgotten, string(f))
			over = over || id != ""
		}
		if err := stream.Send(e); err != nil {
			return err
		}
		if over {
			return nil
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return coded(ctx.Err())
		case <-s.loop.dead:
			return coded(errStopping)
		}
		changed, forgotten = w.take()
	}
}

// Suspend stops a task's processes and holds it.
func (s *service) Suspend(ctx context.Context, q *wire.VerbRequest) (*wire.Task, error) {
	return s.verb(ctx, verbSuspend, q)
}

// Resume lets a held task run again.
func (s *service) Resume(ctx context.Context, q *wire.VerbRequest) (*wire.Task, error) {
	return s.verb(ctx, verbBringBack, q)
}

// Checkpoint writes a task to storage and holds it.
func (s *service) Checkpoint(ctx context.Context, q *wire.VerbRequest) (*wire.Task, error) {
	return s.verb(ctx, verbCheckpoint, q)
}

// Restore lets a held task run again, from its checkpoint if it has no
// processes.
func (s *service) Restore(ctx context.Context, q *wire.VerbRequest) (*wire.Task, error) {
	return s.verb(ctx, verbBringBack, q)
}

// Kill ends a task for good.
func (s *service) Kill(ctx context.Context, q *wire.VerbRequest) (*wire.Task, error) {
	return s.verb(ctx, verbKill, q)
}

// Forget removes an ended task.
func (s *service) Forget(ctx context.Context, q *wire.VerbRequest) (*wire.ForgetResponse, error) {
	if _, err := s.verb(ctx, verbForget, q); err != nil {
		return nil, err
	}
	return &wire.ForgetResponse{}, nil
}

func (s *service) verb(ctx context.Context, v verb, q *wire.VerbRequest) (*wire.Task, error) {
	by, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	grace, err := parseGrace(q.Grace)
	if err != nil {
		return nil, coded(err)
	}
	snap, err := s.loop.ask(ctx, &call{verb: v, id: headrace.TaskID(q.Id), by: by.viewer(), grace: grace, store: q.Store})
	if err != nil {
		return nil, coded(err)
	}
	return s.wireTask(snap, true), nil
}

// Info tells about the machine.
func (s *service) Info(ctx context.Context, _ *wire.InfoRequest) (*wire.NodeInfo, error) {
	if _, err := callerOf(ctx); err != nil {
		return nil, err
	}
	return s.nodeInfo(), nil
}

func (s *service) nodeInfo() *wire.NodeInfo {
	n := s.board.nodeStatus()
	info := &wire.NodeInfo{
		Version: s.version, Hostname: n.host, Policy: n.policy, Pid: uint32(os.Getpid()),
		Slots: n.slots, SlotsUsed: n.slotsUsed, Memory: n.memory, MemoryUsed: n.memoryUsed,
		SwapTotal: n.swapTotal, SwapFree: n.swapFree, SwapOut: n.swapOut, SwapIn: n.swapIn,
		StartedMs: n.started.UnixMilli(),
	}
	if e := s.loop.cfg.Elsewhere; e != nil {
		info.Archive = e.String()
		if p, ok := e.(interface{ Problem() string }); ok { // it may know what is wrong with itself
			info.ArchiveWhy = p.Problem()
		}
	}
	for _, st := range n.stores {
		w := &wire.Store{Name: st.Name, Dir: st.Dir, Write: st.Write, Read: st.Read, Free: max(0, st.free), Used: st.used,
			DumpOverhead: st.DumpOverhead.Seconds(), RestoreOverhead: st.RestoreOverhead.Seconds(), Queue: st.queue.Seconds()}
		if st.Compress {
			w.Compression = "zstd"
		}
		info.Stores = append(info.Stores, w)
	}
	s.readingInfo(info)
	return info
}

func notFound(id string) error {
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("%w: %q; headrace ps --all lists yours", errNotFound, id))
}

// coded gives an error the code that tells clients what kind it is.
func coded(err error) error {
	var already *connect.Error
	if errors.As(err, &already) {
		return err
	}
	code := connect.CodeInternal
	switch {
	case errors.Is(err, errNotFound):
		code = connect.CodeNotFound
	case errors.Is(err, errInput):
		code = connect.CodeInvalidArgument
	case errors.Is(err, errDenied):
		code = connect.CodePermissionDenied
	case errors.Is(err, errBusy), errors.Is(err, proc.ErrNoSpace):
		code = connect.CodeResourceExhausted
	case errors.Is(err, errStopping):
		code = connect.CodeUnavailable
	case errors.Is(err, proc.ErrNotStopped):
		code = connect.CodeAborted
	case errors.Is(err, proc.ErrNoImage):
		code = connect.CodeDataLoss
	case errors.Is(err, context.Canceled):
		code = connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		code = connect.CodeDeadlineExceeded
	default:
		for _, e := range stateErrors {
			if errors.Is(err, e) {
				code = connect.CodeFailedPrecondition
			}
		}
	}
	return connect.NewError(code, err)
}
