package sim

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/sim/capacity"
	"headrace/trace"
)

// Progress is how far a run is.
type Progress struct {
	// At is the virtual time, Span when the last task is submitted.
	At, Span time.Duration
	// Ended is how many of the Tasks have ended.
	Ended, Tasks int
}

// scheduler decides what tasks do next, from all that it may see. The view belongs to
// the engine, the orders to the scheduler until it is asked again.
type scheduler interface {
	Decide(*headrace.View) []headrace.Order
}

// timed is a scheduler that acts at times of its own.
type timed interface {
	// Next returns when it is to be asked though nothing has happened.
	Next() time.Duration
}

// engine is one run: it goes from event to event and carries orders out.
type engine struct {
	*clock
	c    Config
	w    *trace.Workload
	next int // the next task of w to be submitted

	scheduler scheduler
	asking    asking
	roster    roster
	stages    *stages
	gangs     *gangs
	backlog   backlog
	nodes     []node
	byNode    map[headrace.NodeID]*node
	files     *files // nil when nothing is read
	tally     *tally
	idleness  *idleness
	r         *Result
}

// Run returns what becomes of w under c. progress, unless nil, is called now and then.
// Errors: a configuration or workload that cannot be run, ctx.Err, and a violated
// invariant, which is a bug.
func Run(ctx context.Context, w *trace.Workload, c Config, progress func(Progress)) (*Result, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := c.check(w); err != nil {
		return nil, err
	}
	e := newEngine(w, c)
	if err := e.openFiles(); err != nil {
		return nil, err
	}
	if err := e.run(ctx, progress); err != nil {
		return nil, err
	}
	if err := e.conserved(); err != nil {
		return nil, err
	}
	return e.result(), nil
}

func newEngine(w *trace.Workload, c Config) *engine {
	swapOnMedium := c.Node.SwapOut == 0 // nobody said how fast swap is, so it lies on the medium
	if swapOnMedium {
		c.Node.SwapOut = c.Medium.Write
	}
	if c.Node.SwapIn == 0 {
		c.Node.SwapIn = c.Medium.Read
	}
	how := asToday(c.Policy)
	how.NoResidencyOrder = how.NoResidencyOrder || !c.Reading.ByResidency
	e := &engine{
		clock: &clock{}, c: c, w: w, scheduler: policy.NewPlanner(how),
		asking: asking{interval: c.Interval, last: -c.Interval, always: c.Capacity != nil},
		roster: roster{byID: map[headrace.TaskID]*task{}}, stages: newStages(w), gangs: &gangs{},
		nodes: make([]node, c.Nodes), byNode: make(map[headrace.NodeID]*node, c.Nodes),
	}
	if c.Capacity == nil {
		e.gangs = newGangs(w)
	}
	if c.Capacity != nil {
		e.scheduler = capacity.New(*c.Capacity, c.Policy, c.Interval, func() time.Duration { return e.now })
	}
	counted := c.counted()
	views := make([]headrace.NodeView, c.Nodes)
	for i := range e.nodes {
		e.nodes[i] = newNode(e.clock, &c, counted, int32(i), &views[i], e.dump)
		e.byNode[views[i].ID] = &e.nodes[i]
	}
	e.roster.view.Nodes = views
	if len(counted) > 0 {
		e.roster.view.Needs = needs(w, counted)
		e.roster.holds = "it holds " + strings.Join(counted, ", ") + " that cannot be written to a checkpoint"
	}
	e.tally = newTally(e.clock, &e.c, w, swapOnMedium)
	e.r, e.idleness, e.backlog = e.tally.r, newIdleness(c.Nodes, cmp.Or(how.Ageing, policy.Ageing)), newBacklog(e)
	return e
}

// asToday makes the policy Kill, with which others are compared, what clusters do today:
// without ageing, and without a time in which what was killed before is spared, unless
// they are asked for.
func asToday(c policy.Config) policy.Config {
	if c.Policy == policy.Kill {
		if c.Ageing == 0 {
			c.Ageing = policy.None
		}
		if c.MinRun == 0 {
			c.MinRun = policy.None
		}
	}
	return c
}

// run goes from event to event.
func (e *engine) run(ctx context.Context, progress func(Progress)) error {
	tasks := len(e.w.Tasks)
	for e.tally.ended < tasks {
		at, what := e.soonest()
		if what == nothing {
			return e.hang()
		}
		if at < e.now {
			return e.violated(fmt.Errorf("something happens at %v, which has passed", at))
		}
		e.advance(at)
		switch what {
		case aSubmission:
			e.submit()
		case anEvent:
			e.happen(e.take())
		case aDecision:
			if err := e.decide(); err != nil {
				return err
			}
			if e.r.Counts.Decisions%64 == 0 {
				if err := ctx.Err(); err != nil {
					return err
				}
				if progress != nil {
					progress(Progress{At: e.now, Span: e.w.Tasks[tasks-1].Submit, Ended: e.tally.ended, Tasks: tasks})
				}
			}
		}
		if e.files != nil {
			e.files.settle()
		}
	}
	return nil
}

// what may be due next.
type due uint8

const (
	nothing due = iota
	aSubmission
	anEvent
	aDecision
)

// soonest returns what is due next, and when. Of what is due at the same time,
// submissions are first and decisions last.
func (e *engine) soonest() (time.Duration, due) {
	at, what := time.Duration(0), nothing
	if e.next < len(e.w.Tasks) {
		at, what = e.w.Tasks[e.next].Submit, aSubmission
	}
	if t, ok := e.events.next(); ok && (what == nothing || t < at) {
		at, what = t, anEvent
	}
	if t, ok := e.asking.due(e.now, e.roster.waiting); ok && (what == nothing || t < at) {
		at, what = t, aDecision
	}
	return at, what
}

func (e *engine) hang() error {
	return fmt.Errorf("sim: at %v the policy %s starts none of %d waiting tasks, and nothing else is under way: the memory that suspended tasks hold may not fit beside them; give the nodes more memory or swap, or another policy",
		e.now, e.c.Policy.Policy, e.roster.waiting)
}

// submit is the submission of the next task.
func (e *engine) submit() {
	i := int32(e.next)
	e.next++
	if !e.stages.holds(i, &e.w.Tasks[i]) {
		e.admit(i)
	}
}

// admit is when task i waits for no other to end.
func (e *engine) admit(i int32) { e.gangs.come(i, &e.w.Tasks[i], e.queue) }

// queue enters task i, which waits for no other, in the queue.
func (e *engine) queue(i int32) {
	e.asking.changed = true
	e.stages.enter(i, e.now)
	back := e.backlog.add(i)
	e.roster.waiting++
	if back {
		return
	}
	if t := e.enter(i); e.files != nil {
		e.files.beginInput(t)
	}
}

// enter shows task i, which came into the queue now or before.
func (e *engine) enter(i int32) *task {
	spec := &e.w.Tasks[i]
	job := e.w.Jobs[spec.Job]
	seq, at := e.stages.place(i, spec)
	t := e.roster.add(spec, seq, headrace.JobID(job), headrace.TaskID(job+"."+strconv.Itoa(int(i)+1)), at)
	if g := e.gangs.gang(spec); g != nil {
		t.gang, g.members = g, append(g.members, t)
		t.v.Gang, t.v.NoCheckpoint = g.number, "what passes between the tasks of a gang cannot be written to a checkpoint"
	}
	return t
}

// happen handles an event.
func (e *engine) happen(ev event) {
	switch ev.kind {
	case evPaged:
		e.asking.changed = true
		e.nodes[ev.who].pager.done(ev.gen)
		return
	case evStored:
		e.asking.changed = true
		e.stored(&e.nodes[ev.who].store)
		return
	case evDisk, evNet, evAnnounced:
		e.files.happen(ev)
		return
	}
	t := e.roster.slots[ev.who]
	if t.gen != ev.gen {
		return
	}
	if ev.kind == evRead {
		e.files.part(t, inMemory)
		return
	}
	e.asking.changed = true
	switch ev.kind {
	case evBegun:
		e.comes(t)
	case evEnd:
		e.end(t)
	case evKilled:
		e.killed(t)
	case evStopped:
		e.stopped(t)
	case evResumed:
		e.resumed(t)
	case evMoved:
		t.node.store.add(e.restoreMove(t))
	}
}

// advance makes it later.
func (e *engine) advance(at time.Duration) {
	e.tally.series.add(e.now, at, e.tally.held, e.roster.waiting)
	e.now = at
}

// decide asks the scheduler and carries out what it orders.
func (e *engine) decide() error {
	for i := range e.nodes {
		e.nodes[i].refresh()
	}
	e.roster.refresh(e.now, e.c.KnowShare)
	var orders []headrace.Order
	if p, ok := e.scheduler.(*policy.Planner); ok && e.backlog.tasks > 0 {
		orders = e.backlog.decide(p, e.now)
	} else {
		orders = e.scheduler.Decide(&e.roster.view)
	}
	if e.c.Observe != nil {
		e.c.Observe(e.now, &e.roster.view, orders)
	}
	next := e.now + recheck
	if s, ok := e.scheduler.(timed); ok {
		next = s.Next()
	}
	e.asking.asked(e.now, next, len(orders) == 0 && len(e.heap) == 0 && e.next == len(e.w.Tasks))
	e.r.Counts.Decisions++
	if e.c.Check {
		if err := e.lessUrgentFirst(orders); err != nil {
			return e.violated(err)
		}
	}
	for i := range orders {
		if err := e.carryOut(&orders[i]); err != nil {
			return err
		}
	}
	e.asking.changed = e.roster.lapse(e.nodes, e.byNode) || e.asking.changed
	if e.c.Check {
		return e.verify()
	}
	return nil
}

// result returns the whole, when all tasks have ended.
func (e *engine) result() *Result {
	r := e.r
	r.Makespan = (e.now - e.w.Tasks[0].Submit).Seconds()
	var stores time.Duration
	for i := range e.nodes {
		stores += e.nodes[i].store.busy
		r.IO.PagedOut += e.nodes[i].pager.wrote
	}
	e.tally.result(stores)
	if e.files != nil {
		r.Reading = e.files.result(r.Makespan)
	}
	return r
}
