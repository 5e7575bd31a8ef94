package yarn

import (
	"context"
	"errors"

	"headrace/wire"
	"headrace/wire/wireconnect"
)

// StartDaemons starts the manager and the node daemons of a cluster that was started
// without them, and returns when all have joined. flags are added to the command line
// of each node daemon; nil: none.
func (c *Cluster) StartDaemons(ctx context.Context, policy string, flags func(node int) []string) error {
	c.o.Policy = policy
	for _, n := range c.nodes {
		n.flags = nil
		if flags != nil {
			n.flags = flags(n.index)
		}
	}
	return c.startHeadrace(ctx)
}

// StopDaemons ends them in good order, so that they may be started otherwise. No
// container should be running.
func (c *Cluster) StopDaemons() error {
	var errs []error
	for _, p := range c.ours() {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// TaskOf is the task of a container on NodeManager i, with its history.
func (c *Cluster) TaskOf(ctx context.Context, i int, container string) (*wire.Task, error) {
	client := wire.NewHTTPClient(c.nodes[i].socket())
	defer client.CloseIdleConnections()
	return wireconnect.NewTaskServiceClient(client, wire.BaseURL).Get(ctx, &wire.GetRequest{Id: container})
}
