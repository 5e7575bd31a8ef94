package master

import (
	"cmp"
	"errors"
	"math/bits"
	"time"
	"unique"

	"headrace"
	"headrace/internal/budget"
	"headrace/internal/delta"
	"headrace/policy/prefetch"
)

// Kinds of errors; test with errors.Is. A job beyond the bounds is a budget.ErrOver.
var (
	// ErrJob: what was said of a job makes no sense. The text says what to change.
	ErrJob = errors.New("bad job")
	// ErrUnknown: there is no such job or node, or not any more.
	ErrUnknown = errors.New("not known here")
	// ErrStale: the node has joined again since.
	ErrStale = errors.New("not of the node's present session")
)

// Config is what a Master works with. 0 is the default.
type Config struct {
	Policy prefetch.Config
	// JobShare and OwnerShare are which part of the memory that all nodes together have for
	// warming a job may have, and all jobs of an owner together. Defaults 0.5 and 0.75.
	JobShare, OwnerShare float64
	// Attempts is how many replicas of a block are tried at most. Default 3.
	Attempts int
	// PerJob, PerOwner and All are how many blocks there may be that are still wanted. A job counts as one itself.
	// Defaults 500,000, 1,000,000 and 2,000,000.
	PerJob, PerOwner, All int64
	// OwnerJobs and AllJobs are how many jobs there may be. Defaults 2000 and 20,000.
	OwnerJobs, AllJobs int64
	// Grace is how long a job counts as alive after it was migrated or adopted: whoever runs the
	// jobs may not know it yet. Default a minute.
	Grace time.Duration
	// Remember is how long a job that has ended is not adopted. Default an hour.
	Remember time.Duration
	// Alive reports whether a job has not ended. It is asked when memory is nearly used up; it
	// must not block, and say yes where it cannot know. Nil: all are.
	Alive func(Name) bool
	// Resident yields the nodes that have some of a block in memory, and how much. Nil: nothing is
	// known.
	Resident func(id headrace.BlockID, yield func(node string, bytes int64))
	// Watch is called when a job wants a block, with the hosts that have it, when there are more of these, and with none when
	// no job wants it any more: of what is in between Resident is to know, and Changed to be told. Nil: nobody needs to know.
	Watch func(id headrace.BlockID, hosts []string)
}

// Name names a job. Owners do not see or hinder each other's, even of the same ID.
type Name struct {
	Owner string
	Job   headrace.JobID
}

// Facts are what nodes know of a job. They tell them again when they join.
type Facts struct {
	Name
	// Input is the size of all of its input in bytes, by which it gets its place in the queues;
	// 0: that of the blocks that it wants still.
	Input int64
	// Submitted is when, in whole milliseconds; of jobs with inputs of one size the earlier goes first.
	Submitted time.Time
	// Implicit: what the job has read is let go at once.
	Implicit bool
	// Hold: there is no job, a user asked. It stays until it is evicted.
	Hold bool
	// Budget is how many bytes may be pinned for it; 0: as many as its share.
	Budget int64
	// Lease is for how long it goes on when nobody speaks of it any more, which the caller sees to; 0: it is ended otherwise.
	Lease time.Duration
}

// State is how a job stands with a block.
type State uint8

const (
	// NotFit: no node keeps it, because none has room or could.
	NotFit State = iota
	// Planned: a node is to keep it, and does not yet.
	Planned
	// Pinned: it is locked in a node's memory.
	Pinned
	// Resident: it is in a node's memory without being locked.
	Resident
	// Read: the job has read it, and needs it no more.
	Read
	// Failed: all replicas that were tried have failed.
	Failed
	// refused: no node that was tried has room for it, or can lock it. For others that is NotFit, but it is not tried again.
	refused
	states
)

// spent reports whether a job is done with a block like that. What is spent counts for nobody, and is forgotten at some time.
func (s State) spent() bool { return s >= Read }

// Master knows jobs, blocks and nodes. See the comment of the package.
type Master struct {
	cfg    Config
	first  uint64       // numbers of answers begin here
	quota  budget.Tiers // of blocks
	many   budget.Tiers // jobs
	owners map[string]*owner
	budget int64 // what all nodes have for warming together
	blocks map[key]*block
	jobs   map[Name]*job
	nodes  map[string]*node
	hosts  map[unique.Handle[string]]*node
	ended  ended
	// freed: since the last Look there may be room, replicas, or others that share it, for blocks that do not fit.
	freed bool
	// resume is the job that the next Look begins with, at its want from; nil: the first.
	resume *job
	from   int
	tries  int       // triedAtOnce, but for tests
	spare  int       // spentAnyhow, but for tests
	again  time.Time // when what waits for readers is tried again; zero: nothing does
	// leaving are jobs that have ended, and whose blocks are let go in parts; see Tidy.
	leaving []*job
	// lately is when jobs have ended last, atOnce how many of their blocks may still be let go then: whoever ends many keeps others waiting.
	lately time.Time
	atOnce int
}

// New makes a Master that knows nothing. It must be given a later time than an earlier one.
func New(c Config, now time.Time) *Master {
	c.JobShare, c.OwnerShare = or(c.JobShare, 0.5), or(c.OwnerShare, 0.75)
	c.Attempts = or(c.Attempts, 3)
	c.Grace, c.Remember = or(c.Grace, time.Minute), or(c.Remember, time.Hour)
	if c.Alive == nil {
		c.Alive = func(Name) bool { return true }
	}
	return &Master{
		cfg: c, first: uint64(now.UnixMicro()),
		quota:  budget.Tiers{What: "blocks", Each: or(c.PerJob, 500_000), Owner: or(c.PerOwner, 1_000_000), All: or(c.All, 2_000_000)},
		many:   budget.Tiers{What: "jobs", Owner: or(c.OwnerJobs, 2000), All: or(c.AllJobs, 20_000)},
		owners: map[string]*owner{}, blocks: map[key]*block{}, jobs: map[Name]*job{}, nodes: map[string]*node{},
		hosts: map[unique.Handle[string]]*node{}, ended: ended{}, tries: triedAtOnce, spare: spentAnyhow,
	}
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// key is a BlockID that takes little room.
type key struct {
	pool   unique.Handle[string]
	number int64
}

func keyOf(id headrace.BlockID) key { return key{unique.Make(id.Pool), id.Number} }

func (k key) id() headrace.BlockID { return headrace.BlockID{Pool: k.pool.Value(), Number: k.number} }

// block is one that a job wants.
type block struct {
	key
	generation, bytes int64
	hosts             []unique.Handle[string] // with a replica
	wants             []*want
	read              int64 // when somebody was last seen to read it, in Unix milliseconds
}

// of returns what a job wants of it, or nil.
func (b *block) of(j *job) *want {
	for _, w := range b.wants {
		if w.job == j {
			return w
		}
	}
	return nil
}

// on reports whether a node is to keep it for somebody.
func (b *block) on(n *node) bool {
	for _, w := range b.wants {
		if w.node == n {
			return true
		}
	}
	return false
}

// want is a block that a job wants, or has wanted.
type want struct {
	job   *job
	block *block
	node  *node // that is to keep it: if Planned, Pinned or Resident
	// at is its place in the job's own order, file an index into the job's files.
	at, file uint32
	tried    uint16 // which of the block's hosts could not keep it
	attempts uint8  // how many nodes those are: one may be among the hosts by several names
	near     uint8  // on which of the block's hosts its reader runs, from 1; 0: not known
	state    State
	waits    bool // for those who read
	// locks: a node has locked it beyond the share, though it was in memory. That node may still do so when it hears that it is to
	// keep it all the same, so it counts from the beginning.
	locks bool
}

const maxHosts = 16 // bits of want.tried

// unnamed is the file of blocks that were adopted.
const unnamed = ^uint32(0)

// given reports whether no further replica is tried.
func (w *want) given(attempts int) bool {
	return int(w.attempts) >= attempts || w.tried != 0 && bits.OnesCount16(w.tried) == len(w.block.hosts)
}

// job is one that has been migrated or adopted, and has not ended.
type job struct {
	Facts
	rank  prefetch.Job // by which it is compared with others
	files []string
	wants []*want
	// blocks and bytes are those in each state; of what is spent also those that have been forgotten, like the forgotten files.
	blocks    [states]int
	bytes     [states]int64
	forgotten int
	// holes are the files of which some blocks have been forgotten.
	holes   map[string]bool
	waiting int64 // bytes that are on no node for now because somebody reads
	// busy are nodes on which somebody reads its input, and when that was last seen.
	busy    map[*node]time.Time
	adopted bool
	taken   bool // it was adopted: when it has begun to read is not known
	gone    bool
	full    bool // a block does not fit for want of room
	untried bool // for some blocks it has not been looked for a node since it was migrated
	since   time.Time

	failures []Failure
	why      string // the last reason why a block does not fit
	warmed   int64
	read     time.Time // first
	reads    map[string]reads
	before   reads // what nodes have read for it before they were started again
	// ordered are the wants of its files in their order, for Places; nil: to be made.
	ordered map[string][]uint32
	// entering is how many migrations are adding to it; until they have it is not known when it is its turn.
	entering int
	// left is how many of its wants nodes are still to let go, of one that has ended.
	left int
}

type reads struct{ memory, disk int64 }

// facts are what others are told of it: with the input that counts.
func (j *job) facts() Facts {
	f := j.Facts
	f.Input = j.rank.Input
	return f
}

// open is how many blocks it wants still.
func (j *job) open() (n int64) {
	for _, blocks := range j.blocks[:Read] {
		n += int64(blocks)
	}
	return n
}

// held is what counts against its share.
func (j *job) held() int64 { return j.bytes[Planned] + j.bytes[Pinned] }

// node is one that has joined.
type node struct {
	name    string
	session uint64
	load    Load
	hosts   []unique.Handle[string]
	log     *delta.Log[*want]
	wants   map[*want]struct{} // what it is to keep
	// pinned are the bytes of blocks that are pinned there, each counted once; queued those that
	// are planned, by the first job in order that waits for them, and resident those that are neither.
	pinned           int64
	queued, resident map[*job]int64
	// locked are the bytes that are pinned there for a job, also if they are for others.
	locked map[*job]int64
}

// before reports whether a is served before b.
func (c *Config) before(a, b *job) bool {
	switch {
	case c.Policy.Before(&a.rank, &b.rank):
		return true
	case c.Policy.Before(&b.rank, &a.rank):
		return false
	}
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Owner, b.Owner)) < 0
}

// charged returns how a block counts on a node: Pinned, Planned or, if it is in memory there anyhow, Resident, and of the last two
// for which job, the first in order. NotFit: not at all.
func (n *node) charged(m *Master, b *block) (first *job, as State) {
	return b.charged(m, func(w *want) bool { return w.node == n })
}

// charged is that of a node, for those of the wants.
func (b *block) charged(m *Master, these func(*want) bool) (first *job, as State) {
	as = NotFit
	for _, w := range b.wants {
		if !these(w) {
			continue
		}
		if w.state == Pinned {
			return nil, Pinned
		}
		if as != Planned {
			as = w.state
		}
		if first == nil || m.cfg.before(w.job, first) {
			first = w.job
		}
	}
	return first, as
}

// lock adds to what is pinned there for a job.
func (n *node) lock(j *job, bytes int64) {
	if n.locked[j] += bytes; n.locked[j] == 0 {
		delete(n.locked, j)
	}
}

// charge adds what a block takes on a node to its account, or takes it away. Whatever the
// account depends on changes between one and the other.
func (m *Master) charge(b *block, n *node, sign int64) {
	first, as := n.charged(m, b)
	of := n.queued
	switch as {
	case NotFit:
		return
	case Pinned:
		n.pinned += sign * b.bytes
		return
	case Resident:
		of = n.resident
	}
	if of[first] += sign * b.bytes; of[first] == 0 {
		delete(of, first)
	}
}

// move changes how a job stands with a block: n is the node that is to keep it, or nil. Nodes
// hear of what concerns them.
func (m *Master) move(w *want, n *node, s State) {
	from := w.node
	if from == n && w.state == s {
		return
	}
	b, j := w.block, w.job
	both := func(sign int64) {
		if from != nil {
			m.charge(b, from, sign)
			b.use(m, from, j.Owner, sign)
		}
		if n != nil && n != from {
			m.charge(b, n, sign)
			b.use(m, n, j.Owner, sign)
		}
	}
	both(-1)
	if from != nil && w.state == Pinned {
		from.lock(j, -b.bytes)
	}
	wanted := b.wanted()
	w.waitFor(m, false, time.Time{})
	if s.spent() && !w.state.spent() && !j.gone {
		m.quota.Give(j.Owner, 1)
	}
	j.blocks[w.state]--
	j.bytes[w.state] -= b.bytes
	if s == Pinned && w.state != Pinned {
		j.warmed += b.bytes
	}
	m.freed = m.freed || s == NotFit || w.state == Planned && s != Pinned || w.state == Pinned || w.state == Resident ||
		len(b.wants) > 1 // others that want it can have it there, too, or it takes room of another owner's now
	w.node, w.state = n, s
	j.blocks[s]++
	j.bytes[s] += b.bytes
	both(1)
	if n != nil && s == Pinned {
		n.lock(j, b.bytes)
	}
	if is := b.wanted(); is != wanted {
		b.watch(m, is)
	}
	if from == n {
		return
	}
	if from != nil {
		delete(from.wants, w)
		from.log.Touch(w)
	}
	if n != nil {
		n.wants[w] = struct{}{}
		n.log.Touch(w)
	}
}
