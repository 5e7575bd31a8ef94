package pagecache

import (
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// Config says how to use the page cache. The zero value works.
type Config struct {
	// Budget is how many bytes may be locked at once. 0 takes what SafeBudget
	// calls usual; more than what is safe is an error (ErrUnsafeBudget).
	Budget int64
	// Limits are those of this process (ReadLimits) unless they are given.
	Limits *Limits
	// Own says that what is in memory of the files was read by this process, or for it, and
	// is charged to its cgroup: Pin locks that as it is. Otherwise it is not locked; see Pin.
	Own bool
	// Method, if not empty, is the only way to find out residency; New fails if it
	// is not to be had. Otherwise it takes the best.
	Method Method
	// Files is how many files may be watched at once: half of the descriptors that
	// this process may open, if it is 0.
	Files int
	// Log hears of what is unusual; nil discards it.
	Log *slog.Logger
}

// defaults fills in what was left out.
func (c *Config) defaults() error {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Files == 0 {
		var r unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
			return fmt.Errorf("limit of open files: %w", err)
		}
		c.Files = int(min(r.Cur/2, maxFiles))
	}
	if c.Files < 0 || c.Files > maxFiles {
		return fmt.Errorf("%d files to watch: want at most %d", c.Files, maxFiles)
	}
	if c.Limits == nil {
		l, err := ReadLimits()
		if err != nil {
			return err
		}
		c.Limits = &l
	}
	budget, err := chooseBudget(c.Budget, *c.Limits)
	c.Budget = budget
	return err
}

// maxFiles bounds the table of watched files in the kernel.
const maxFiles = 1 << 20

// New starts to follow the page cache. The caller closes it.
func New(c Config) (Cache, error) {
	pc, err := newCache(c, loadCounters)
	if err != nil {
		return nil, fmt.Errorf("page cache: %w", err)
	}
	return pc, nil
}

// newCache does as New, with another way to the kernel's counters, for tests.
func newCache(c Config, load func(files, blocks int) (*counters, error)) (*cache, error) {
	if err := c.defaults(); err != nil {
		return nil, err
	}
	pc := &cache{cfg: c, ending: linux.EndTime, files: map[fileID]*file{}, pins: map[fileID][]*pinned{}, method: c.Method}
	pc.stop, pc.cancel = newStop()
	var err error
	switch c.Method {
	case None:
		pc.why = "it was turned off"
	case Cachestat:
		pc.why = "it was asked for"
		err = linux.ProbeCachestat()
	case BPF:
		err = linux.ProbeCachestat()
		if err == nil {
			pc.counters, err = load(c.Files, counterBlocks)
		}
	case "":
		pc.counters = pc.best(load)
	default:
		err = fmt.Errorf("unknown method %q: want %s, %s or %s", c.Method, BPF, Cachestat, None)
	}
	if err != nil {
		return nil, err
	}
	pc.cached = askKernel
	if pc.method == None {
		pc.cached = missing(pc.why)
	}
	return pc, nil
}

// best chooses the method and says why it is no better one.
func (c *cache) best(load func(files, blocks int) (*counters, error)) *counters {
	if err := linux.ProbeCachestat(); err != nil {
		c.method, c.why = None, err.Error()
		return nil
	}
	k, err := load(c.cfg.Files, counterBlocks)
	if err != nil {
		c.method, c.why = Cachestat, err.Error()
		var missing *CapabilityError
		if !errors.As(err, &missing) {
			c.cfg.Log.Warn("page cache: events cannot be counted; files are polled", "err", err)
		}
		return nil
	}
	c.method = BPF
	return k
}
