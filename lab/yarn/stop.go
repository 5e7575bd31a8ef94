package yarn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/linux/cgroup"
	"headrace/lab/belong"
)

// settleTime is how long containers get to end after their application was killed.
const settleTime = 3 * time.Minute

// Stop ends the applications as YARN does it, then the daemons, and removes the
// directory. What is left then, processes or mounts, is ended too, and is an error:
// it should have gone with its application. Stop may be called again.
func (c *Cluster) Stop() error { return c.stopWithin(settleTime) }

func (c *Cluster) stopWithin(limit time.Duration) error {
	if c.stopped() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := c.settle(ctx)
	// Hadoop's daemons take seconds to end, and there is nothing for them to do.
	for _, p := range c.hadoop() {
		err = errors.Join(err, p.kill())
	}
	err = errors.Join(err, c.StopDaemons())
	left, lost := c.leftovers()
	if len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("left behind by the cluster: %s", strings.Join(left, ", ")))
	}
	return errors.Join(err, lost, c.Abandon())
}

// Abandon ends everything at once and removes the directory.
func (c *Cluster) Abandon() error {
	if c.stopped() {
		return nil
	}
	var errs []error
	for _, p := range append(c.hadoop(), c.daemons()...) {
		errs = append(errs, p.kill())
	}
	errs = append(errs, c.machines.closeDisks(), sweep(c.Dir), c.relay.close(), c.machines.close(), c.head.close())
	c.http.CloseIdleConnections()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if c.o.Keep {
		return nil
	}
	err := os.RemoveAll(c.Dir)
	c.lock.Close()
	return err
}

func (c *Cluster) stopped() bool {
	_, err := os.Stat(c.Dir)
	return errors.Is(err, os.ErrNotExist)
}

// hadoop returns the clients and daemons of YARN in the order in which they are ended.
func (c *Cluster) hadoop() []*process {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Concat(c.clients.all, c.nodeManagers(), []*process{c.resourceManager.process}, c.dataNodes())
	if c.HDFS != nil {
		all = slices.Concat(all, c.HDFS.processes, c.HDFS.shellProcesses())
	}
	return all
}

// settle kills the applications and returns when no container is left. Without the
// daemons that it needs, there is nothing to wait for.
func (c *Cluster) settle(ctx context.Context) error {
	if rm := c.resourceManager.process; rm == nil || rm.gone() || c.running() == 0 {
		return nil
	}
	apps, err := c.Apps(ctx)
	if err != nil {
		return err
	}
	for _, a := range apps {
		if !a.Ended() {
			if err := c.KillApp(ctx, a.ID); err != nil {
				return err
			}
		}
	}
	return c.AwaitIdle(ctx)
}

// AwaitIdle returns when no container is running or has anything allocated, and no
// process of a container is left.
func (c *Cluster) AwaitIdle(ctx context.Context) error {
	return await(ctx, "wait until nothing runs", settleTime, func(ctx context.Context) (bool, error) {
		m, err := c.Metrics(ctx)
		if err != nil {
			return false, err
		}
		if m.AllocatedContainers+m.ReservedContainers+m.PendingContainers > 0 || m.RunningApps > 0 {
			return false, fmt.Errorf("%+v", m)
		}
		left, err := c.leftovers()
		if len(left) > 0 {
			err = fmt.Errorf("left: %s", strings.Join(left, ", "))
		}
		return err == nil, err
	})
}

// keepEnv names the variable with a directory in which what the cluster has written is kept, logs
// above all; empty: nowhere.
const keepEnv = "HEADRACE_YARN_KEEP"

// Finish waits until the cluster is idle, at most so long, keeps its logs where the environment
// says (HEADRACE_YARN_KEEP), and stops it.
func (c *Cluster) Finish(limit time.Duration) error {
	err := c.AwaitIdleFor(context.Background(), limit)
	if keep := os.Getenv(keepEnv); keep != "" {
		err = errors.Join(err, os.CopyFS(keep, os.DirFS(filepath.Join(c.Dir, "log"))))
	}
	return errors.Join(err, c.Stop())
}

// AwaitIdleFor does as AwaitIdle, for longer: a master stays for five seconds after the end
// of its job, and longer on a busy machine or if it has classes to archive.
func (c *Cluster) AwaitIdleFor(ctx context.Context, limit time.Duration) error {
	for began := time.Now(); ; {
		err := c.AwaitIdle(ctx)
		if err == nil || ctx.Err() != nil || time.Since(began) > limit {
			return err
		}
	}
}

// leftovers returns the processes that are neither daemons nor clients, and mounts.
func (c *Cluster) leftovers() ([]string, error) {
	pids, err := belong.Processes(c.Dir)
	if err != nil {
		return nil, err
	}
	known := map[int]bool{}
	for _, p := range append(c.hadoop(), c.daemons()...) {
		if p != nil {
			known[p.cmd.Process.Pid] = true
		}
	}
	for _, m := range c.machines {
		if m.disk != nil {
			known[m.disk.PID()] = true
		}
	}
	left, err := linux.ProcFS("").MountedIn("self", c.Dir)
	mounts, e := c.mounts(c.Dir)
	left, err = append(left, mounts...), errors.Join(err, e)
	for _, pid := range pids {
		if !known[pid] {
			left = append(left, belong.Describe(pid))
		}
	}
	return left, err
}

// sweep ends every process of the cluster in dir and undoes every mount and cgroup.
func sweep(dir string) error {
	if err := belong.End(dir); err != nil {
		return err
	}
	mounts, err := linux.ProcFS("").MountedIn("self", dir)
	for _, m := range mounts {
		if e := unix.Unmount(m, 0); e != nil {
			err = errors.Join(err, fmt.Errorf("unmount %s: %w", m, e))
		}
	}
	err = errors.Join(err, cgroup.RemoveNamed(filepath.Base(dir)+"-"))
	daemons, _ := filepath.Glob(filepath.Join(dir, "node*", stateName))
	for _, d := range daemons {
		if groups, _ := cgroup.Open(d); groups != nil { // of containers of one that was killed
			err = errors.Join(err, groups.Remains(func(string) bool { return false }))
			groups.Close()
		}
	}
	if e := os.Remove(socketDir(dir)); !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}
