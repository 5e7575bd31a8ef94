package yarn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"headrace/internal/crash"
	"headrace/lab/slowdisk"
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
	ports properties // of the NodeManager
	// dataPorts are those of the DataNode.
	dataPorts properties
	ns        *namespace     // nil without the option Machines
	disk      *slowdisk.Disk // nil without the option Disk
	group     string         // its memory cgroup; empty without the option MachineMemory
	cache     string         // that of who has blocks of HDFS in memory; empty: group

	nm       *process
	dataNode *process
	agent    *process // headrace node
	fs       *process // headrace dfs
	flags    []string // of its command line, as StartDaemons was given them
	dies     string   // the crash point at which it dies, for tests
}

// prepare makes the machine, on which nothing runs yet.
func (m *machine) prepare(ctx context.Context) error {
	err := m.mkdir("")
	if err == nil && m.o.Machines {
		err = m.separate(ctx)
	}
	if err != nil {
		return err
	}
	m.ports, err = m.freePorts(m.ns, m.host, "yarn.nodemanager.", "address", "localizer.address",
		"webapp.address", "collector-service.address")
	if err == nil && m.o.HDFS != nil {
		m.dataPorts, err = m.freePorts(m.ns, m.host, "dfs.datanode.", "address", "http.address", "ipc.address")
	}
	return err
}

// mkdir makes a directory of the machine, which YARN's user may write.
func (m *machine) mkdir(name string) error {
	return errors.Join(os.Mkdir(m.path(name), 0o755), m.giveToUser(m.path(name)))
}

// separate gives the machine what it is to have for itself: namespaces, memory, a disk.
func (m *machine) separate(ctx context.Context) (err error) {
	m.ns = &namespace{}
	if m.head != nil {
		if m.ns, err = m.head.newMachine(m.index, m.host); err != nil {
			return err
		}
	}
	binds := []bind{{m.path(""), m.homeDir()}}
	if m.o.HDFS != nil && m.o.HDFS.ShortCircuit {
		if err := m.mkdir(socketName); err != nil {
			return err
		}
		binds = append(binds, bind{m.path(socketName), socketDir(m.Dir)})
	}
	if err := m.ns.mount(binds...); err != nil {
		return err
	}
	if err := m.limitMemory(); err != nil {
		return err
	}
	return m.addDisk(ctx)
}

// stateName is the state directory of a node daemon among its machine's.
const stateName = "headrace"

// at returns a path as processes of the machine know it; path is where others find it.
func (m *machine) at(name string) string {
	if m.ns == nil {
		return m.path(name)
	}
	return filepath.Join(m.homeDir(), name)
}

func (m *machine) path(name string) string {
	return filepath.Join(m.Dir, fmt.Sprint("node", m.index), name)
}

func (m *machine) stateDir() string { return m.path(stateName) }
func (m *machine) socket() string   { return wire.SocketPath(m.stateDir()) }

// run starts a daemon there.
func (m *machine) run(name, log string, cmd *exec.Cmd) (p *process, err error) {
	return m.runIn(m.group, name, log, cmd)
}

// runReader starts one that has blocks of HDFS in memory.
func (m *machine) runReader(name, log string, cmd *exec.Cmd) (*process, error) {
	return m.runIn(orDefault(m.cache, m.group), name, log, cmd)
}

func (m *machine) runIn(group, name, log string, cmd *exec.Cmd) (p *process, err error) {
	err = m.do(group, cmd, func() error {
		p, err = startProcess(name, m.logFile(log), cmd)
		return err
	})
	return p, err
}

// do calls start on the machine, which starts cmd there, within a memory cgroup.
func (m *machine) do(group string, cmd *exec.Cmd, start func() error) error {
	return m.ns.do(func() error {
		leave, err := enterMemory(group, cmd)
		if err != nil {
			return err
		}
		defer leave()
		return start()
	})
}

func (m *machine) launchNM() (err error) {
	const class = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
	m.nm, err = m.run("NodeManager", fmt.Sprint("nm", m.index), m.daemon(class, m.path("conf")))
	return err
}

func (m *machine) launchAgent() (err error) {
	args := []string{"node", "--config=", "--manager", "http://" + orDefault(m.relayed, m.manager), "--token-file", m.tokenFile(), "--name", m.host,
		"--state-dir", m.at(stateName)}
	if m.o.User != "" {
		args = append(args, "--operator", m.o.User)
	}
	if m.o.HDFS != nil {
		args = append(args, "--hdfs-site", m.hdfsSiteFile())
	}
	cmd := m.command(m.o.Binary, slices.Concat(args, m.o.NodeFlags, m.flags))
	if m.dies != "" {
		cmd.Env = append(cmd.Env, crash.Env+"="+m.dies)
	}
	name := fmt.Sprint("node", m.index)
	m.agent, err = m.runReader("headrace "+name, "headrace-"+name, cmd)
	return err
}

// machines are those of a cluster.
type machines []*machine

// Nodes returns how many NodeManagers the cluster has, running or not.
func (all machines) Nodes() int { return len(all) }

// Host returns the name under which YARN and Headrace know NodeManager i.
func (all machines) Host(i int) string { return all[i].host }

// On calls f on machine i: what it opens by absolute paths are files of that machine, and
// what it connects to is what the machine would. What it has opened works everywhere.
// Processes that it starts are on the machine but not within its memory.
func (all machines) On(i int, f func() error) error { return all[i].ns.do(f) }

// Start starts a command on machine i, within its memory.
func (all machines) Start(i int, cmd *exec.Cmd) error { return all[i].do(all[i].group, cmd, cmd.Start) }

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

// nodeManagers, dataNodes and agents are the daemons of all, nil where one was killed.
func (all machines) nodeManagers() (list []*process) {
	for _, m := range all {
		list = append(list, m.nm)
	}
	return list
}

func (all machines) dataNodes() (list []*process) {
	for _, m := range all {
		list = append(list, m.dataNode)
	}
	return list
}

func (all machines) agents() (list []*process) {
	for _, m := range all {
		list = append(list, m.agent)
	}
	return list
}

func (all machines) fileSystems() (list []*process) {
	for _, m := range all {
		list = append(list, m.fs)
	}
	return list
}

// running returns how many NodeManagers run.
func (all machines) running() int {
	return len(slices.DeleteFunc(all.nodeManagers(), func(p *process) bool { return p == nil || p.gone() }))
}

// mounts returns those in dir in namespaces of machines, but for what each has there from
// the start.
func (all machines) mounts(dir string) (list []string, err error) {
	for _, m := range all {
		mounts, e := m.ns.mounts(dir)
		mounts = slices.DeleteFunc(mounts, func(p string) bool { return m.disk != nil && p == m.disk.Dir() })
		list, err = append(list, mounts...), errors.Join(err, e)
	}
	return list, err
}

// close ends what the machines are made of. Nothing runs on them any more.
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

// Said returns the ends of what the containers of an application have written, for a
// person who has to find out what went wrong.
func (all machines) Said(app string) string {
	logs, err := all.ContainerLogs(app)
	if err != nil || app == "" {
		return ""
	}
	var text strings.Builder
	for name, log := range logs {
		if log != "" {
			fmt.Fprintf(&text, "\n---- %s\n%s", name, log[max(0, len(log)-2000):])
		}
	}
	return text.String()
}
