package policy

import (
	"fmt"
	"slices"

	"headrace"
	"headrace/policy/internal/words"
)

// Decide is the whole decision for a cluster: which waiting tasks start or come
// back and where, which running tasks make room for more urgent ones and how, and
// what memory goes to swap. The orders may be carried out at the same time; no
// task gets more than one. The same arguments give the same orders, in the same
// sequence.
//
// The view must show what was ordered before and is not finished: Starting,
// Leaving with LeavingBy, PagingOut, and Room for the task an order was for.
// Nothing is then ordered twice. c must be valid (Config.Validate); an unknown
// policy panics. v is not changed and not kept.
func Decide(v headrace.View, c Config) []headrace.Order {
	return NewPlanner(c).Decide(&v)
}

// Planner decides as Decide does, again and again, and keeps its memory from one
// call to the next. What it decides depends on the view alone. It must not be used
// by two goroutines at once.
type Planner struct {
	c       Config
	ageing  ageing
	model   *model
	chooser *chooser
	queue   queue
	fleet   *fleet

	orders   []headrace.Order
	attempts int
	keeping  bool // a task that can go anywhere has room kept for it

	explain bool
	notes   []Note
}

// NewPlanner is a planner for c, which must be valid (Config.Validate).
func NewPlanner(c Config) *Planner {
	c = c.resolved()
	if !slices.Contains(Names(), c.Policy) {
		panic(fmt.Sprintf("policy: %v", unknown("policy", string(c.Policy), Names())))
	}
	p := &Planner{c: c, ageing: ageing{c.Ageing, c.MinRun}, model: newModel(c.overlap, c.doubling)}
	p.chooser = newChooser(c.Policy, c.VictimOrder, p.model)
	p.queue = queue{ageing: p.ageing, bySubmission: c.NoResidencyOrder}
	p.fleet = newFleet(&ledger{reserve: c.reserve, overlap: c.overlap, meet: p.meet}, p.chooser, c.NoResidencyOrder)
	return p
}

// meet fills in what is to be known of a task that runs.
func (p *Planner) meet(t *task) {
	t.rank, t.share, t.guard = p.chooser.rankOf(t), shareKnown(t.TaskView), p.ageing.guardOf(t.TaskView)
}

// Decide is Decide for v, which is not changed, nor read after the call. The
// orders are valid until the next call.
func (p *Planner) Decide(v *headrace.View) []headrace.Order {
	queue := p.begin(v)
	for _, u := range queue {
		u.served = u.Room != "" && p.redeem(u)
	}
	for _, u := range queue {
		if u.served {
			continue
		}
		if u = u.next(p.fleet); !p.hopeless(u.task) {
			p.place(u)
		}
	}
	return p.orders
}

// begin takes in v, relieves its nodes, and lines up the tasks that wait.
func (p *Planner) begin(v *headrace.View) []*waiter {
	p.load(v)
	queue := p.queue.order(p.fleet.waiting)
	for _, u := range queue {
		p.fleet.classify(u.task)
	}
	for _, n := range p.fleet.every {
		p.relieve(n)
	}
	return queue
}

func (p *Planner) load(v *headrace.View) {
	p.orders, p.notes, p.attempts, p.keeping = p.orders[:0], p.notes[:0], 0, false
	p.fleet.load(v)
}

// relieve orders out memory of suspended tasks on a node whose tasks hold more
// than its budget, as happens when a task needs more than it said or has said
// nothing.
func (p *Planner) relieve(n *node) {
	excess := -n.later.mem
	if excess <= 0 || n.pageable <= 0 {
		return
	}
	nobody := &task{TaskView: &headrace.TaskView{}}
	p.apply(nobody, p.chooser.relieve(n, excess), fmt.Sprintf("%s holds %s more than its memory budget", n.ID, words.Size(excess)))
}

// reserve gives u its room on n.
func (p *Planner) reserve(u *task, n *node) {
	n.reserve(u)
	p.fleet.touch(n)
}

// place decides about one waiting task: start it, let it wait for room that is on
// its way, make room, or keep room.
func (p *Planner) place(w *waiter) {
	u := w.task
	if u.order > 0 || u.settled {
		p.note(u, "its memory is needed by a more urgent task")
		return
	}
	now, s := p.fleet.find(u)
	if now != nil {
		p.start(w, now)
		return
	}
	if p.fleet.nowhere(u, s) {
		p.noteNowhere(u)
		return
	}
	if n := p.fleet.fitsLater(u, s); n != nil {
		p.reserve(u, n)
		p.note(u, "room is being made on ", string(n.ID))
		return
	}
	if way := p.search(u, s); way != nil {
		if way.waits() {
			p.await(u, way)
		} else {
			p.apply(u, way, "makes room for "+string(u.ID)+" ("+u.Priority.String()+")")
			p.reserve(u, way.n)
		}
		p.notePlan(u, way)
		return
	}
	p.block(u, s)
}

// hopeless reports whether it is known without looking that nothing can be done for u,
// and that nothing is to be kept for it.
func (p *Planner) hopeless(u *task) bool {
	if !p.keeping || p.explain || u.order > 0 || u.settled {
		return false
	}
	return p.fleet.hopeless(u, p.c.attempts > 0 && p.attempts >= p.c.attempts)
}

// await lets u wait for its plan. What the plan will free and what it would page
// out are spoken for, and so is what of u's need goes beyond; but nobody counts on
// what may be left over some day.
func (p *Planner) await(u *task, way *plan) {
	n := way.n
	now, later := n.now, n.later
	p.apply(u, way, "")
	n.reserve(u)
	n.forgo(now, later)
	p.fleet.touch(n)
}

// search finds the policy's plan for u, or nil.
func (p *Planner) search(u *task, s spots) *plan {
	fresh := !begun(u.TaskView)
	if fresh && p.fleet.fails(u, kindPlan) {
		return nil
	}
	if fresh || p.fleet.severalSpots(u, s) {
		if p.attempts++; p.c.attempts > 0 && p.attempts > p.c.attempts {
			return nil
		}
	}
	way := p.fleet.plan(u, s)
	if way == nil && fresh {
		p.fleet.failed.note(u, kindPlan)
	}
	return way
}

// block keeps what is free for u on the node where the least is missing, so that
// smaller tasks behind it do not eat it up for ever: for one task that can go
// anywhere, and for one on each node that cannot. What is missing there can only
// become less, so that the choice is stable.
func (p *Planner) block(u *task, s spots) {
	anywhere := u.State != headrace.Suspended && p.fleet.severalSpots(u, s)
	if anywhere && p.keeping && !p.explain {
		return
	}
	if !p.fleet.largeEnough(u, s) {
		p.noteNowhere(u)
		return
	}
	p.noteRefusal(u, s)
	if anywhere && p.keeping {
		return
	}
	if n := p.fleet.nearestFit(u, s); n != nil {
		p.keeping = p.keeping || anywhere
		n.keep(u)
		p.fleet.touch(n)
	}
}

// redeem gives w the room that was made for it by earlier orders, before anybody
// else is served, and reports whether that room is still there.
func (p *Planner) redeem(w *waiter) bool {
	u, n := w.task, p.fleet.nodeOf(w.Room)
	if n == nil || u.order > 0 || !may(u, n) {
		return false
	}
	switch {
	case n.fits(u):
		p.start(w, n)
		return true
	case n.fitsLater(u):
		p.reserve(u, n)
		p.note(u, "room is being made on ", string(n.ID))
		return true
	}
	return false
}

// start orders w to run on n.
func (p *Planner) start(w *waiter, n *node) {
	u, o := w.task, headrace.Order{Task: w.ID, Node: n.ID}
	switch {
	case u.State == headrace.Suspended:
		o.Verb = headrace.OrderResume
		if n.SwapIn > 0 {
			o.Delay = words.Seconds(float64(u.Swapped) / n.SwapIn)
		}
		o.Reason = "there is room again"
	case restorable(u.TaskView):
		o.Verb = headrace.OrderRestore
		o.Delay, o.Reason = comeBack(u, n)
	default:
		o.Verb = headrace.OrderStart
		attraction := p.fleet.attraction(u, n)
		o.Reason = "there is room" + attraction + passing(w, attraction != "")
	}
	if u.eff > u.Priority {
		o.Reason += "; by waiting it has risen from " + u.Priority.String() + " to " + u.eff.String()
	}
	p.reserve(u, n)
	p.emit(o, u)
}
