package solo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"headrace"
	"headrace/data/blocks"
	"headrace/serve"
	"headrace/solo/request"
	"headrace/solo/statedir"
	"headrace/wire"
	"headrace/wire/convert"
	"headrace/wire/wireconnect"
)

// Cluster knows about containers on other machines. It must be safe for
// concurrent use.
type Cluster interface {
	// Application lists for a user the containers of an application that have not ended, on
	// whatever machine, or with aside those that do not only run. With an error come those that are known from before.
	Application(ctx context.Context, user, scheduler, application string, aside bool) ([]*wire.Container, error)
	// Progress takes in how far containers are, as a user tells, of which not all need be that
	// user's. It does not block.
	Progress(user string, shares map[string]float64)
	// Inputs answers requests about files of the cluster; nil: none can be. It stands
	// behind serve.Interceptor.
	Inputs() wireconnect.InputServiceHandler
}

// Prepare announces a container.
func (s *service) Prepare(ctx context.Context, q *wire.PrepareRequest) (*wire.PrepareResponse, error) {
	by := serve.CallerOf(ctx)
	if !by.Viewer().All && !slices.Contains(s.loop.cfg.Operators, by.UID) {
		return nil, fmt.Errorf("%w: only root and the daemon's operators may announce containers; see headrace node --operator", serve.ErrDenied)
	}
	want, err := request.Hosted(q, by)
	if err != nil {
		return nil, err
	}
	program, err := s.loop.rt.Program()
	if err != nil {
		return nil, err
	}
	c := &call{}
	if _, err := s.loop.await(ctx, c, func() { s.loop.answer(c, nil, s.loop.containers.announced.add(want)) }); err != nil {
		return nil, err
	}
	return &wire.PrepareResponse{Argv: []string{program, "attach", "-socket", statedir.AttachSocket(s.loop.cfg.StateDir), "-id", q.Id, "--"}}, nil
}

// Application tells what the caller's containers are doing, and which of those do not run that are
// of applications of the caller's, but of another account: in YARN that is often one for all.
func (s *service) Application(ctx context.Context, q *wire.ApplicationRequest) (*wire.ApplicationResponse, error) {
	by := serve.CallerOf(ctx)
	name, res, others := serve.UserName(by.UID), &wire.ApplicationResponse{}, false
	all, err := s.applicationOf(ctx, name, q)
	if err != nil {
		res.Doubt = err.Error()
		s.loop.log.Debug("of an application not all containers are known", "application", q.Application, "err", err)
	}
	for _, c := range all {
		switch own := c.User == name || by.Viewer().All; {
		case own && !q.Aside:
			res.Containers = append(res.Containers, c)
		case !aside(c):
		case own, q.Aside && c.Hosting.GetSubmitter() == name:
			res.Containers = append(res.Containers, brief(c))
		default:
			others = true
		}
	}
	if others && res.Doubt == "" {
		res.Doubt = fmt.Sprintf("containers of %s that do not run are of another account, and of %s nothing says that it has submitted this application", q.Application, name)
	}
	if s.loop.cfg.Cluster != nil {
		s.loop.cfg.Cluster.Progress(name, q.Progress)
	}
	return res, nil
}

// applicationOf returns all containers of an application for a user who asks, with an error when there may be more.
func (s *service) applicationOf(ctx context.Context, user string, q *wire.ApplicationRequest) ([]*wire.Container, error) {
	var all []*wire.Container
	here := map[string]bool{}
	// Of its own containers this daemon knows best, and also while the manager is away.
	for _, snap := range s.board.List(serve.Everything, false) {
		if h := snap.Record.Hosting; h != nil && h.Scheduler == q.Scheduler && h.Application == q.Application {
			c := convert.ContainerMessage(s.wireTask(snap, false))
			all, here[c.Id] = append(all, c), true
		}
	}
	if s.loop.cfg.Cluster == nil {
		return all, nil
	}
	far, err := s.loop.cfg.Cluster.Application(ctx, user, q.Scheduler, q.Application, q.Aside)
	for _, c := range far {
		if !here[c.Id] {
			all = append(all, c)
		}
	}
	return all, err
}

// aside tells whether a container does not run, or is just stopping or coming back.
func aside(c *wire.Container) bool {
	switch convert.Operation(c) {
	case headrace.Suspending, headrace.Checkpointing, headrace.Resuming, headrace.Restoring:
		return true
	}
	return convert.In(c, headrace.Suspended, headrace.Checkpointed)
}

// brief returns what is told of one that is aside.
func brief(c *wire.Container) *wire.Container {
	return &wire.Container{Id: c.Id, TaskState: c.TaskState, State: c.State, Operation: c.Operation, Doing: c.Doing, Away: c.Away}
}

// Host is the daemon as the agent of a cluster sees it. Its methods are safe for
// concurrent use, and may be called once Ready is closed.
type Host struct {
	s       *service
	changed chan struct{}
	blocks  *blocks.Blocks
}

// Blocks looks after the blocks of a distributed file system here, for node.Agent; nil: the
// daemon was not told where they are.
func (h *Host) Blocks() *blocks.Blocks { return h.blocks }

// endedFor is how long an ended task is told of.
const endedFor = 5 * time.Minute

// Facts returns the machine and its hosted tasks: those that have not ended, and those
// that have ended in the last minutes. Without command and history.
func (h *Host) Facts() (*wire.NodeInfo, []*wire.Task) {
	now := h.s.loop.clk.wall().UnixMilli()
	var tasks []*wire.Task
	for _, snap := range h.s.board.List(serve.Everything, true) {
		recent := !snap.Record.State.Final() || now-snap.Record.EndedMs < endedFor.Milliseconds()
		if snap.Record.Hosting == nil || !recent {
			continue
		}
		t := h.s.wireTask(snap, false)
		t.Argv = nil
		if h.s.loop.cfg.CRIU == "" && t.NoCheckpoint == "" {
			t.NoCheckpoint = whyNoCRIU
		}
		tasks = append(tasks, t)
	}
	return h.s.nodeInfo(serve.Viewer{}), tasks // without names of files: whoever asks the manager hears it
}

// Changed returns what has an element when the state of a hosted task has changed since it was
// last taken.
func (h *Host) Changed() <-chan struct{} { return h.changed }

// Do carries out an order and returns when it is done, which may take as long as
// a dump. It goes on when ctx ends.
func (h *Host) Do(ctx context.Context, o *wire.NodeOrder) error {
	command, err := convert.Command(o)
	if err != nil {
		return serve.Refusal("%v; is the manager newer than this daemon?", err)
	}
	_, err = h.s.loop.calls.ask(ctx, &call{
		command: command, ordered: true, id: headrace.TaskID(o.Container), by: serve.Everything, store: o.Store,
		reason: o.Reason, pageOut: max(0, o.PageOut), delay: convert.Seconds(o.ExpectedDelay),
		force: o.Force, onlySuspended: o.OnlySuspended,
	})
	return err
}

// KeepPromises writes down which ends hosted tasks have told, in seconds by their ids (wire.NodeReportResponse),
// and returns at once. Facts tells them when they are durable; of a daemon that is too busy it does not.
func (h *Host) KeepPromises(ends map[string]float64) {
	h.s.loop.offer(func() { h.s.loop.containers.keepPromises(ends) })
}

// follow signals changes of state until stop is closed. What is measured every
// second is not a change.
func (h *Host) follow(stop <-chan struct{}) {
	w, end := h.s.board.Watch(serve.Everything, "")
	defer end()
	seen := map[headrace.TaskID]string{}
	for {
		select {
		case <-w.Wake:
		case <-stop:
			return
		}
		changed, forgotten := w.Take()
		news := false
		for _, snap := range changed {
			if snap.Record.Hosting == nil {
				continue
			}
			if is := snap.Gist(); seen[snap.Record.ID] != is {
				seen[snap.Record.ID], news = is, true
			}
		}
		for _, id := range forgotten {
			delete(seen, id)
		}
		if news {
			select {
			case h.changed <- struct{}{}:
			default:
			}
		}
	}
}
