package yarn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"headrace/internal/freeport"
)

// dirPrefix begins the name of a cluster's directory.
const dirPrefix = "headrace-yarn-"

// startTime is how long all daemons together get until they are ready.
const startTime = 10 * time.Minute

// A Cluster is a running one. Its methods may be called by several goroutines; those
// that kill and start daemons only by one at a time.
type Cluster struct {
	// Dir has everything that the cluster writes. Logs of daemons and clients are in
	// Dir/log.
	Dir string

	o        Options
	lock     *os.File // nil when the directory is kept
	network  string   // the first three bytes of its addresses
	javaHome string
	http     *http.Client
	ports    properties // of the ResourceManager
	nodes    []*node
	user     *syscall.Credential // of the option User; nil: that of this process

	rm      *process
	manager *manager

	mu      sync.Mutex
	clients []*process
}

// A node is a NodeManager and what belongs to it.
type node struct {
	c     *Cluster
	index int
	host  string
	ports properties
	nm    *process
	agent *process // headrace node
	flags []string // of its command line, as StartDaemons was given them
	dies  string   // the crash point at which it dies, for tests
	// machine is nil without the option Machines.
	machine *machine
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
	user, err := credential(o.User)
	if err != nil {
		return nil, err
	}
	java, err := filepath.EvalSymlinks(o.Jars.Java)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := removeStale(o.Dir); err != nil {
		return nil, fmt.Errorf("remove what a killed process has left: %w", err)
	}
	dir, err := os.MkdirTemp(o.Dir, dirPrefix)
	if err != nil {
		return nil, err
	}
	var lock *os.File
	if !o.Keep {
		if lock, err = lockDir(dir, os.O_CREATE); err != nil {
			return nil, err
		}
	}
	// Containers may belong to others.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, o: o, user: user, lock: lock, javaHome: filepath.Dir(filepath.Dir(java)), http: &http.Client{Timeout: 10 * time.Second},
		network: fmt.Sprintf("127.%d.%d.", 1+rand.IntN(250), rand.IntN(250))}
	for _, sub := range []string{"log", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(c.giveToUser(dir), c.giveToUser(filepath.Join(dir, "tmp"))); err != nil {
		return nil, err
	}
	if c.ports, err = freePorts(c.rmHost(), "yarn.resourcemanager.", "address", "scheduler.address",
		"resource-tracker.address", "admin.address", "webapp.address"); err != nil {
		return nil, err
	}
	for i := range o.Nodes {
		n := &node{c: c, index: i, host: fmt.Sprint(c.network, i+2)}
		if err := errors.Join(os.Mkdir(n.path(""), 0o755), c.giveToUser(n.path(""))); err != nil {
			return nil, err
		}
		if n.ports, err = freePorts(n.host, "yarn.nodemanager.", "address", "localizer.address",
			"webapp.address", "collector-service.address"); err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, n)
	}
	if o.Machines {
		if err := c.makeMachines(); err != nil {
			return nil, err
		}
	}
	return c, c.newManager()
}

// freePorts finds a port for each of the properties. They are free when it returns,
// nobody else uses the address, and the kernel gives them to nobody.
func freePorts(host, prefix string, names ...string) (properties, error) {
	p := properties{}
	for _, name := range names {
		l, err := freeport.Listen(host)
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		p[prefix+name] = l.Addr().String()
	}
	return p, nil
}

func (c *Cluster) rmHost() string  { return c.network + "1" }
func (c *Cluster) confDir() string { return filepath.Join(c.Dir, "conf") }

func (c *Cluster) logFile(name string) string { return filepath.Join(c.Dir, "log", name+".log") }

func (n *node) path(name string) string {
	return filepath.Join(n.c.Dir, fmt.Sprint("node", n.index), name)
}
func (n *node) confDir() string { return n.path("conf") }

func (c *Cluster) start(ctx context.Context) error {
	if err := c.writeConfig(); err != nil {
		return err
	}
	if err := c.launchRM(); err != nil {
		return err
	}
	for _, n := range c.nodes {
		if err := n.launch(); err != nil {
			return err
		}
	}
	if c.o.Mode == Headrace && !c.o.NoDaemons {
		if err := c.startHeadrace(ctx); err != nil {
			return err
		}
	}
	return c.awaitNodes(ctx, len(c.nodes))
}

// daemonHeap is the heap of a daemon in MB.
const daemonHeap = 192

func (c *Cluster) launchRM() (err error) {
	const class = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
	c.rm, err = startProcess("ResourceManager", c.logFile("rm"), c.java(daemonHeap, class, c.daemonPath(c.confDir())))
	return err
}

func (n *node) launch() (err error) {
	const class = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
	cmd := n.c.java(daemonHeap, class, n.c.daemonPath(n.confDir()))
	return n.machine.do(func() error {
		n.nm, err = startProcess("NodeManager", n.c.logFile(fmt.Sprint("nm", n.index)), cmd)
		return err
	})
}

func (c *Cluster) daemonPath(conf string) []string {
	path := []string{conf}
	if c.o.Mode == Headrace {
		path = append(path, c.o.Jars.Plugin)
	}
	return append(path, filepath.Join(c.o.Jars.Lib, "*"))
}

// awaitNodes returns when so many NodeManagers are registered.
func (c *Cluster) awaitNodes(ctx context.Context, want int) error {
	return await(ctx, fmt.Sprintf("wait for %d NodeManagers", want), startTime, func(ctx context.Context) (bool, error) {
		if err := c.died(); err != nil {
			return false, &fatal{err}
		}
		m, err := c.Metrics(ctx)
		return err == nil && m.ActiveNodes == want, err
	})
}

// died says which daemon has ended that should run; nil: none.
func (c *Cluster) died() error {
	var errs []error
	daemons := []*process{c.rm}
	for _, n := range c.nodes {
		daemons = append(daemons, n.nm, n.agent)
	}
	for _, p := range daemons {
		if p != nil && p.gone() {
			errs = append(errs, p.problem())
		}
	}
	return errors.Join(errs...)
}

// Nodes is how many NodeManagers the cluster has, running or not.
func (c *Cluster) Nodes() int { return len(c.nodes) }

// Host is the name under which YARN and Headrace know NodeManager i.
func (c *Cluster) Host(i int) string { return c.nodes[i].host }

// KillRM ends the ResourceManager with SIGKILL.
func (c *Cluster) KillRM() error {
	err := c.rm.kill()
	c.rm = nil
	return err
}

// StartRM starts it again and returns when all NodeManagers that run are back.
func (c *Cluster) StartRM(ctx context.Context) error {
	if err := c.launchRM(); err != nil {
		return err
	}
	return c.awaitNodes(ctx, c.runningNodes())
}

// KillNM ends NodeManager i with SIGKILL; its containers run on.
func (c *Cluster) KillNM(i int) error {
	err := c.nodes[i].nm.kill()
	c.nodes[i].nm = nil
	return err
}

// StartNM starts it again and returns when it is registered anew.
func (c *Cluster) StartNM(ctx context.Context, i int) error {
	n := c.nodes[i]
	before := logSize(c.logFile(fmt.Sprint("nm", i)))
	if err := n.launch(); err != nil {
		return err
	}
	return await(ctx, "wait for the NodeManager", startTime, func(ctx context.Context) (bool, error) {
		if n.nm.gone() {
			return false, &fatal{n.nm.problem()}
		}
		return logHas(n.nm.log, before, "Registered with ResourceManager"), nil
	})
}

func (c *Cluster) runningNodes() int {
	running := 0
	for _, n := range c.nodes {
		if n.nm != nil && !n.nm.gone() {
			running++
		}
	}
	return running
}

func logSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// logHas reports whether a log has a text after the given place.
func logHas(path string, from int64, text string) bool {
	b, err := os.ReadFile(path)
	return err == nil && int64(len(b)) >= from && strings.Contains(string(b[from:]), text)
}
