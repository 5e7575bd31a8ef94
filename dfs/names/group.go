package names

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"headrace/internal/crash"
	"headrace/internal/vfs"
	"headrace/meta"
	"headrace/quorum"
	"headrace/ring"
)

// group is the number of the names' group in package quorum.
const group = 1

const (
	// flushTime is how long what was applied stays in memory alone.
	flushTime = 5 * time.Second
	tick      = 100 * time.Millisecond
	// tendTime is the time between two looks at the seats, if nothing has changed.
	tendTime = 200 * time.Millisecond
	// mostWaiting commands wait for others to agree; the rest waits before that.
	mostWaiting = 2048
	// busyTime is the time between two tries of a command that could not be taken in.
	busyTime    = 10 * time.Millisecond
	mostCommand = 8 << 20
	// queryTime is how long a query waits until it reads the state, mostQueries how many read it at a time: a page of it that has to come from a disk
	// which hangs holds up a thread.
	queryTime   = 15 * time.Second
	mostQueries = 512
	// surveys are how many are taken for a command, while others end them.
	surveys = 5
)

// walksAtOnce is how many queries look at much of the state at a time: the others are to have processors left.
func walksAtOnce() int { return 2 * runtime.GOMAXPROCS(0) }

var (
	// ErrClosed is the error of a node that was closed.
	ErrClosed = errors.New("the node is closed")
	// ErrUncertain: the command may take effect, or may have. Who asks again under the same client and call gets
	// the answer of the first time.
	ErrUncertain = quorum.ErrUncertain
	errLogGone   = errors.New("names: the log of a replica that this node has is not there: what it promised others is not known any more")
)

// NotLeader is the error of what only the node that leads does. Nothing was done.
type NotLeader struct {
	// Leader is the name of the node to ask, empty when it is not known.
	Leader string
}

func (e *NotLeader) Error() string {
	if e.Leader == "" {
		return "nobody is known to lead the names"
	}
	return fmt.Sprintf("node %s leads the names", e.Leader)
}

// Config says how a node's part in the names is kept.
type Config struct {
	// DB is prepared by Found or Follow. It is the caller's, and open until Close has returned.
	DB *bolt.DB
	// Dir is where the log lies.
	Dir string
	// Self is the name of this node.
	Self string
	// Send hands a message to another node's Deliver, that of the number in To. It does not wait, and may lose messages.
	Send func(quorum.Message)
	// Now is the clock, for the times of commands.
	Now func() time.Time
	Log *slog.Logger
	// Tick is a tenth of the time after which a leader that is not heard of is replaced (default 100 ms).
	Tick time.Duration
	// AcceptDamage has a file system of one or two nodes take the names for right as they are read now.
	AcceptDamage bool
	// Aside is a directory with what a node has had before its names were found to be damaged; it is removed when it has others.
	Aside string
	fs    vfs.FS // of the log; tests have it fail
}

// Group is this node's part in the names, if it has one, and what it knows of the others. Its methods may be called
// from any goroutine.
type Group struct {
	*known
	config  Config
	store   bolted
	machine *machine
	seats   *seats
	driver  *quorum.Driver
	waiting chan struct{}
	terms   terms
	asking  asking
	// querying has one for each query that reads the state, walking one for each that looks at much of it.
	querying, walking chan struct{}
	// alone: this node is all of the group, so nobody need be asked before a query.
	alone atomic.Bool

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	full    chan struct{}
	once    sync.Once
	last    atomic.Pointer[checked] // reading of the whole state
	// comparing is with others' states, differing who has another one, and restored has one when a state was received.
	comparing comparison
	differing atomic.Pointer[[]string]
	restored  chan struct{}
	failed    chan struct{}
	failure   error // set before failed is closed
}

// Open starts what Found or Follow has prepared, or goes on with it. A node that is alone leads when Open returns.
func Open(c Config) (*Group, error) {
	c.Tick = cmp.Or(c.Tick, tick)
	s := bolted{c.DB}
	if c.AcceptDamage {
		if err := s.accept(); err != nil {
			return nil, err
		}
		c.Log.Warn("the names are taken for right as they are read now: what is missing of them is not noticed any more")
	}
	m, err := newMachine(s, Understands(), c.Log)
	if err != nil {
		return nil, err
	}
	v := m.agreed()
	if v == nil {
		if v, err = s.keptView(); err != nil {
			return nil, errStore(err)
		}
	}
	if v == nil {
		return nil, errors.New("names: nothing is known of the ring")
	}
	g := &Group{known: newKnown(c.Self, v), config: c, store: s, machine: m, seats: &seats{self: c.Self, machine: m, point: crash.Here},
		waiting: make(chan struct{}, mostWaiting), terms: terms{ahead: aheadOf(c.Now()), holding: make(chan struct{}, 1)}, querying: make(chan struct{}, mostQueries), walking: make(chan struct{}, walksAtOnce()), full: make(chan struct{}, 1), restored: make(chan struct{}, 1), failed: make(chan struct{})}
	if err := g.checkAtStart(); err != nil {
		return nil, err
	}
	g.seats.lostOnes = g.comparing.lostOnes
	m.changed, g.seats.alone, m.damaged = g.Learn, g.alone.Store, func(err error) { g.fail(err) }
	g.asking.read = func() error {
		err := g.driver.Read(g.ctx, group)
		if errors.Is(err, quorum.ErrUncertain) {
			err = quorum.ErrBusy // there is nothing that might have been done
		}
		return err
	}
	m.urge, m.restored = func() { poke(g.full) }, func() { poke(g.restored) }
	q, err := quorum.Open(quorum.Config{Dir: c.Dir, FS: c.fs, Machine: func(uint64) (quorum.Machine, error) { return m, nil }, Send: c.Send, MaxProposal: mostCommand,
		Leader: func(_, term uint64, leader quorum.Replica) { g.leader(term, leader) }})
	if err != nil {
		return nil, err
	}
	if err := g.begin(q); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	g.ctx, g.stop = context.WithCancel(context.Background())
	g.asking.ended = g.ctx.Done()
	g.driver = quorum.Drive(q, c.Tick)
	g.running.Go(g.flush)
	g.running.Go(g.tend)
	g.running.Go(g.watch)
	g.running.Go(g.checkAgain)
	g.running.Go(g.compare)
	return g, nil
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// begin brings up the replica. One that is alone need not wait for anybody.
func (g *Group) begin(q *quorum.Node) error {
	if err := g.seats.open(q); err != nil {
		return err
	}
	for range 1000 {
		if s, err := q.Status(group); err != nil || len(s.Voters) != 1 || s.Voters[0] != s.Replica || g.alone.Load() {
			return nil // no replica, or one of several, as far as is known
		} else if isAlone(s) {
			g.seats.confirm(q, s.Term)
		}
		q.Tick()
		for more := true; more; {
			var err error
			if more, err = q.Work(); err != nil {
				return err
			}
		}
	}
	return nil // the end of its log may have other members, without whom it does not lead
}

// Close ends it. What was applied is written to the disk first.
func (g *Group) Close() error {
	g.stop()
	g.running.Wait()
	err := g.driver.Close()
	if g.Failure() == nil {
		err = errors.Join(err, g.machine.flush())
	}
	return err
}

// Failed is closed when what was asked for could not be made durable, or is not known here: nothing is answered any more, and the node is to be
// closed. Failure then returns why.
func (g *Group) Failed() <-chan struct{} { return g.failed }

// Failure returns why it has failed, or nil.
func (g *Group) Failure() error {
	select {
	case <-g.failed:
		return g.failure
	default:
		return nil
	}
}

// fail ends all answering.
func (g *Group) fail(err error) error {
	g.once.Do(func() {
		if errors.Is(err, ErrDamaged) {
			err = g.noteDamage(err)
		}
		g.failure = fmt.Errorf("this node can have no part in the names any more: %w", err)
		g.config.Log.Error("the node has failed", "err", err)
		close(g.failed)
	})
	return g.failure
}

// flush takes to the disk what was applied.
func (g *Group) flush() {
	t := time.NewTicker(flushTime)
	defer t.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-t.C:
		case <-g.full:
		}
		if err := g.machine.flush(); err != nil {
			g.fail(err)
			return
		}
	}
}

// tend looks after the seats, and finds out when the log has failed.
func (g *Group) tend() {
	t := time.NewTicker(tendTime)
	defer t.Stop()
	var kept *View
	for {
		v, changed := g.View(), g.Changed()
		err := g.driver.Do(func(q *quorum.Node) error {
			return errors.Join(q.Err(), g.seats.tend(q, v))
		})
		if g.ctx.Err() != nil {
			return
		}
		if err == nil && g.machine.agreed() == nil && (kept == nil || kept.Table != v.Table || kept.Index != v.Index) {
			kept, err = v, g.machine.store.keepView(v)
		}
		if err != nil && !errors.Is(err, quorum.ErrBusy) { // of that it is for others to have less to ask
			g.fail(err)
			return
		}
		select {
		case <-g.ctx.Done():
			return
		case <-changed:
		case <-t.C:
		}
	}
}

// stillTicks is for how many ticks quorum may stand still until others have elected somebody, and stillTold the time between two complaints.
const (
	stillTicks = 20
	stillTold  = time.Minute
)

// watch has this node not take itself for the one that leads while quorum stands still, as when the disk of the log hangs: who asks it, or tells it that it
// is there, is to find the one that others have elected meanwhile.
func (g *Group) watch() {
	t := time.NewTicker(tendTime)
	defer t.Stop()
	var told time.Duration
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-t.C:
		}
		d := g.driver.Still()
		still := d > stillTicks*g.config.Tick && !g.alone.Load()
		if g.stand(still); still {
			g.driver.GiveUp()
		}
		if d < told {
			told = 0
			g.config.Log.Warn("the names go on here")
		} else if d > told+stillTold {
			told = d
			g.config.Log.Error("the names stand still here: their disk does not answer, or all of them are being taken over; until that ends this node does not vote", "for", d.Round(time.Second))
		}
	}
}

// Deliver takes a message from another node, and does not wait.
func (g *Group) Deliver(m quorum.Message) {
	if m.Kind == kindReport {
		g.comparing.hear(m)
		return
	}
	g.driver.Deliver(m)
}

// Propose has a command applied, and returns its answer once a majority has it durably. The command's time is
// set here. An error of ctx says only that nobody waits any more, and ErrUncertain that nobody knows.
func (g *Group) Propose(ctx context.Context, m meta.Command) (meta.Result, error) {
	if err := m.Bounded(); err != nil {
		return nil, err
	}
	r, err := g.command(ctx, m)
	for try := 0; meta.TooMuch(err) && try < surveys; try++ {
		if m.Seen, err = g.survey(ctx, m); err == nil {
			r, err = g.command(ctx, m)
		}
	}
	return r, err
}

// survey looks at what is below the directory of a command, beside all others. It has seen nothing when these have ended that.
func (g *Group) survey(ctx context.Context, m meta.Command) (seen *meta.Seen, err error) {
	y := m.Survey(rand.Uint64())
	err = g.slowly(ctx, func() error {
		if _, err := g.command(ctx, meta.Command{Caller: m.Caller, Op: y}); err != nil {
			return err
		}
		return g.Query(m.Caller, func(q meta.Query) (err error) {
			q.Context = ctx
			seen, err = q.Survey(y)
			return err
		})
	})
	return seen, err
}

// command has a command applied as Propose does, but for what takes a survey.
func (g *Group) command(ctx context.Context, m meta.Command) (meta.Result, error) {
	now, err := g.terms.begin(ctx, g.View().Term, g.config.Now, func(now time.Time, set bool) error {
		_, err := g.write(ctx, meta.Command{Op: &meta.RenewLeases{Set: set}}, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return g.write(ctx, m, now)
}

// write has a command of a time applied.
func (g *Group) write(ctx context.Context, m meta.Command, now time.Time) (meta.Result, error) {
	m.Time = now.UnixMilli()
	b, err := encodeMeta(m, g.View().Version)
	if err == nil {
		b, err = g.propose(ctx, b)
	}
	if err != nil {
		return nil, err
	}
	return meta.DecodeAnswer(b)
}

// terms has all leases renewed before anything else is proposed in a term: there may have been nobody to renew them before it, and
// no other client is to take a file before its writer could say that it lives. So it is when the clock was set in the term: by the new time nobody has
// renewed its lease for long. It may be used by several goroutines.
type terms struct {
	// ahead is by how much more the time of day has gone on than the time since the machine's start, since some time: it changes when the clock is set.
	ahead   func(now time.Time) time.Duration
	begun   atomic.Uint64 // the last one in which that was done
	was     atomic.Int64  // by how much it was ahead at the last command
	holding chan struct{} // has one while somebody does it
}

// mostSet is by how much a clock may be set, between two commands, that still is the same.
const mostSet = 5 * time.Second

// aheadOf measures from a time on.
func aheadOf(began time.Time) func(now time.Time) time.Duration {
	return func(now time.Time) time.Duration { return now.Round(0).Sub(began.Round(0)) - now.Sub(began) }
}

// begin returns the time of a command that is about to be proposed in a term, after it has had leases renewed if that is due; set says whether the clock was.
func (t *terms) begin(ctx context.Context, term uint64, clock func() time.Time, renew func(now time.Time, set bool) error) (now time.Time, err error) {
	if now = clock(); t.begun.Load() == term && t.goesOn(now) {
		return now, nil
	}
	select {
	case t.holding <- struct{}{}:
		defer func() { <-t.holding }()
	case <-ctx.Done():
		return now, ctx.Err()
	}
	now = clock()
	begun := t.begun.Load() == term
	if begun && t.goesOn(now) { // somebody else has done it
		return now, nil
	}
	if err = renew(now, begun); err == nil {
		t.was.Store(int64(t.ahead(now)))
		t.begun.Store(term)
	}
	return now, err
}

// goesOn reports whether the clock was not set since the last command, and notes a time.
func (t *terms) goesOn(now time.Time) bool {
	was, is := t.was.Load(), int64(t.ahead(now))
	if time.Duration(is-was).Abs() > mostSet {
		return false
	}
	if is != was {
		t.was.CompareAndSwap(was, is)
	}
	return true
}

// ChangeRing has an event happen to the ring, and returns a view that has it.
func (g *Group) ChangeRing(ctx context.Context, e ring.Event) (*View, error) {
	b, err := encodeEvent(e)
	if err == nil {
		_, err = g.propose(ctx, b)
	}
	return g.View(), err
}

// Admit takes a node into the ring, or notes where it is now, and returns a view that has it, and its number. It may be
// said again. A member that has a number is one already; ring.ErrUnknown: it was removed since. One that does not say what it understands does so as this
// program. ErrOld: that is less than the version in force.
func (g *Group) Admit(ctx context.Context, m Member) (*View, uint32, error) {
	m.Version = cmp.Or(m.Version, g.machine.knows)
	return g.admit(ctx, g.View(), m)
}

// admit admits a member by a view: when a version was raised since that needs to know what the member understands, by another one.
func (g *Group) admit(ctx context.Context, v *View, m Member) (*View, uint32, error) {
	for {
		b, err := encodeMember(v.As(m))
		if err == nil {
			_, err = g.propose(ctx, b)
		}
		was := v
		if v = g.View(); !errors.Is(err, ErrOld) || v.Version == was.Version || v.Old(m.Version) != nil {
			return v, v.Members[m.Name].Number, err
		}
	}
}

// propose returns the answer to a command.
func (g *Group) propose(ctx context.Context, data []byte) ([]byte, error) {
	if err := g.answers(); err != nil {
		return nil, err
	}
	if err := cmp.Or(proposable(data), g.permitted(data)); err != nil {
		return nil, err
	}
	select {
	case g.waiting <- struct{}{}:
		defer func() { <-g.waiting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		if err := g.answers(); err != nil {
			return nil, err
		}
		b, err := g.driver.Propose(ctx, group, data)
		if err == nil {
			return decodeAnswer(b)
		}
		if !errors.Is(err, quorum.ErrBusy) {
			return nil, g.refused(err)
		}
		select { // nothing was done: too much is waiting, or another node is about to lead
		case <-time.After(busyTime):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// answers refuses all when this node does not lead, or has failed.
func (g *Group) answers() error {
	if err := g.Failure(); err != nil {
		return err
	}
	if v := g.View(); v.Leader != g.self {
		return &NotLeader{v.Leader}
	}
	return nil
}

// refused says an error of quorum in the words of this package.
func (g *Group) refused(err error) error {
	if errors.Is(err, ErrDamaged) {
		return g.fail(err)
	}
	if e, ok := errors.AsType[*quorum.NotLeader](err); ok || errors.Is(err, quorum.ErrNoGroup) || errors.Is(err, errNoState) {
		leader := ""
		if ok && e.Leader != 0 {
			m, _ := g.View().Number(e.Leader.Node())
			leader = m.Name
		}
		if leader == g.self {
			leader = ""
		}
		return &NotLeader{leader}
	}
	if errors.Is(err, quorum.ErrStopped) {
		if g.ctx.Err() != nil {
			return ErrClosed
		}
		return g.fail(err)
	}
	return err
}

// Query has f ask the state, as everything that was answered anywhere has left it. What f was given is
// good until it returns. f must not propose. Where a disk does not answer, queries wait for queryTime at most (quorum.ErrBusy: nothing was done), and
// no more than mostQueries are held up by reading the state.
func (g *Group) Query(by meta.Caller, f func(meta.Query) error) (err error) {
	if err := g.answers(); err != nil {
		return err
	}
	if err := g.enter(); err != nil {
		return err
	}
	defer func() { <-g.querying }()
	if g.ctx.Err() != nil {
		return ErrClosed
	}
	r, _, done, err := g.machine.read()
	if err != nil {
		if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
			return ErrClosed
		}
		return g.refused(err)
	}
	defer done()
	defer func() {
		if p := recover(); p != nil { // of what asks, or of a page that makes no sense
			if _, damage := g.machine.check(g.ctx); !errors.Is(damage, ErrDamaged) {
				panic(p)
			}
			err = g.Failure()
		}
	}()
	return f(meta.Query{Reader: r, Caller: by, Time: g.config.Now().UnixMilli()})
}

// Walk is Query for what may look at much of the state, such as all that is below a directory. It waits until there are few that do, and what
// package meta lets end early ends with ctx.
func (g *Group) Walk(ctx context.Context, by meta.Caller, f func(meta.Query) error) error {
	return g.slowly(ctx, func() error {
		return g.Query(by, func(q meta.Query) error {
			q.Context = ctx
			return f(q)
		})
	})
}

// slowly calls f when few others look at much.
func (g *Group) slowly(ctx context.Context, f func() error) error {
	if err := g.answers(); err != nil {
		return err
	}
	select {
	case g.walking <- struct{}{}:
		defer func() { <-g.walking }()
	case <-ctx.Done():
		return ctx.Err()
	case <-g.ctx.Done():
		return ErrClosed
	}
	return f()
}

// enter waits until a query may read the state, and has a place in querying.
func (g *Group) enter() error {
	if g.alone.Load() { // hardly ever has it to wait then, and a timer costs as much as a look at the state
		select {
		case g.querying <- struct{}{}:
			return nil
		default:
		}
	}
	late := time.NewTimer(queryTime)
	defer late.Stop()
	if !g.alone.Load() {
		if err := g.asking.ask(late.C); err != nil {
			if g.ctx.Err() != nil {
				return ErrClosed
			}
			return g.refused(err)
		}
	}
	select {
	case g.querying <- struct{}{}:
		return nil
	case <-g.ctx.Done():
		return ErrClosed
	case <-late.C:
		return quorum.ErrBusy
	}
}

// Raft returns how it stands with this node's replica of the group; an error where it has none.
func (g *Group) Raft() (s quorum.Status, err error) {
	err = g.driver.Do(func(q *quorum.Node) (err error) { s, err = q.Status(group); return err })
	return s, err
}

// Voters returns the members who vote now, as far as this node knows; nobody when it has no replica.
func (g *Group) Voters() []string {
	var all []string
	g.driver.Do(func(q *quorum.Node) error {
		s, err := q.Status(group)
		if err != nil || s.Joint {
			return nil
		}
		for _, r := range s.Voters {
			if m, ok := g.View().Number(r.Node()); ok {
				all = append(all, m.Name)
			}
		}
		return nil
	})
	return all
}
