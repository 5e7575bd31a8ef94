package yarn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"headrace/internal/crash"
	"headrace/wire"
	"headrace/wire/convert"
	"headrace/wire/wireconnect"
)

// A machine is one of a cluster: an address, a directory, and the daemons that run
// there.
type machine struct {
	*config
	index int
	host  string
	ports properties
	ns    *namespace // nil without the option Machines

	nm    *process
	agent *process // headrace node
	flags []string // of its command line, as StartDaemons was given them
	dies  string   // the crash point at which it dies, for tests
}

func newMachine(c *config, index int) (*machine, error) {
	m := &machine{config: c, index: index, host: fmt.Sprint(c.network, index+2)}
	if err := errors.Join(os.Mkdir(m.path(""), 0o755), c.giveToUser(m.path(""))); err != nil {
		return nil, err
	}
	var err error
	m.ports, err = freePorts(m.host, "yarn.nodemanager.", "address", "localizer.address",
		"webapp.address", "collector-service.address")
	return m, err
}

// stateName is the state directory of a node daemon among its machine's.
const stateName = "headrace"

// at returns a path as processes of the machine know it; path is where others find it.
func (m *machine) at(name string) string {
	if m.ns == nil {
		return m.path(name)
	}
	return filepath.Join(m.ns.home, name)
}

func (m *machine) path(name string) string {
	return filepath.Join(m.Dir, fmt.Sprint("node", m.index), name)
}

func (m *machine) stateDir() string { return m.path(stateName) }
func (m *machine) socket() string   { return wire.SocketPath(m.stateDir()) }

// run starts a daemon there.
func (m *machine) run(name, log string, cmd *exec.Cmd) (p *process, err error) {
	err = m.ns.do(func() error {
		p, err = startProcess(name, m.logFile(log), cmd)
		return err
	})
	return p, err
}

func (m *machine) launchNM() (err error) {
	const class = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
	m.nm, err = m.run("NodeManager", fmt.Sprint("nm", m.index), m.daemon(class, m.path("conf")))
	return err
}

func (m *machine) launchAgent() (err error) {
	args := []string{"node", "--config=", "--manager", m.managerURL(), "--token-file", m.tokenFile(), "--name", m.host,
		"--state-dir", m.at(stateName)}
	if m.o.User != "" {
		args = append(args, "--operator", m.o.User)
	}
	cmd := m.command(m.o.Binary, slices.Concat(args, m.o.NodeFlags, m.flags))
	if m.dies != "" {
		cmd.Env = append(cmd.Env, crash.Env+"="+m.dies)
	}
	name := fmt.Sprint("node", m.index)
	m.agent, err = m.run("headrace "+name, "headrace-"+name, cmd)
	return err
}

// machines are those of a cluster.
type machines []*machine

// Nodes returns how many NodeManagers the cluster has, running or not.
func (all machines) Nodes() int { return len(all) }

// Host returns the name under which YARN and Headrace know NodeManager i.
func (all machines) Host(i int) string { return all[i].host }

// KillNM ends NodeManager i with SIGKILL; its containers run on.
func (all machines) KillNM(i int) error { return kill(&all[i].nm) }

// StartNM starts it again and returns when it is registered anew.
func (all machines) StartNM(ctx context.Context, i int) error {
	m := all[i]
	before := logSize(m.logFile(fmt.Sprint("nm", i)))
	if err := m.launchNM(); err != nil {
		return err
	}
	return await(ctx, "wait for the NodeManager", startTime, func(ctx context.Context) (bool, error) {
		if m.nm.gone() {
			return false, &fatal{m.nm.problem()}
		}
		return logHas(m.nm.log, before, "Registered with ResourceManager"), nil
	})
}

// KillNode ends the node daemon beside NodeManager i with SIGKILL.
func (all machines) KillNode(i int) error { return kill(&all[i].agent) }

// nodeManagers and agents are the daemons of all, nil where one was killed.
func (all machines) nodeManagers() (list []*process) {
	for _, m := range all {
		list = append(list, m.nm)
	}
	return list
}

func (all machines) agents() (list []*process) {
	for _, m := range all {
		list = append(list, m.agent)
	}
	return list
}

// running returns how many NodeManagers run.
func (all machines) running() int {
	return len(slices.DeleteFunc(all.nodeManagers(), func(p *process) bool { return p == nil || p.gone() }))
}

// giveNamespaces gives each of them one.
func (all machines) giveNamespaces(home string) error {
	if err := os.Mkdir(home, 0o755); err != nil {
		return err
	}
	for _, m := range all {
		var err error
		if m.ns, err = newNamespace(m.path(""), home); err != nil {
			return errors.Join(err, all.close())
		}
	}
	return nil
}

// mounts returns those in dir in namespaces of machines, but for what each has at home.
func (all machines) mounts(dir string) (list []string, err error) {
	for _, m := range all {
		mounts, e := m.ns.mounts(dir)
		list, err = append(list, mounts...), errors.Join(err, e)
	}
	return list, err
}

func (all machines) close() (err error) {
	for _, m := range all {
		err = errors.Join(err, m.ns.close())
		m.ns = nil
	}
	return err
}

// Tasks returns the tasks of the node daemon beside NodeManager i, those that have
// ended too.
func (all machines) Tasks(ctx context.Context, i int) ([]*wire.Task, error) {
	client := wire.NewHTTPClient(all[i].socket())
	defer client.CloseIdleConnections()
	answer, err := wireconnect.NewTaskServiceClient(client, wire.BaseURL).List(ctx, &wire.ListRequest{All: true})
	if err != nil {
		return nil, err
	}
	return answer.Tasks, nil
}

// TaskOf returns the task of a container on NodeManager i, with its history.
func (all machines) TaskOf(ctx context.Context, i int, container string) (*wire.Task, error) {
	client := wire.NewHTTPClient(all[i].socket())
	defer client.CloseIdleConnections()
	return wireconnect.NewTaskServiceClient(client, wire.BaseURL).Get(ctx, &wire.GetRequest{Id: container})
}

// AwaitTasks returns when the tasks of all nodes together satisfy ok; what says for
// an error message what was waited for.
func (all machines) AwaitTasks(ctx context.Context, what string, limit time.Duration, ok func([]*wire.Task) bool) error {
	var last []*wire.Task
	err := await(ctx, "wait for "+what, limit, func(ctx context.Context) (bool, error) {
		var found []*wire.Task
		for i := range all {
			tasks, err := all.Tasks(ctx, i)
			if err != nil {
				return false, err
			}
			found = append(found, tasks...)
		}
		last = found
		return ok(found), nil
	})
	if err == nil {
		return nil
	}
	for _, t := range last {
		err = errors.Join(err, fmt.Errorf("%s: %s %s (%s)", t.Id, convert.StateName(t), convert.Doing(t), t.Reason))
	}
	return err
}

// ContainerLogs returns the files that the containers of an application have written,
// by container and name, as in container_1_1_01_000001/stdout.
func (all machines) ContainerLogs(app string) (map[string]string, error) {
	out := map[string]string{}
	for _, m := range all {
		dir := filepath.Join(m.path("logs"), app)
		files, err := filepath.Glob(filepath.Join(dir, "container_*", "*"))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			name, err := filepath.Rel(dir, f)
			if err != nil {
				return nil, err
			}
			out[name] = string(text)
		}
	}
	return out, nil
}
