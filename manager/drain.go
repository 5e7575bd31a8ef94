package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/wire"
)

const (
	draining = "the cluster is being drained: nothing gives way"
	// drainAgain is the least time between two attempts to have a container go on.
	drainAgain = 10 * time.Second
)

// Drain has all containers go on, or ends that.
func (s *service) Drain(_ context.Context, q *wire.DrainRequest) (*wire.DrainResponse, error) {
	return s.m.cluster.drain(!q.End), nil
}

func (c *cluster) drain(on bool) *wire.DrainResponse {
	defer c.lock()()
	if on != c.draining {
		c.draining = on
		c.cfg.Log.Warn("draining", "on", on)
	}
	now := time.Now()
	if on {
		c.goOn(now)
	}
	return c.undrained()
}

// undrained is what does not run yet.
func (c *cluster) undrained() *wire.DrainResponse {
	res := &wire.DrainResponse{}
	for _, k := range c.containers {
		switch {
		case !k.aside():
			continue
		case k.node.away:
			res.Away++
		default:
			res.Left++
		}
		if k.failed != "" {
			res.Problems = append(res.Problems, fmt.Sprintf("%s on %s: %s", k.id, k.node.name, k.failed))
		}
	}
	slices.Sort(res.Problems)
	return res
}

// aside reports whether a container does not run because it was suspended or
// checkpointed.
func (k *container) aside() bool {
	return k.state == headrace.Suspended || k.state == headrace.Checkpointed
}

// goOn has every container go on that can be told to.
func (c *cluster) goOn(now time.Time) {
	for _, k := range c.containers {
		if !k.aside() || k.node.away || k.order != nil || k.task.Doing != "" || now.Sub(k.drained) < drainAgain {
			continue
		}
		k.drained = now
		k.order = &order{of: k, command: headrace.CommandResume, wire: &wire.NodeOrder{
			Force: true, Reason: "the cluster is being drained", ExpectedDelay: c.comeBack(k).Seconds(),
		}}
		c.give(k.order)
		c.cfg.Log.Info("resume", "container", k.id, "node", k.node.name, "state", k.state, "reason", "draining")
	}
}

// Forget removes a node that is away.
func (s *service) Forget(_ context.Context, q *wire.ForgetNodeRequest) (*wire.ForgetNodeResponse, error) {
	err := s.m.cluster.forgetAway(q.Node)
	switch {
	case errors.Is(err, errNoNode):
		return nil, connect.NewError(connect.CodeNotFound, err)
	case err != nil:
		return nil, connect.NewError(connect.CodeFailedPrecondition, err)
	}
	return &wire.ForgetNodeResponse{}, nil
}

var errNoNode = errors.New("there is no node of that name; headrace cluster lists them")

func (c *cluster) forgetAway(name string) error {
	defer c.lock()()
	n := c.nodes[name]
	switch {
	case n == nil:
		return errNoNode
	case !n.away || n.stream != nil:
		return fmt.Errorf("node %s is here; stop its daemon first", name)
	}
	c.forget(name, "a person asked for it")
	return nil
}
