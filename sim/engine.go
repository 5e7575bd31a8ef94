package sim

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/trace"
)

// Progress is how far a run is.
type Progress struct {
	// At is the virtual time, Span when the last task is submitted.
	At, Span time.Duration
	// Ended is how many of the Tasks have ended.
	Ended, Tasks int
}

// recheck is when a decision is asked for though nothing has changed, because
// waiting alone may change it.
const recheck = 30 * time.Second

// engine is one run.
type engine struct {
	c    Config
	w    *trace.Workload
	now  time.Duration
	next int // the next task of w to be submitted

	queue   events
	planner *policy.Planner
	// swapOnMedium: nobody said how fast swap is, so it lies on the medium.
	swapOnMedium bool
	// view is what the policy sees; order its tasks, nil for those that have ended.
	view  headrace.View
	order []*task
	gone  int // how many of order have ended

	nodes   []node
	byNode  map[headrace.NodeID]*node
	byTask  map[headrace.TaskID]*task
	slots   []*task
	free    []int32
	waiting int    // how many tasks wait
	files   *files // nil when nothing is read

	// decided is when the last decision was made; changed: something has happened
	// since. stuck counts decisions in a row that ordered nothing while nothing was
	// under way.
	decided time.Duration
	changed bool
	stuck   int

	tally
	r *Result
}

// Run is what becomes of w under c. progress, unless nil, is called now and then.
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
	swapOnMedium := c.Node.SwapOut == 0
	if swapOnMedium {
		c.Node.SwapOut = c.Medium.Write
	}
	if c.Node.SwapIn == 0 {
		c.Node.SwapIn = c.Medium.Read
	}
	e := &engine{
		c: c, w: w, planner: policy.NewPlanner(c.Policy),
		nodes: make([]node, c.Nodes), byNode: make(map[headrace.NodeID]*node, c.Nodes),
		byTask:  map[headrace.TaskID]*task{},
		decided: -c.Interval, swapOnMedium: swapOnMedium,
	}
	e.view.Nodes = make([]headrace.NodeView, c.Nodes)
	for i := range e.nodes {
		v := &e.view.Nodes[i]
		*v = headrace.NodeView{
			ID: headrace.NodeID("n" + strconv.Itoa(i+1)), CPUs: c.Node.CPUs, Memory: c.Node.Memory, Net: c.Node.Net,
			Stores: []headrace.StoreView{{
				Name: c.Medium.Name, Write: c.Medium.Write, Read: c.Medium.Read,
				DumpOverhead: c.Medium.DumpOverhead, RestoreOverhead: c.Medium.RestoreOverhead,
			}},
		}
		if c.Node.Swap > 0 {
			v.SwapOut, v.SwapIn = c.Node.SwapOut, c.Node.SwapIn
		}
		e.nodes[i] = node{i: int32(i), v: v}
		e.byNode[v.ID] = &e.nodes[i]
	}
	e.begin(w)
	return e
}

// run goes from event to event.
func (e *engine) run(ctx context.Context, progress func(Progress)) error {
	tasks := len(e.w.Tasks)
	for e.ended < tasks {
		at, what := e.soonest()
		if what == nothing {
			return e.hang()
		}
		e.advance(at)
		switch what {
		case aSubmission:
			e.submit()
		case anEvent:
			e.happen(e.queue.take())
		case aDecision:
			if err := e.decide(); err != nil {
				return err
			}
			if e.r.Counts.Decisions%64 == 0 {
				if err := ctx.Err(); err != nil {
					return err
				}
				if progress != nil {
					progress(Progress{At: e.now, Span: e.w.Tasks[tasks-1].Submit, Ended: e.ended, Tasks: tasks})
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

// soonest is what is due next, and when. Of what is due at the same time,
// submissions are first and decisions last.
func (e *engine) soonest() (time.Duration, due) {
	at, what := time.Duration(0), nothing
	if e.next < len(e.w.Tasks) {
		at, what = e.w.Tasks[e.next].Submit, aSubmission
	}
	if t, ok := e.queue.next(); ok && (what == nothing || t < at) {
		at, what = t, anEvent
	}
	if t, ok := e.decision(); ok && (what == nothing || t < at) {
		at, what = t, aDecision
	}
	return at, what
}

// decision is when the next decision is due, if at all.
func (e *engine) decision() (time.Duration, bool) {
	switch {
	case e.changed:
		return max(e.now, e.decided+e.c.Interval), true
	case e.waiting > 0 && e.stuck < mostStuck:
		return max(e.now, e.decided+max(recheck, e.c.Interval)), true
	}
	return 0, false
}

// mostStuck is how many decisions in vain are made while nothing is under way: what
// waiting alone can change must have changed by then.
const mostStuck = 10000

func (e *engine) hang() error {
	return fmt.Errorf("sim: at %v the policy %s starts none of %d waiting tasks, and nothing else is under way: the memory that suspended tasks hold may not fit beside them; give the nodes more memory or swap, or another policy",
		e.now, e.c.Policy.Policy, e.waiting)
}

// submit is the submission of the next task.
func (e *engine) submit() {
	spec := &e.w.Tasks[e.next]
	e.next++
	if len(e.view.Tasks) == cap(e.view.Tasks) {
		e.pack(len(e.order))
	}
	t := e.slot()
	t.spec, t.band, t.since, t.left = spec, band(spec.Priority), e.now, e.now
	t.peak, t.grows = spec.Memory, time.Duration(float64(spec.Grow)*float64(time.Second))
	t.at = len(e.order)
	job := e.w.Jobs[spec.Job]
	e.order = append(e.order, t)
	e.view.Tasks = append(e.view.Tasks, headrace.TaskView{
		ID: headrace.TaskID(job + "." + strconv.Itoa(e.next)), Job: headrace.JobID(job),
		Priority: spec.Priority, CPUs: float64(spec.CPUs), MemoryRequest: spec.Memory,
		Progress: headrace.Progress{Share: -1},
	})
	t.v = &e.view.Tasks[t.at]
	e.byTask[t.v.ID] = t
	if e.files != nil {
		e.files.beginInput(t)
	}
	e.waiting++
	e.changed = true
}

// slot is an empty task with a slot of its own.
func (e *engine) slot() *task {
	if n := len(e.free); n > 0 {
		t := e.slots[e.free[n-1]]
		e.free = e.free[:n-1]
		*t = task{slot: t.slot, gen: t.gen}
		return t
	}
	t := &task{slot: int32(len(e.slots))}
	e.slots = append(e.slots, t)
	return t
}

// forget takes t, which has ended, out of the view.
func (e *engine) forget(t *task) {
	delete(e.byTask, t.v.ID)
	t.v.State = headrace.Done
	e.order[t.at] = nil
	e.gone++
	t.gen++
	e.free = append(e.free, t.slot)
	if e.gone > 256 && e.gone > len(e.order)/4 {
		e.pack(0)
	}
}

// pack closes the gaps that ended tasks have left, and makes room for more.
func (e *engine) pack(more int) {
	order := e.order[:0]
	tasks := e.view.Tasks[:0]
	if more > 0 {
		order = make([]*task, 0, 1024+len(e.order)+more)
		tasks = make([]headrace.TaskView, 0, cap(order))
	}
	for _, t := range e.order {
		if t != nil {
			order, tasks = append(order, t), append(tasks, *t.v)
			t.at = len(order) - 1
			t.v = &tasks[t.at]
		}
	}
	if more == 0 {
		clear(e.order[len(order):])
		clear(e.view.Tasks[len(tasks):])
	}
	e.order, e.view.Tasks = order, tasks
	e.gone = 0
}

// happen handles an event.
func (e *engine) happen(ev event) {
	switch ev.kind {
	case evPaged:
		e.changed = true
		e.paged(&e.nodes[ev.who], ev.gen)
		return
	case evStored:
		e.changed = true
		e.stored(&e.nodes[ev.who])
		return
	case evDisk:
		e.files.due(&e.files.nodes[ev.who].disk, ev.gen)
		return
	case evNet:
		e.files.due(&e.files.nodes[ev.who].net, ev.gen)
		return
	case evAnnounced:
		e.files.announced()
		return
	}
	t := e.slots[ev.who]
	if t.gen != ev.gen {
		return
	}
	if ev.kind == evRead {
		e.files.part(t, inMemory)
		return
	}
	e.changed = true
	switch ev.kind {
	case evBegun:
		e.begun(t)
	case evEnd:
		e.end(t)
	case evKilled:
		e.killed(t)
	case evStopped:
		e.stopped(t)
	case evResumed:
		e.resumed(t)
	case evMoved:
		e.moved(t)
	}
}

// advance makes it later.
func (e *engine) advance(at time.Duration) {
	e.series.add(e.now, at, e.held, e.waiting)
	e.now = at
}

// later makes an event of t happen after some time.
func (e *engine) later(t *task, after time.Duration, k kind) {
	e.queue.add(event{at: e.now + after, who: t.slot, gen: t.gen, kind: k})
}
