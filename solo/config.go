package solo

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"headrace/policy"
	"headrace/report"
	"headrace/stream"
)

// Config is what a daemon is told. Only StateDir and Shim must be set.
type Config struct {
	// StateDir is an absolute path; it is created. See the package comment for
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
	// EnforceMemory puts all tasks in a memory cgroup with Memory as its limit.
	EnforceMemory bool
	// SwapReserve is a part of the swap area, in bytes, that is left to others. The
	// policy keeps a share of the rest free as well.
	SwapReserve int64
	// Stores hold checkpoints; none: one named "state" below StateDir.
	Stores []StoreConfig

	// WarmBudget is how many bytes of files may be kept in memory for whoever will
	// read them; 0: what package pagecache calls usual. NoWarm keeps none.
	WarmBudget int64
	NoWarm     bool
	// Warm decides what is kept first.
	Warm policy.WarmConfig
	// Buffer is the shared memory that a stream reads ahead into, in bytes, unless
	// its request says otherwise; 0: the default of package stream.
	Buffer int64

	// Operators are the users, besides root and the daemon's own, that may announce
	// containers of another scheduler (wire.HostService).
	Operators []uint32
	// Cluster knows what is on other machines; nil: there is no manager.
	Cluster Cluster

	// Elsewhere is where checkpoints of containers go that are to go on on another
	// machine; nil: nowhere.
	Elsewhere Elsewhere

	// Policy decides who runs and who has to leave, and how.
	Policy policy.Config

	// SuspendGrace is how long handlers of SIGTSTP get; 0: 100 ms.
	SuspendGrace time.Duration
	// KillGrace is the time between TERM and KILL when a user kills a task and
	// names no other; 0: 10 s. A kill that makes room is immediate.
	KillGrace time.Duration
	// KeepEnded is how many ended tasks are kept; older ones are forgotten, their
	// logs too. 0: 10,000.
	KeepEnded int

	// Metrics is a loopback host:port for Prometheus; empty: none.
	Metrics string
	// Version is shown to clients.
	Version string
	// Log gets structured messages; nil: none.
	Log *slog.Logger
}

// StoreConfig is a directory that holds checkpoints.
type StoreConfig struct {
	Name string
	// Dir is an absolute path; it is created, readable by its owner only.
	Dir string
	// Compress stores memory pages compressed.
	Compress bool
}

const (
	defaultSuspendGrace = 100 * time.Millisecond
	defaultKillGrace    = 10 * time.Second
	defaultKeepEnded    = 10000
)

// complete checks the configuration and fills in the defaults.
func (c *Config) complete(mem memoryInfo) error {
	if !filepath.IsAbs(c.StateDir) {
		return fmt.Errorf("state directory %q: give an absolute path", c.StateDir)
	}
	c.StateDir = filepath.Clean(c.StateDir)
	if c.Slots == 0 {
		c.Slots = float64(runtime.NumCPU())
	}
	if math.IsNaN(c.Slots) || c.Slots < 0 || c.Slots > 1e6 {
		return fmt.Errorf("slots %v: give a positive number", c.Slots)
	}
	if c.Memory == 0 {
		c.Memory = mem.Total / 10 * 9
	}
	if c.Memory < 0 {
		return fmt.Errorf("memory budget %d: give a positive number of bytes", c.Memory)
	}
	if c.SwapReserve < 0 {
		return fmt.Errorf("swap reserve %d: give a number of bytes", c.SwapReserve)
	}
	if c.WarmBudget < 0 || c.Buffer < 0 {
		return fmt.Errorf("budget for warming %d, buffer %d: give numbers of bytes", c.WarmBudget, c.Buffer)
	}
	if c.Buffer != 0 && c.Buffer < stream.MinBuffer {
		return fmt.Errorf("a buffer of %s is too small; give at least %s", report.Bytes(c.Buffer), report.Bytes(stream.MinBuffer))
	}
	if c.SuspendGrace == 0 {
		c.SuspendGrace = defaultSuspendGrace
	}
	if c.KillGrace == 0 {
		c.KillGrace = defaultKillGrace
	}
	if c.KeepEnded == 0 {
		c.KeepEnded = defaultKeepEnded
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
	return c.completeStores()
}

func (c *Config) completeStores() error {
	if len(c.Stores) == 0 {
		c.Stores = []StoreConfig{{Name: "state", Dir: filepath.Join(c.StateDir, "checkpoints")}}
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
