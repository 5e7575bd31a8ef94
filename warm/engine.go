package warm

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"headrace"
	"headrace/disk"
	"headrace/fileset"
	"headrace/internal/budget"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/policy/prefetch"
)

// Devices tells on which device a file is. It is *disk.Devices. The file may be a
// directory that was opened with O_PATH.
type Devices interface {
	Of(f *os.File) (disk.Device, error)
}

// Config is what an Engine works with. Cache, Disks and Devices must be given.
type Config struct {
	Cache   pagecache.Cache
	Disks   *disk.Scheduler
	Devices Devices
	Policy  prefetch.Config
	// Block is how many bytes are read in one go and locked or released together.
	// Default pagecache.BlockSize; it must be a multiple of the page size, and
	// should be one of the largest folio (2 MiB).
	Block int64
	// MaxBlocks is how many blocks may be locked at once; each takes a mapping of
	// this process. Default half of what the kernel allows (vm.max_map_count).
	MaxBlocks int
	// FollowUp is how often it is looked whether what was in memory without being
	// locked still is, and how long after an unexpected refusal it is tried again.
	// Default 2 s.
	FollowUp time.Duration
	// Alive returns which of some jobs have not ended. It is asked when the budget is
	// nearly used up, from any goroutine, without locks. Nil: all are.
	Alive func([]headrace.JobID) map[headrace.JobID]bool
	// Spare tells how much more memory may be locked now, whatever the budget; negative: so much
	// is to be let go (pagecache.Spare). Nil: all of the budget is to be had.
	Spare func() (int64, error)
	// Open opens a file with somebody's rights. It must not block on pipes. Default
	// linux.AsUser with fileset.Open.
	Open func(owner linux.Credentials, path string) (*os.File, error)
	// Log may be nil.
	Log *slog.Logger

	// as calls something with somebody's rights: linux.AsUser, but for tests.
	as func(linux.Credentials, func() error) error
}

// Engine keeps files in memory. See the comment of the package.
type Engine struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	added    uint64
	requests map[RequestID]*request
	// inOrder are the same requests in the order in which they were added, jobs by
	// their jobs.
	inOrder  []*request
	jobs     map[headrace.JobID][]*request
	lanes    map[disk.ID]*lane
	blocks   blockIndex
	cleanAt  time.Time
	counters Counters
	lacking  int64 // of the budget, because others have the memory
	silent   map[party]*silence
	// assigning bounds how many assigners each user has at a time: each takes a thread, and a path may lead to a file server of the
	// user's that does not answer.
	assigning budget.Slots[party]
}

// New makes an engine. The caller closes it, and what it was given after that.
func New(c Config) (*Engine, error) {
	if err := c.defaults(); err != nil {
		return nil, err
	}
	e := &Engine{cfg: c, requests: map[RequestID]*request{}, jobs: map[headrace.JobID][]*request{}, lanes: map[disk.ID]*lane{}, silent: map[party]*silence{}, assigning: budget.Slots[party]{Most: maxAssigning},
		blocks: blockIndex{all: map[blockKey]*block{}, known: map[alias]*block{}}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if c.Spare != nil {
		e.wg.Add(1)
		go yielder{e}.mind()
	}
	return e, nil
}

var pageSize = int64(os.Getpagesize())

func (c *Config) defaults() error {
	if c.Cache == nil || c.Disks == nil || c.Devices == nil {
		return fmt.Errorf("warm: Cache, Disks and Devices must be given")
	}
	if c.Block == 0 {
		c.Block = pagecache.BlockSize
	}
	if c.Block < 0 || c.Block%pageSize != 0 {
		return fmt.Errorf("warm: blocks of %d bytes: want a multiple of the page size, %d", c.Block, pageSize)
	}
	if c.MaxBlocks == 0 {
		c.MaxBlocks = maxMappings() / 2
	}
	if c.FollowUp == 0 {
		c.FollowUp = 2 * time.Second
	}
	if c.MaxBlocks < 0 || c.FollowUp < 0 {
		return fmt.Errorf("warm: %d blocks, looked at every %v: neither can be negative", c.MaxBlocks, c.FollowUp)
	}
	if c.Open == nil {
		c.Open = openAs
	}
	if c.as == nil {
		c.as = linux.AsUser
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// maxMappings returns how many mappings a process may have.
func maxMappings() int {
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	n, perr := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || perr != nil || n <= 0 {
		return 65530 // the kernel's own default
	}
	return n
}

func openAs(owner linux.Credentials, path string) (f *os.File, err error) {
	err = linux.AsUser(owner, func() (err error) {
		f, err = fileset.Open(path)
		return err
	})
	return f, err
}

// Add accepts a request. Its files are found and read in the background; it
// counts as a reader of files that are locked for others from now on. It takes
// about a second for a million files. It fails with ErrRequest, ErrExists or
// ErrClosed.
func (e *Engine) Add(q Request) error {
	r, err := newRequest(q, e.cfg.Block)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	if e.requests[q.ID] != nil {
		return fmt.Errorf("%w: %s", ErrExists, q.ID)
	}
	e.added++
	r.seq = e.added
	e.requests[q.ID] = r
	e.inOrder = append(e.inOrder, r)
	if r.Job != "" {
		e.jobs[r.Job] = append(e.jobs[r.Job], r)
	}
	e.counters.FailedFiles += int64(r.failedFiles)
	assigner{Engine: e, r: r}.start()
	return nil
}

// Release ends all requests of a job, and returns how they stood, in brief. When it
// returns, nothing is locked any more but for others.
func (e *Engine) Release(job headrace.JobID) []Status {
	if job == "" {
		return nil
	}
	return e.endAll(func(r *request) bool { return r.Job == job })
}

// Remove ends one request, as Release does. It fails with ErrUnknown.
func (e *Engine) Remove(id RequestID) (Status, error) {
	ended := e.endAll(func(r *request) bool { return r.ID == id })
	if len(ended) == 0 {
		return Status{}, fmt.Errorf("%w: %s", ErrUnknown, id)
	}
	return ended[0], nil
}

func (e *Engine) endAll(which func(*request) bool) []Status {
	var stood []Status
	var free []*block
	e.mu.Lock()
	for _, r := range slices.Clone(e.inOrder) {
		if which(r) {
			stood = append(stood, e.status(r, nil))
			free = append(free, e.end(r)...)
		}
	}
	e.mu.Unlock()
	e.letGo(free)
	return stood
}

// end takes a request off all lists and returns the blocks that nobody has in a
// list any more. e.mu is held.
func (e *Engine) end(r *request) (free []*block) {
	if r.ended {
		return nil
	}
	r.ended = true
	is := func(o *request) bool { return o == r }
	delete(e.requests, r.ID)
	e.inOrder = slices.DeleteFunc(e.inOrder, is)
	if e.jobs[r.Job] = slices.DeleteFunc(e.jobs[r.Job], is); len(e.jobs[r.Job]) == 0 {
		delete(e.jobs, r.Job)
	}
	for pos := range r.held {
		if b := r.unref(pos); b != nil {
			free = append(free, b)
		}
	}
	for _, s := range r.shares {
		s.lane.remove(s)
		s.lane.kick()
	}
	r.touch()
	return free
}

// Close ends all requests and releases everything. What does not answer is waited for linux.EndTime;
// then the error says what that is, and what was locked for it is let go when it answers.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	if linux.Within(linux.EndTime, func() {
		e.endAll(func(*request) bool { return true })
		e.wg.Wait()
	}) {
		return nil
	}
	var left []string
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.lanes {
		if l.running {
			left = append(left, strings.TrimSpace(l.device.Name+" "+l.reading.path))
		}
	}
	slices.Sort(left)
	return fmt.Errorf("%w at: %s", ErrHangs, strings.Join(left, ", "))
}

// room returns what the policy is told about memory. e.mu is held.
func (e *Engine) room() prefetch.Room {
	waiting := false
	for _, l := range e.lanes {
		waiting = waiting || l.full
	}
	return prefetch.Room{
		Budget: e.cfg.Cache.Budget(), Pinned: max(e.blocks.locked, e.cfg.Cache.Pinned()) + e.lacking,
		MaxBlocks: e.cfg.MaxBlocks, Blocks: len(e.blocks.all), Waiting: waiting,
	}
}

// cleanUp ends the requests of jobs that have gone, if the policy says that it is
// time to ask, and reports whether there were any.
func (e *Engine) cleanUp() bool {
	e.mu.Lock()
	now := time.Now()
	if e.cfg.Alive == nil || now.Before(e.cleanAt) || !prefetch.NeedsCleanUp(e.room()) {
		e.mu.Unlock()
		return false
	}
	e.cleanAt = now.Add(e.cfg.FollowUp)
	asked := slices.Clone(e.inOrder)
	e.mu.Unlock()

	var jobs []headrace.JobID
	for _, r := range asked {
		if !r.Hold {
			jobs = append(jobs, r.Job)
		}
	}
	alive := e.cfg.Alive(jobs)

	e.mu.Lock()
	holders := make([]prefetch.Holder, len(asked))
	for i, r := range asked {
		holders[i] = prefetch.Holder{Job: r.Job, Alive: alive[r.Job], Keep: r.Hold, Pinned: r.heldBytes}
	}
	drops := prefetch.CleanUp(e.room(), holders)
	var free []*block
	for _, d := range drops {
		if r := asked[d.Holder]; !r.ended {
			e.counters.CleanedUp++
			free = append(free, e.end(r)...)
		}
	}
	e.mu.Unlock()
	for _, d := range drops {
		e.cfg.Log.Info("warm: " + d.Reason)
	}
	e.letGo(free)
	return len(drops) > 0
}
