package inputs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/internal/budget"
	"headrace/residency"
	"headrace/warm/master"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// Config is what Inputs works with. Its zero value knows no file system: then only blocks
// that callers name by themselves are looked after.
type Config struct {
	FileSystems []FileSystem
	Master      master.Config
	Residency   residency.Config
	// Log gets structured messages; nil: none.
	Log *slog.Logger

	timing timing
}

// timing is how long things last; tests make it shorter.
type timing struct {
	// away is how long nothing may be heard of a node.
	away time.Duration
	// look is how often it is looked what is over, or can be placed.
	look time.Duration
	// settle is how long who asks what is in memory is kept waiting until nodes have looked.
	settle time.Duration
	// soon is how long who follows further blocks is kept waiting until nodes have told what
	// they have of them.
	soon time.Duration
	// place is how long who asks for input is kept waiting until nodes have told what they have of it: it is not read anew.
	place time.Duration
	// unnamed is how long nobody may have asked for or about an application that its scheduler
	// does not name: its client has died before it was submitted, or it had ended before.
	unnamed time.Duration
	// silent is after how long a scheduler of which nothing is heard does not tell any more what runs.
	silent time.Duration
}

var usualTiming = timing{away: 10 * time.Second, look: 500 * time.Millisecond, settle: 30 * time.Second, soon: 150 * time.Millisecond, place: 2 * time.Second, unnamed: 10 * time.Minute, silent: time.Minute}

// yarnPrefix begins the names of applications of YARN, which tells of all of them.
const yarnPrefix = "application_"

// Inputs answers for the files of a cluster. Safe for concurrent use.
type Inputs struct {
	cfg Config
	log *slog.Logger
	// stopping ends everything that waits.
	stopping chan struct{}
	started  time.Time
	// requests are those with paths, asking the bytes of these, lookups those whose paths are looked up; places are those of Places.
	requests budget.Slots[string]
	places   budget.Slots[string]
	asking   budget.SharedTiers
	lookups  chan struct{}

	mu     mutex
	memory *residency.Map
	master *master.Master
	nodes  map[string]*node
	parts  map[string]*parts // of nodes that are about to join
	// caughtUp is rung when a node has told more of what it was asked for, or looked at more.
	caughtUp bell
	// sessions counts those of nodes, looks those of CachedInputs.
	sessions, looks uint64
	// paths are what jobs were asked for with. running are the applications that run as far as
	// is known, ran those that have been named as such and have a job here.
	paths   paths
	leases  leases
	running map[headrace.JobID]bool
	heard   time.Time // of the scheduler that has told that
	ran     map[headrace.JobID]bool
	// left are the applications that were named until the last list, several that one of these was named again: it is not one scheduler
	// that tells, as far as can be seen.
	left    map[headrace.JobID]bool
	several bool
	// asked is when somebody has asked for or about a job last.
	asked map[master.Name]time.Time
}

// mutex is one of which tests see for how much work it is held at a time.
type mutex struct {
	sync.Mutex
	taken, given func() // called while it is held; nil: nobody sees it
}

// Lock takes it.
func (m *mutex) Lock() {
	if m.Mutex.Lock(); m.taken != nil {
		m.taken()
	}
}

// Unlock gives it back.
func (m *mutex) Unlock() {
	if m.given != nil {
		m.given()
	}
	m.Mutex.Unlock()
}

var _ wireconnect.InputServiceHandler = (*Inputs)(nil)

// New returns one that knows nothing yet. Watch must run.
func New(c Config) (*Inputs, error) {
	var err error
	if c.FileSystems, err = openFileSystems(c.FileSystems); err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.timing == (timing{}) {
		c.timing = usualTiming
	}
	if c.Residency.Forget == 0 {
		c.Residency.Forget = time.Minute // as wire says of Follow
	}
	now := time.Now()
	in := &Inputs{
		requests: budget.Slots[string]{Most: userRequests, Waiting: maxWaiting}, places: budget.Slots[string]{Most: 1, Waiting: maxWaiting}, lookups: make(chan struct{}, maxLookups),
		cfg: c, log: c.Log, stopping: make(chan struct{}), started: now, nodes: map[string]*node{}, parts: map[string]*parts{}, caughtUp: make(bell),
		asking: budget.SharedTiers{Tiers: budget.Tiers{What: "bytes of paths that are looked up", Owner: userBytes, All: allBytes}},
		paths:  newPaths(), leases: leases{}, ran: map[headrace.JobID]bool{}, asked: map[master.Name]time.Time{},
		memory: residency.New(c.Residency, now),
	}
	m := c.Master
	m.Alive, m.Resident, m.Watch = in.alive, in.resident, in.watch
	in.master = master.New(m, now)
	return in, nil
}

// alive, resident and watch are called by the master, so in.mu is held.

func (in *Inputs) alive(job master.Name) bool {
	now := time.Now()
	_, leased := in.leases[job]
	at, known := in.asked[job]
	// Its client may wait until its input is in memory, and have it submitted only then.
	awaited := !known || now.Sub(at) < in.cfg.timing.unnamed
	return !in.told(now) || in.running[job.Job] || leased || awaited
}

func (in *Inputs) resident(id headrace.BlockID, yield func(string, int64)) {
	for _, at := range in.memory.Where(id) {
		yield(at.Node, at.Resident)
	}
}

func (in *Inputs) watch(id headrace.BlockID, hosts []string) {
	if len(hosts) > 0 {
		in.memory.Hold(id, hosts)
	} else {
		in.memory.Release(id)
	}
}

// Watch looks after what is over, until stop is closed. Then nobody waits any more.
func (in *Inputs) Watch(stop <-chan struct{}) {
	defer close(in.stopping)
	tick := time.NewTicker(in.cfg.timing.look)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			in.look(now)
			in.tidy()
		}
	}
}

func (in *Inputs) look(now time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for name, n := range in.nodes {
		if now.Sub(n.heard) > in.cfg.timing.away {
			in.log.Warn("nothing is heard of a node's blocks; they are read elsewhere", "node", name)
			in.lose(name)
		}
	}
	maps.DeleteFunc(in.parts, func(_ string, p *parts) bool { return now.Sub(p.heard) > in.cfg.timing.away })
	in.memory.Look(now)
	in.over(now) // a scheduler tells nothing while nothing changes
	in.expire(now)
	in.master.Look(now)
	known := map[master.Name]bool{}
	for name := range in.master.Names() {
		known[name] = true
	}
	// Cleaned up by the master, or evicted.
	for name := range in.paths.of {
		if !known[name] {
			in.paths.forget(name)
		}
	}
	maps.DeleteFunc(in.leases, func(name master.Name, _ time.Time) bool { return !known[name] })
	maps.DeleteFunc(in.asked, func(name master.Name, _ time.Time) bool { return !known[name] })
}

// told reports whether it is known what runs. in.mu is held.
func (in *Inputs) told(now time.Time) bool {
	return in.running != nil && now.Sub(in.heard) <= in.cfg.timing.silent
}

// Heard notes that the scheduler that tells what runs is there, and that nothing of it has changed.
func (in *Inputs) Heard() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.heard = time.Now()
}

// Running takes in which applications wait or run, as their scheduler tells: all of them. Jobs
// of those that did and do not any more end.
func (in *Inputs) Running(applications map[string]*wire.Application) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.heard = time.Now()
	before := in.running
	in.running = make(map[headrace.JobID]bool, len(applications))
	for name := range applications {
		in.running[headrace.JobID(name)] = true
		if in.left[headrace.JobID(name)] && !in.several {
			in.several = true
			in.log.Warn("an application is named again that was not named any more: if two schedulers use this manager, each ends what is kept for jobs of the other; give each a manager of its own",
				"application", name)
		}
	}
	for name := range in.master.Names() { // also of those that have asked since they were named
		if before[name.Job] {
			in.ran[name.Job] = true
		}
	}
	maps.DeleteFunc(before, func(job headrace.JobID, _ bool) bool { return in.running[job] })
	in.left = before
	in.over(time.Now())
}

// Ended takes in which applications have ended for good, as their scheduler tells. Jobs of those that it has never named, because they
// took less time than there is between two questions of it, end too.
func (in *Inputs) Ended(applications []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	ended := setOf(applications)
	for name := range in.master.Names() {
		if ended[string(name.Job)] {
			in.ran[name.Job] = true
		}
	}
	in.over(time.Now())
}

// over ends the jobs of applications that are over as far as their scheduler has told. in.mu is held.
func (in *Inputs) over(now time.Time) {
	if !in.told(now) {
		clear(in.asked) // whom a scheduler does not name when it comes has as long as if they had asked then
		return
	}
	for name := range in.master.Names() { // also those that were adopted
		at, known := in.asked[name]
		switch {
		case in.running[name.Job]:
			in.ran[name.Job] = true
		case !known:
			in.asked[name] = now
		case strings.HasPrefix(string(name.Job), yarnPrefix) && now.Sub(at) > in.cfg.timing.unnamed:
			in.ran[name.Job] = true // it has by now, if it ever will
		}
	}
	ended := map[headrace.JobID]bool{}
	for job := range in.ran {
		if !in.running[job] {
			ended[job] = true
			delete(in.ran, job)
		}
	}
	if len(ended) == 0 {
		return
	}
	for _, s := range in.master.End(func(job headrace.JobID) bool { return ended[job] }, now) {
		in.paths.forget(s.Name)
		in.log.Info("the job has ended, its input is not kept in memory any more", "job", s.Job, "user", s.Owner, "bytes", s.Pinned)
	}
}

// coded gives an error the code of its kind.
func coded(err error) error {
	switch {
	case err == nil, errors.As(err, new(*connect.Error)):
		return err
	case errors.Is(err, master.ErrUnknown), errors.Is(err, residency.ErrUnknown):
		return connect.NewError(connect.CodeNotFound, err)
	case errors.Is(err, master.ErrJob):
		return connect.NewError(connect.CodeInvalidArgument, err)
	case errors.Is(err, master.ErrStale), errors.Is(err, residency.ErrStale):
		return connect.NewError(connect.CodeFailedPrecondition, err)
	case errors.Is(err, budget.ErrOver):
		return connect.NewError(connect.CodeResourceExhausted, err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeCanceled, err)
	}
	return connect.NewError(connect.CodeInternal, err)
}

func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

// checkUser refuses a caller without a name.
func checkUser(user string) error {
	if user == "" || len(user) > wire.MaxName {
		return invalid("no user is named for whom this is")
	}
	return nil
}
