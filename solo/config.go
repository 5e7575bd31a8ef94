package solo

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"headrace/data/blocks"
	"headrace/limits"
	"headrace/policy"
	"headrace/policy/prefetch"
	"headrace/report"
	"headrace/solo/statedir"
	"headrace/solo/store"
	"headrace/stream"
)

// Config is what a daemon is told. Only StateDir and Shim must be set.
type Config struct {
	// StateDir is an absolute path; it is created. See package statedir for
	// what it holds.
	StateDir string
	// Shim is the path of headrace-shim.
	Shim string
	// CRIU is the path of the CRIU binary; empty: no checkpoints.
	CRIU string

	// Slots is how many processors the tasks may use; 0: all of the machine.
	Slots float64
	// Memory is the budget for the resident memory of all tasks, in bytes; 0:
	// 90 % of the machine's.
	Memory int64
	// EnforceMemory makes Memory the limit of a cgroup around those of all tasks.
	EnforceMemory bool
	// TaskPIDs is how many processes and threads a task may have that does not say,
	// and the most that an ordinary user may ask for; 0: 16,384.
	TaskPIDs int64
	// SwapReserve is a part of the swap area, in bytes, that is left to others. The
	// policy keeps a share of the rest free as well.
	SwapReserve int64
	StoresConfig

	// WarmBudget is how many bytes of files may be kept in memory for whoever will
	// read them; 0: what package pagecache calls usual. NoWarm keeps none.
	WarmBudget int64
	NoWarm     bool
	// Warm decides what is kept first.
	Warm prefetch.Config
	// Buffer is the shared memory that a stream reads ahead into, in bytes, unless
	// its request says otherwise; 0: the default of package stream.
	Buffer int64

	// Limits are what users other than root and the daemon's own may take; nil: the
	// defaults.
	Limits *limits.Source

	// Operators are the users, besides root and the daemon's own, that may announce
	// containers of another scheduler (wire.HostService).
	Operators []uint32
	// Cluster knows what is on other machines; nil: there is no manager.
	Cluster Cluster

	// DataNode is that of a distributed file system on this machine; nil: no blocks are
	// looked after.
	DataNode *DataNode

	// Elsewhere is where checkpoints of containers go that are to go on on another
	// machine; nil: nowhere.
	Elsewhere Elsewhere

	// Policy decides who runs and who has to leave, and how.
	Policy policy.Config

	// StallLimit is how long CRIU may make no progress in a dump or a restore until it
	// is ended; 0: a minute.
	StallLimit time.Duration
	// SuspendGrace is how long handlers of SIGTSTP get; 0: 100 ms.
	SuspendGrace time.Duration
	// KillGrace is the time between TERM and KILL when a user kills a task and
	// names no other; 0: 10 s. A kill that makes room is immediate.
	KillGrace time.Duration
	// SpecBytes is how much the commands, environments and paths of inputs of all waiting and running
	// tasks may take, in bytes, but those of root and the daemon's own user; 0: 1 GiB.
	// It is room on the disk: what one user may have of it, Limits say.
	SpecBytes int64
	// KeepEnded is how many ended tasks are kept; older ones are forgotten, their
	// logs too. 0: 10,000.
	KeepEnded int

	// UserRequestBytes is how many bytes of requests that are not answered yet the
	// daemon keeps for one user, RequestBytes for all users together but root and its
	// own user; 0: 24 and 96 MiB.
	UserRequestBytes, RequestBytes int64
	// UserConnections is how many connections to each of its sockets one user may have;
	// all together but root and its own user may have three times as many. 0: 256.
	UserConnections int

	// Metrics is a loopback host:port for Prometheus; empty: none.
	Metrics string
	// Version is shown to clients.
	Version string
	// Log gets structured messages; nil: none.
	Log *slog.Logger
}

// DataNode keeps blocks of a distributed file system.
type DataNode struct {
	Replicas blocks.Replicas
	// Hosts are the names that the file system has for this machine.
	Hosts []string
}

// StoresConfig says where checkpoints are.
type StoresConfig struct {
	// Stores hold checkpoints; none: one named "state" below StateDir.
	Stores []store.Config
	// NewStores are directories in which what was there before is lost. Else a store that is
	// empty is taken for one whose file system is not mounted, and what was in it waits.
	NewStores []string
}

const (
	defaultSuspendGrace = 100 * time.Millisecond
	defaultKillGrace    = 10 * time.Second
	defaultKeepEnded    = 10000
	defaultSpecBytes    = 1 << 30
	defaultTaskPIDs     = 16384

	defaultUserRequestBytes, defaultRequestBytes = 24 << 20, 96 << 20
	defaultUserConnections                       = 256
)

// complete checks the configuration and fills in the defaults.
func (c *Config) complete(mem memoryInfo) error {
	if !filepath.IsAbs(c.StateDir) {
		return fmt.Errorf("state directory %q: give an absolute path", c.StateDir)
	}
	c.StateDir = filepath.Clean(c.StateDir)
	c.Slots = cmp.Or(c.Slots, float64(runtime.NumCPU()))
	c.Memory = cmp.Or(c.Memory, mem.Total/10*9)
	c.TaskPIDs = cmp.Or(c.TaskPIDs, defaultTaskPIDs)
	c.SpecBytes = cmp.Or(c.SpecBytes, defaultSpecBytes)
	c.KeepEnded = cmp.Or(c.KeepEnded, defaultKeepEnded)
	c.SuspendGrace = cmp.Or(c.SuspendGrace, defaultSuspendGrace)
	c.KillGrace = cmp.Or(c.KillGrace, defaultKillGrace)
	if math.IsNaN(c.Slots) || c.Slots < 0 || c.Slots > 1e6 {
		return fmt.Errorf("slots %v: give a positive number", c.Slots)
	}
	if most := mem.Total + mem.SwapTotal; mem.Total > 0 && c.Memory > most {
		return fmt.Errorf("memory %s: the machine has %s, and %s of swap; give at most that", report.Bytes(c.Memory), report.Bytes(mem.Total), report.Bytes(mem.SwapTotal))
	}
	if c.Memory < 0 {
		return fmt.Errorf("memory %d: give a positive number of bytes", c.Memory)
	}
	if c.SwapReserve < 0 {
		return fmt.Errorf("swap reserve %d: give a number of bytes", c.SwapReserve)
	}
	if c.WarmBudget < 0 || c.Buffer < 0 {
		return fmt.Errorf("budget for warming %d, buffer %d: give numbers of bytes", c.WarmBudget, c.Buffer)
	}
	if c.Buffer != 0 && c.Buffer < stream.MinBuffer {
		return fmt.Errorf("buffer %s is too small; give at least %s", report.Bytes(c.Buffer), report.Bytes(stream.MinBuffer))
	}
	if mem.Total > 0 && c.Buffer > mem.Total {
		return fmt.Errorf("buffer %s: the machine has %s of memory; give less", report.Bytes(c.Buffer), report.Bytes(mem.Total))
	}
	if c.KeepEnded < 0 {
		return fmt.Errorf("ended tasks to keep %d: give a number, 1 or more", c.KeepEnded)
	}
	if c.TaskPIDs < 0 {
		return fmt.Errorf("%d processes for a task: give a positive number", c.TaskPIDs)
	}
	if c.Limits == nil {
		c.Limits = limits.NewSource(limits.Default("the daemon's configuration"))
	}
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if err := c.Policy.Validate(); err != nil {
		return err
	}
	if c.Metrics != "" {
		if err := checkLoopback(c.Metrics); err != nil {
			return err
		}
	}
	if err := c.completeBudgets(); err != nil {
		return err
	}
	return c.completeStores()
}

func (c *Config) completeBudgets() error {
	c.UserConnections = cmp.Or(c.UserConnections, defaultUserConnections)
	c.UserRequestBytes = cmp.Or(c.UserRequestBytes, defaultUserRequestBytes)
	c.RequestBytes = cmp.Or(c.RequestBytes, max(defaultRequestBytes, c.UserRequestBytes))
	switch {
	case c.UserConnections < 0 || c.UserConnections > math.MaxInt32:
		return fmt.Errorf("user-connections %d: give a number, 1 or more", c.UserConnections)
	case c.UserRequestBytes < maxRequest:
		return fmt.Errorf("user-request-bytes %s: one request may have %s; give at least that", report.Bytes(c.UserRequestBytes), report.Bytes(maxRequest))
	case c.RequestBytes < c.UserRequestBytes:
		return fmt.Errorf("request-bytes %s: one user may have %s of them; give at least that", report.Bytes(c.RequestBytes), report.Bytes(c.UserRequestBytes))
	case c.StallLimit < 0:
		return fmt.Errorf("stall-limit %v: give a duration", c.StallLimit)
	}
	return nil
}

func (c *Config) completeStores() error {
	if len(c.Stores) == 0 {
		c.Stores = []store.Config{{Name: "state", Dir: statedir.Checkpoints(c.StateDir)}}
	}
	for i, dir := range c.NewStores {
		c.NewStores[i] = filepath.Clean(dir)
	}
	seen := map[string]bool{}
	for i := range c.Stores {
		s := &c.Stores[i]
		if s.Name == "" || strings.ContainsAny(s.Name, "/\x00\n") {
			return fmt.Errorf("checkpoint store %q: give it a name without slashes", s.Name)
		}
		if !filepath.IsAbs(s.Dir) {
			return fmt.Errorf("checkpoint store %s: directory %q: give an absolute path", s.Name, s.Dir)
		}
		s.Dir = filepath.Clean(s.Dir)
		if seen["name "+s.Name] || seen["dir "+s.Dir] {
			return fmt.Errorf("checkpoint store %s in %s: name and directory must be its own", s.Name, s.Dir)
		}
		seen["name "+s.Name], seen["dir "+s.Dir] = true, true
	}
	return nil
}

// checkLoopback refuses addresses that other machines could reach: the metrics
// tell what is running.
func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("metrics address %q: %w; give 127.0.0.1:PORT", addr, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("metrics address %q: only a loopback address is allowed; give 127.0.0.1:PORT", addr)
	}
	return nil
}
