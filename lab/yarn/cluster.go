package yarn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
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
	// HDFS is nil without the option, and so is DFS.
	HDFS *HDFS
	DFS  *DFS
}

// Start returns when all NodeManagers are registered and, in the mode Headrace, the
// node daemons have joined. When it fails, nothing is left. ctx is only for the
// start.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("start YARN: %w", err)
	}
	in, err := newInstallation(o)
	if err != nil {
		return nil, fmt.Errorf("start YARN: %w", err)
	}
	c := newCluster(in)
	if err := c.start(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("start YARN: %w", errors.Join(err, c.Abandon()))
	}
	return c, nil
}

func newCluster(in *installation) *Cluster {
	conf := &config{installation: in}
	c := &Cluster{config: conf}
	for i := range in.o.Nodes {
		c.machines = append(c.machines, &machine{config: conf, index: i, host: fmt.Sprint(in.network, i+2)})
	}
	c.clients = &clients{config: conf, machines: c.machines}
	c.headraceDaemons = &headraceDaemons{config: conf, machines: c.machines}
	c.resourceManager = &resourceManager{config: conf, machines: c.machines, http: &http.Client{Timeout: 10 * time.Second, Transport: in.Transport()}}
	if in.o.HDFS != nil {
		c.HDFS = &HDFS{config: conf, machines: c.machines, http: c.resourceManager.http, shells: map[int]*hadoopShell{}}
		c.DFS = &DFS{config: conf, machines: c.machines}
	}
	return c
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if err := c.launchYARN(); err != nil {
		return err
	}
	if c.HDFS != nil && !c.o.HDFS.Absent {
		if err := c.HDFS.start(ctx); err != nil {
			return err
		}
	}
	if c.o.NoYARN {
		return nil
	}
	if c.o.Mode == Headrace && !c.o.NoDaemons {
		if err := c.startDaemons(ctx); err != nil {
			return err
		}
	}
	return c.awaitNodes(ctx, len(c.machines))
}

// launchYARN launches YARN's own daemons, if there are to be any.
func (c *Cluster) launchYARN() error {
	if c.o.NoYARN {
		return nil
	}
	err := c.launchRM()
	for _, m := range c.machines {
		if err == nil {
			err = m.launchNM()
		}
	}
	return err
}

// prepare makes everything that daemons need: networks, machines, configuration.
func (c *Cluster) prepare(ctx context.Context) error {
	if err := c.choose(); err != nil {
		return err
	}
	if c.o.CountTraffic {
		if err := c.countTraffic(); err != nil {
			return err
		}
	}
	if c.o.Machines {
		if err := os.Mkdir(c.homeDir(), 0o755); err != nil {
			return err
		}
	}
	if c.HDFS != nil {
		if err := c.HDFS.prepare(); err != nil {
			return err
		}
	}
	for _, m := range c.machines {
		if err := m.prepare(ctx); err != nil {
			return err
		}
	}
	return c.writeAll(c.machines)
}
