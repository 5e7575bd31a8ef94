package yarn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"headrace/internal/linux"
)

// DFS is a file system of Headrace's on the machines of a cluster, beside HDFS. Its nodes have
// names of files where NameNodes have theirs, and blocks on the disks that DataNodes have theirs on.
type DFS struct {
	*config
	machines machines
	made     int // file systems so far
	nodes    int // of the one there is
}

// fsPort is where nodes serve RPC: nobody else does, as each machine has a network of its own.
const fsPort = 8020

// Make makes a new file system on the first so many machines, in the place of the one there was, and
// returns when all nodes are of it.
func (d *DFS) Make(ctx context.Context, nodes int, flags ...string) error {
	if err := d.Remove(); err != nil {
		return err
	}
	d.made++
	d.nodes = nodes
	for i, m := range d.machines[:nodes] {
		m.flags = flags
		if err := m.launchFS(d.made, nodes > 1); err != nil {
			return err
		}
		if i == 0 || i == nodes-1 { // the first has made the token then, and others find it
			if err := d.await(ctx, i); err != nil {
				return err
			}
		}
	}
	return d.AwaitAll(ctx)
}

// Remove ends the file system, and deletes it.
func (d *DFS) Remove() error {
	var errs []error
	for _, m := range d.machines {
		errs = append(errs, stop(&m.fs))
	}
	for _, m := range d.machines[:d.nodes] {
		errs = append(errs, os.RemoveAll(m.path(fsDir(d.made))), m.ns.do(func() error { return os.RemoveAll(m.fsDisk(d.made)) }))
	}
	d.nodes = 0
	return errors.Join(append(errs, os.RemoveAll(d.fsToken(d.made)))...)
}

func fsDir(made int) string { return fmt.Sprint("dfs", made) }
func (m *machine) fsDisk(made int) string {
	return m.at(filepath.Join(diskName, fmt.Sprint("ours", made)))
}
func (c *config) fsToken(made int) string { return filepath.Join(c.Dir, fmt.Sprint("dfs-token", made)) }

func (m *machine) launchFS(made int, several bool) (err error) {
	args := []string{"dfs", "start", "--dir", m.at(fsDir(made)), "--disk", m.fsDisk(made), "--listen", m.host, "--host-name", m.host, "--port", fmt.Sprint(fsPort)}
	if several {
		args = append(args, "--token-file", m.fsToken(made))
		if m.index > 0 {
			args = append(args, "--join", fmt.Sprint(m.network, 2))
		}
	}
	m.fs, err = m.run("headrace dfs", fmt.Sprint("dfs", m.index), m.command(m.o.Binary, append(args, m.flags...)))
	return err
}

// await returns when a node that was launched serves.
func (d *DFS) await(ctx context.Context, i int) error {
	return await(ctx, "wait for a node of the file system", startTime, func(ctx context.Context) (bool, error) {
		if p := d.machines[i].fs; p.gone() {
			return false, &fatal{p.problem()}
		}
		_, err := d.ring(ctx, i)
		return err == nil, err
	})
}

// fsRing is what headrace dfs ring tells.
type fsRing struct {
	Moves int      `json:"moves"`
	Nodes []fsNode `json:"nodes"`
}

type fsNode struct {
	State   string `json:"state"`
	Leads   bool   `json:"leads"`
	Address string `json:"address"`
}

func (d *DFS) address(i int) string { return fmt.Sprintf("%s:%d", d.machines[i].host, fsPort) }

func (d *DFS) ring(ctx context.Context, i int) (r fsRing, err error) {
	text, err := d.ask(ctx, "ring", "--format", "json", "--fs", "hdfs://"+d.address(i))
	if err == nil {
		err = json.Unmarshal([]byte(text), &r)
	}
	return r, err
}

// ask gives a command to the product where clients are.
func (d *DFS) ask(ctx context.Context, args ...string) (string, error) {
	var out strings.Builder
	cmd := d.command(d.o.Binary, append([]string{"dfs"}, args...))
	cmd.Stdout = &out
	p, err := d.startOnHead("headrace dfs "+args[0], d.logFile("headrace-dfs"), cmd)
	if err == nil {
		err = p.succeed(ctx)
	}
	return out.String(), err
}

// AwaitAll returns when all nodes are up, have a leader, and nothing is to be moved.
func (d *DFS) AwaitAll(ctx context.Context) error {
	return await(ctx, fmt.Sprintf("wait for %d nodes of the file system", d.nodes), startTime, func(ctx context.Context) (bool, error) {
		if err := died(d.machines.fileSystems()); err != nil {
			return false, &fatal{err}
		}
		r, err := d.ring(ctx, 0)
		if err != nil {
			return false, err
		}
		up, leads := 0, false
		for _, n := range r.Nodes {
			if n.State == "up" {
				up++
			}
			leads = leads || n.Leads
		}
		return up == d.nodes && leads && r.Moves == 0, fmt.Errorf("%+v", r)
	})
}

// Leader returns the machine whose node leads the names.
func (d *DFS) Leader(ctx context.Context) (int, error) {
	r, err := d.ring(ctx, 0)
	if err != nil {
		return 0, err
	}
	for _, n := range r.Nodes {
		for i := range d.nodes {
			if n.Leads && n.Address == d.address(i) {
				return i, nil
			}
		}
	}
	return 0, fmt.Errorf("nobody leads: %+v", r)
}

// Kill ends the node on machine i with SIGKILL.
func (d *DFS) Kill(i int) error { return kill(&d.machines[i].fs) }

// Restart starts a node again that was killed, and returns when all are up and have what they are to have.
func (d *DFS) Restart(ctx context.Context, i int) error {
	if err := d.machines[i].launchFS(d.made, d.nodes > 1); err != nil {
		return err
	}
	return errors.Join(d.await(ctx, i), d.AwaitAll(ctx))
}

// ClientFiles writes what clients are told of the file system, and returns the files.
func (d *DFS) ClientFiles(ctx context.Context) ([]string, error) {
	dir := filepath.Join(d.Dir, fmt.Sprint("conf-dfs", d.made))
	_, err := d.ask(ctx, "client-config", "--fs", "hdfs://"+d.address(0), dir)
	return []string{filepath.Join(dir, "core-site.xml"), filepath.Join(dir, "hdfs-site.xml")}, err
}

// FSUse is what the daemons of a file system have used since they were started, and have in memory.
type FSUse struct {
	// Names is processor time of the NameNodes, Data that of the others. Ours are all alike.
	Names, Data time.Duration
	// Memory is what all of them have, Most what the one has that has most, in bytes.
	Memory, Most int64
}

// Use asks the kernel.
func (d *DFS) Use() (FSUse, error) { return fsUse(nil, d.machines.fileSystems()) }

// Use asks the kernel.
func (h *HDFS) Use() (FSUse, error) { return fsUse(h.processes, h.machines.dataNodes()) }

func fsUse(names, data []*process) (u FSUse, err error) {
	add := func(to *time.Duration, all []*process) {
		for _, p := range all {
			if p == nil {
				continue
			}
			st, e := linux.ProcFS("").Stat(p.cmd.Process.Pid)
			s, e2 := linux.ProcFS("").Status(p.cmd.Process.Pid)
			err = errors.Join(err, e, e2)
			*to += st.User + st.System
			u.Memory += s.RSS
			u.Most = max(u.Most, s.RSS)
		}
	}
	add(&u.Names, names)
	add(&u.Data, data)
	return u, err
}
