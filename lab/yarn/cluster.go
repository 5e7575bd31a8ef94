package yarn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"
)

// startTime is how long all daemons together get until they are ready.
const startTime = 10 * time.Minute

// A Cluster is a running one. Its methods may be called by several goroutines; those
// that kill and start daemons only by one at a time. What there is one of on each machine
// is started and killed by machines; what there is one of in the cluster has a type of its
// own.
type Cluster struct {
	*config
	machines
	*resourceManager
	*headraceDaemons
	*clients
}

// Start returns when all NodeManagers are registered and, in the mode Headrace, the
// node daemons have joined. When it fails, nothing is left. ctx is only for the
// start.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("start YARN: %w", err)
	}
	c, err := newCluster(o)
	if err != nil {
		return nil, fmt.Errorf("start YARN: %w", err)
	}
	if err := c.start(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("start YARN: %w", errors.Join(err, c.Abandon()))
	}
	return c, nil
}

func newCluster(o Options) (*Cluster, error) {
	conf, err := newConfig(o)
	if err != nil {
		return nil, err
	}
	c := &Cluster{config: conf, clients: &clients{config: conf}}
	for i := range o.Nodes {
		m, err := newMachine(conf, i)
		if err != nil {
			return nil, err
		}
		c.machines = append(c.machines, m)
	}
	c.headraceDaemons = &headraceDaemons{config: conf, machines: c.machines}
	c.resourceManager = &resourceManager{config: conf, machines: c.machines, http: &http.Client{Timeout: 10 * time.Second}}
	if o.Machines {
		if err := c.giveNamespaces(filepath.Join(c.Dir, "machine")); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.writeAll(c.machines); err != nil {
		return err
	}
	if err := c.launchRM(); err != nil {
		return err
	}
	for _, m := range c.machines {
		if err := m.launchNM(); err != nil {
			return err
		}
	}
	if c.o.Mode == Headrace && !c.o.NoDaemons {
		if err := c.startDaemons(ctx); err != nil {
			return err
		}
	}
	return c.awaitNodes(ctx, len(c.machines))
}
