package blocks

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"headrace"
	"headrace/hdfs/replica"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/warm"
	"headrace/wire"
)

// Replicas finds what there is of a block on this machine: Volumes, or the node of a file system of ours (dfs/near). Errors are those of hdfs/replica.
type Replicas interface {
	// Find finds a copy by the block's ID, generation and length.
	Find(context.Context, headrace.Block) (*Copy, error)
	// Any finds one of whatever generation and length, for who wants to know how much of it is in memory.
	Any(context.Context, headrace.BlockID) (*Copy, error)
}

// Engine reads ahead. It is *warm.Engine.
type Engine interface {
	Put(warm.Request) error
	Drop(warm.RequestID, []warm.File) error
	Files([]warm.FileOf) []warm.FileStatus
	Counters() warm.Counters
	Read(headrace.JobID, string, pagecache.Range)
}

// Config is what Blocks works with. All but Engine must be given.
type Config struct {
	Replicas Replicas
	Cache    pagecache.Cache
	// Engine is nil where nothing is read ahead; Refusal says why then.
	Engine  Engine
	Refusal string
	// Owner is with whose rights the engine opens replicas.
	Owner linux.Credentials
	// Hosts are the names that the file system has for this machine.
	Hosts []string
	Log   *slog.Logger
}

// Blocks looks after blocks. Its methods may be called by one goroutine at a time, but for
// Close.
type Blocks struct {
	cfg Config
	log *slog.Logger
	// lookTime and lookAtMost are the constants; tests change them.
	lookTime, lookAtMost time.Duration

	mu      sync.Mutex
	closed  bool
	watched map[headrace.BlockID]*watched
	shared  map[inode]*shared
	wanted  map[want]*warming
	jobs    map[want]*job   // for which these are
	reads   map[want]*reads // of jobs
	// dropped are files that the engine is to keep no more; numbers counts its requests.
	dropped map[warm.RequestID][]warm.File
	numbers uint64
	// answers counts those of the manager.
	answers uint64
	speed   speed
	// round counts how often the manager has begun to tell everything; whole: it has not
	// told all of it yet.
	round uint64
	whole bool
	// saidUnwatchable: that not all can be watched stands in the log.
	saidUnwatchable bool
}

// New returns one that looks after nothing yet. The caller closes it.
func New(c Config) *Blocks {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Blocks{cfg: c, log: c.Log, lookTime: lookTime, lookAtMost: lookAtMost, watched: map[headrace.BlockID]*watched{}, shared: map[inode]*shared{}, wanted: map[want]*warming{}, jobs: map[want]*job{},
		reads: map[want]*reads{}, dropped: map[warm.RequestID][]warm.File{}}
}

// Close lets everything go.
func (b *Blocks) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for id := range b.watched {
		b.unwatch(id)
	}
	for k, w := range b.wanted {
		b.cool(k, w)
	}
	b.hand(time.Now())
}

// Report implements node.Blocks. Where the page cache cannot be asked what is told stays
// as it was.
func (b *Blocks) Report(ctx context.Context, all bool) *wire.ExchangeRequest {
	if err := b.cfg.Cache.Refresh(ctx); err != nil && ctx.Err() == nil {
		b.log.Debug("what is in memory is not known of all blocks", "err", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.look(ctx, now)
	b.countReads()
	q := &wire.ExchangeRequest{
		Hosts: b.cfg.Hosts, Refusal: b.cfg.Refusal, Resident: b.reportWatched(all), Kept: b.reportKept(all, now), Reads: b.reportReads(all), Unseen: b.unseen(),
	}
	if all {
		q.Jobs = b.jobFacts()
	}
	b.hand(now)
	if b.cfg.Engine != nil {
		c := b.cfg.Engine.Counters()
		queued, pinned := b.bytes()
		q.Budget = max(0, c.Budget-max(0, c.Pinned-pinned)) // files of this machine have their part of it
		q.Speed = b.speed.of(c.Migrated, queued > 0, now)
	}
	return q
}

// told notes that the last report has arrived. b.mu is held.
func (b *Blocks) told() {
	for _, w := range b.watched {
		w.told = w.telling
	}
	for _, w := range b.wanted {
		w.told = w.telling
	}
	b.toldReads()
}

// Answered implements node.Blocks.
func (b *Blocks) Answered(a *wire.ExchangeResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told()
	if b.closed {
		return
	}
	b.answers++
	if a.Watch != nil {
		b.watchAs(a.Watch)
	}
	b.readAs(a.Read)
	b.hand(time.Now())
}

// Abandoned implements node.Blocks. What is looked for goes on being looked for.
func (b *Blocks) Abandoned(silent time.Duration) (any bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, w := range b.wanted {
		if f := w.job.facts; !f.Hold && silent.Seconds() >= f.Lease {
			b.cool(k, w)
			any = true
		}
	}
	b.hand(time.Now())
	return any
}

// look finds replicas that were not found yet, and looks whether the others still are what
// they were. b.mu is held.
func (b *Blocks) look(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, b.lookAtMost)
	defer cancel()
	eachDue(ctx, b.wanted, now, b.lookTime, func(_ want, w *warming) { b.begin(ctx, w, now) })
	eachDue(ctx, b.watched, now, b.lookTime, func(id headrace.BlockID, w *watched) { b.findWatched(ctx, id, w, now) })
	b.hand(now)
}

// reason says in few words why a replica cannot be used.
func reason(err error) string {
	for _, kind := range []error{replica.ErrAbsent, replica.ErrNotFinalized, replica.ErrChanged, replica.ErrRights} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return text(err.Error())
}

// text is what can be sent of a text: names of files need not be UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "?") }
