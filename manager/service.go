package manager

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/wire"
	"headrace/wire/convert"
	"headrace/wire/wireconnect"
)

// Bounds on what callers send.
const (
	maxWait    = 30 * time.Second
	maxName    = wire.MaxName
	maxText    = 2000
	maxTasks   = 20_000
	maxStores  = 64
	maxVictims = 20_000 // as ManagerClient.MOST_VICTIMS
	maxEnded   = 20_000 // as ManagerClient.MOST_ENDED
)

// service answers the protocol.
type service struct{ m *Manager }

var _ wireconnect.ManagerServiceHandler = (*service)(nil)

// Join sends orders as long as the node is there.
func (s *service) Join(ctx context.Context, q *wire.JoinRequest, out *connect.ServerStream[wire.NodeOrder]) error {
	hasCome(ctx)
	if err := checkName("node", q.Node); err != nil {
		return err
	}
	c := s.m.cluster
	st, err := c.join(q)
	if err != nil {
		return connect.NewError(connect.CodeResourceExhausted, err)
	}
	send := func(o *wire.NodeOrder) error {
		sendBy(ctx, s.m.cfg.timing.send)
		return out.Send(o)
	}
	why := s.feed(ctx, st, send)
	c.leave(st, why)
	if errors.Is(why, errReplaced) {
		return connect.NewError(connect.CodeAborted, why)
	}
	return connect.NewError(connect.CodeUnavailable, why)
}

// feed sends what there is to send, until the stream ends.
func (s *service) feed(ctx context.Context, st *stream, send func(*wire.NodeOrder) error) error {
	alive := time.NewTicker(s.m.cfg.timing.alive)
	defer alive.Stop()
	err := send(&wire.NodeOrder{})
	for err == nil {
		select {
		case <-st.wake:
			for _, o := range s.m.cluster.next(st) {
				if err = send(o); err != nil {
					break
				}
			}
		case <-alive.C:
			err = send(&wire.NodeOrder{})
		case <-st.over:
			return st.why
		case <-ctx.Done():
			return errors.New("the node has gone")
		case <-s.m.stopping:
			return errors.New("the manager is stopping")
		}
	}
	return err
}

// Report takes in what is true on a node.
func (s *service) Report(ctx context.Context, q *wire.NodeReport) (*wire.NodeReportResponse, error) {
	if err := checkReport(q); err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // nobody waits any more; a newer one may have come
		return nil, connect.NewError(connect.CodeCanceled, ctx.Err())
	}
	res, err := s.m.cluster.report(q)
	switch {
	case errors.Is(err, errNotJoined):
		return nil, connect.NewError(connect.CodeFailedPrecondition, err)
	case errors.Is(err, errLate):
		return nil, connect.NewError(connect.CodeAborted, err)
	case err != nil:
		return nil, connect.NewError(connect.CodeResourceExhausted, err)
	}
	return res, nil
}

// checkVictims refuses victims that cannot be.
func checkVictims(victims []*wire.Victim) error {
	if len(victims) > maxVictims {
		return invalid("%d victims; name at most %d at once", len(victims), maxVictims)
	}
	for _, v := range victims {
		if v.ForPriority > uint32(headrace.MaxPriority) {
			return invalid("priority %d; give a number from 0 to %d", v.ForPriority, headrace.MaxPriority)
		}
	}
	return nil
}

// Price says what it would cost that containers give way.
func (s *service) Price(_ context.Context, q *wire.PriceRequest) (*wire.PriceResponse, error) {
	if err := checkVictims(q.Victims); err != nil {
		return nil, err
	}
	return &wire.PriceResponse{Prices: s.m.cluster.prices(q.Victims)}, nil
}

// Preempt decides how containers give way.
func (s *service) Preempt(_ context.Context, q *wire.PreemptRequest) (*wire.PreemptResponse, error) {
	if err := checkVictims(q.Victims); err != nil {
		return nil, err
	}
	return &wire.PreemptResponse{Decisions: s.m.cluster.preempt(q.Victims, q.Observe)}, nil
}

// Resume has a container go on.
func (s *service) Resume(_ context.Context, q *wire.ResumeRequest) (*wire.ResumeResponse, error) {
	err := s.m.cluster.resume(q.Container)
	if err == nil {
		return &wire.ResumeResponse{}, nil
	}
	return nil, refused(q.Container, err)
}

// refused gives an error about a container the code that tells callers whether to
// ask again.
func refused(container string, err error) error {
	code := connect.CodeFailedPrecondition
	switch {
	case errors.Is(err, errUnknown):
		code = connect.CodeNotFound
	case errors.Is(err, errAway), errors.Is(err, errEarly):
		code = connect.CodeUnavailable
	}
	return connect.NewError(code, fmt.Errorf("container %q: %w", clean(container, maxName), err))
}

// Containers tells what the containers are doing.
func (s *service) Containers(ctx context.Context, q *wire.ContainersRequest) (*wire.ContainersResponse, error) {
	// Where the port is kept no call of a scheduler need fail while the manager is started again, and what it has told is forgotten.
	if !s.m.cluster.told(q.Version, q.Aside) {
		return nil, connect.NewError(connect.CodeFailedPrecondition,
			fmt.Errorf("version %d is of another manager: this one was started since; tell it all again, and ask for version 0", q.Version))
	}
	if applications := q.Applications; len(applications) > 0 || q.AllApplications {
		if err := checkApplications(applications, q.EndedApplications); err != nil {
			return nil, err
		}
		s.m.cluster.enter(applications, q.EndedApplications)
		s.m.inputs.Running(applications)
		s.m.inputs.Ended(q.EndedApplications)
	}
	if q.Application == "" && q.Wait > 0 { // it is a scheduler that waits for changes
		s.m.inputs.Heard()
	}
	res, changed := s.m.cluster.tell(q.Application, q.Aside)
	wait := min(convert.Seconds(q.Wait), maxWait)
	if res.Version != q.Version || wait <= 0 {
		return res, nil
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	select {
	case <-changed:
		s.gather(ctx)
		res, _ = s.m.cluster.tell(q.Application, q.Aside)
	case <-over.C:
	case <-s.m.stopping:
	case <-ctx.Done():
		return nil, connect.NewError(connect.CodeCanceled, ctx.Err())
	}
	return res, nil
}

// gather waits a moment for what changes together.
func (s *service) gather(ctx context.Context) {
	select {
	case <-time.After(s.m.cfg.timing.gather):
	case <-ctx.Done():
	}
}

// Ended tells which applications have ended for good.
func (s *service) Ended(_ context.Context, q *wire.EndedRequest) (*wire.EndedResponse, error) {
	if err := checkEnded(q.Applications); err != nil {
		return nil, err
	}
	return &wire.EndedResponse{Applications: s.m.cluster.endedOf(q.Applications)}, nil
}

// Nodes lists the nodes for people.
func (s *service) Nodes(context.Context, *wire.NodesRequest) (*wire.NodesResponse, error) {
	return s.m.cluster.people(), nil
}

func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

func checkName(what, name string) error {
	if err := wire.CheckName(what, name); err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	return nil
}

// checkReport refuses what cannot be meant, and cuts texts that are too long.
func checkReport(r *wire.NodeReport) error {
	if err := checkName("node", r.Node); err != nil {
		return err
	}
	if len(r.Tasks) > maxTasks || len(r.Results) > maxTasks || len(r.Progress) > maxTasks || len(r.Info.GetStores()) > maxStores {
		return invalid("a report of %d tasks, %d results, %d containers' progress and %d stores; give at most %d each, and %d stores",
			len(r.Tasks), len(r.Results), len(r.Progress), len(r.Info.GetStores()), maxTasks, maxStores)
	}
	if i := r.Info; i != nil {
		i.Version, i.Hostname, i.Policy = clean(i.Version, maxName), clean(i.Hostname, maxName), clean(i.Policy, maxName)
		i.Residency, i.ResidencyWhy, i.Archive = clean(i.Residency, maxName), clean(i.ResidencyWhy, maxText), clean(i.Archive, maxText)
		i.ArchiveWhy = clean(i.ArchiveWhy, maxText)
	}
	for _, st := range r.Info.GetStores() {
		st.Name, st.Dir, st.Compression = clean(st.Name, maxName), clean(st.Dir, maxText), clean(st.Compression, maxName)
	}
	for _, t := range r.Tasks {
		if err := checkTask(t); err != nil {
			return err
		}
	}
	for _, res := range r.Results {
		res.Error = clean(res.Error, maxText)
	}
	return nil
}

// checkApplications refuses what cannot be meant, and cuts names of queues: whoever submits an application to YARN may write
// any, and must not have all others refused.
func checkApplications(all map[string]*wire.Application, ended []string) error {
	if len(all) > maxContainers {
		return invalid("%d applications; name at most %d", len(all), maxContainers)
	}
	if err := checkEnded(ended); err != nil {
		return err
	}
	for name, app := range all {
		if err := checkApplication(name); err != nil {
			return err
		}
		if app != nil {
			app.Queue = clean(app.Queue, maxName)
		}
		if app.GetPriority() > uint32(headrace.MaxPriority) {
			return invalid("the application %.80q has the priority %d; give a number from 0 to %d", name, app.GetPriority(), headrace.MaxPriority)
		}
	}
	return nil
}

func checkApplication(name string) error {
	if len(name) > maxName {
		return invalid("%.80q is not the name of an application; give at most %d bytes", name, maxName)
	}
	return nil
}

// checkEnded refuses what cannot be meant.
func checkEnded(applications []string) error {
	if len(applications) > maxEnded {
		return invalid("%d applications that have ended; name at most %d", len(applications), maxEnded)
	}
	for _, name := range applications {
		if err := checkApplication(name); err != nil {
			return err
		}
	}
	return nil
}

func checkTask(t *wire.Task) error {
	if t.Hosting == nil {
		return nil // it is none of ours
	}
	if err := checkName("container", t.Id); err != nil {
		return err
	}
	if _, err := convert.State(t); err != nil {
		return invalid("container %s: %v", t.Id, err)
	}
	if math.IsNaN(t.Cpus) || t.Memory < 0 {
		return invalid("container %s: %v CPUs and %d bytes of memory are no amounts", t.Id, t.Cpus, t.Memory)
	}
	// What is not needed is not kept.
	t.Argv, t.History, t.Input, t.StdoutPath, t.StderrPath, t.Name, t.Job = nil, nil, nil, "", "", "", ""
	for _, s := range []*string{&t.User, &t.Doing, &t.Hosting.Scheduler, &t.Hosting.Application, &t.Hosting.Queue, &t.Hosting.Submitter} {
		*s = clean(*s, maxName)
	}
	for _, s := range []*string{&t.Reason, &t.NoSuspend, &t.NoCheckpoint, &t.NoLimits} {
		*s = clean(*s, maxText)
	}
	return nil
}
