package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

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

// undrained returns what does not run yet.
func (c *cluster) undrained() *wire.DrainResponse {
	res := &wire.DrainResponse{}
	for _, k := range c.containers.all {
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

// goOn has every container go on that can be told to.
func (c *cluster) goOn(now time.Time) {
	for _, k := range c.containers.all {
		at := k.order != nil || k.busy()
		if !k.aside() || k.node.away || at && !k.sending() || now.Sub(k.drained) < drainAgain {
			continue
		}
		k.drained = now
		c.bringBack(k, &wire.NodeOrder{Force: true, Reason: "the cluster is being drained"})
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
