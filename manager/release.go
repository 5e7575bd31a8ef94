package manager

import (
	"context"
	"fmt"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/wire"
	"headrace/wire/convert"
)

// Release has a container go on elsewhere if that is sooner.
func (s *service) Release(_ context.Context, q *wire.ReleaseRequest) (*wire.ReleaseResponse, error) {
	res, err := s.m.cluster.release(q.Container, convert.Seconds(max(0, q.Wait)))
	if err == nil {
		return res, nil
	}
	return nil, refused(q.Container, err)
}

// release orders what brings the container's checkpoint to where other machines find
// it: one step for each call.
func (c *cluster) release(id string, wait time.Duration) (*wire.ReleaseResponse, error) {
	defer c.lock()()
	k, err := c.reach(id)
	if err != nil {
		return nil, err
	}
	stays := func(why string) (*wire.ReleaseResponse, error) { return &wire.ReleaseResponse{Reason: why}, nil }
	goes := func(why string) (*wire.ReleaseResponse, error) {
		return &wire.ReleaseResponse{Ordered: true, Reason: why}, nil
	}
	switch o := k.order; {
	case o != nil && (o.command == headrace.CommandCheckpoint || o.command == headrace.CommandArchive):
		return goes("the order to " + o.command.String() + " it is not done yet")
	case o != nil:
		return stays("the order to " + o.command.String() + " it is not done yet")
	case k.task.Archived:
		return goes("it is archived")
	case k.task.Held:
		return stays("a user holds it")
	case c.draining:
		return stays("the cluster is being drained")
	case k.busy():
		return stays("it is " + convert.Doing(k.task))
	case k.node.info.Archive == "":
		return stays("its node has no archive: see headrace node --archive")
	}
	if n := c.members.differing(k.node); n != nil {
		return stays(fmt.Sprintf("%s has another version of Headrace (%s), and this node %s: it could end up where its checkpoint is not known",
			n.name, n.info.Version, k.node.info.Version))
	}
	now := time.Now()
	if now.Before(k.stays.until) {
		return stays("it failed a moment ago: " + k.stays.why)
	}
	s := c.containers.scene(k.node, now)
	s.Node.Net = c.cfg.Network
	ways, ok := policy.MoveOn(*s.Task(headrace.TaskID(k.id)), s.Node, wait)
	if !ok {
		return stays("it is not known how long it would take")
	}
	res := &wire.ReleaseResponse{Here: ways.Here.Seconds(), Elsewhere: ways.Elsewhere.Seconds()}
	if ways.Elsewhere >= ways.Here {
		res.Reason = fmt.Sprintf("it is expected to go on sooner here: in %v, elsewhere in %v",
			ways.Here.Round(time.Millisecond), ways.Elsewhere.Round(time.Millisecond))
		return res, nil
	}
	step := headrace.CommandArchive
	if k.state == headrace.Suspended {
		step = headrace.CommandCheckpoint
	}
	res.Ordered, res.Reason = true, "elsewhere it is expected to go on sooner"
	k.order = &order{of: k, command: step, wire: &wire.NodeOrder{Reason: "to go on elsewhere", ExpectedDelay: res.Elsewhere}}
	c.orders.give(k.order)
	c.cfg.Log.Info("release", "container", k.id, "node", k.node.name, "step", step.String(),
		"here", ways.Here.Round(time.Millisecond), "elsewhere", ways.Elsewhere.Round(time.Millisecond))
	return res, nil
}
