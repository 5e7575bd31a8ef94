package policy

import (
	"fmt"
	"slices"
	"time"

	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/fleet"
	"headrace/policy/internal/price"
	"headrace/policy/internal/queue"
	"headrace/policy/internal/victims"
	"headrace/policy/internal/words"
)

// Decide takes the whole decision for a cluster: which waiting tasks start or come
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
	ageing  queue.Ageing
	model   *price.Model
	chooser *victims.Chooser
	queue   queue.Queue
	fleet   *fleet.Fleet

	orders []headrace.Order
	behind []*queue.Waiter // those that wait and have not had their turn, in their order
	// waitsFor is how many wait for devices that are expected to be free (patient).
	waitsFor int
	keeping  keeping
	passed   []passed
	blocked  blocked
	marks    marks

	explain bool
	notes   []Note
}

// NewPlanner makes a planner for c, which must be valid (Config.Validate).
func NewPlanner(c Config) *Planner {
	c = c.resolved()
	if !slices.Contains(Names(), c.Policy) {
		panic(fmt.Sprintf("policy: %v", unknown("policy", string(c.Policy), Names())))
	}
	p := &Planner{c: c, ageing: queue.Ageing{Step: c.Ageing, MinRun: c.MinRun}, model: price.New(c.overlap, c.Doubling)}
	p.chooser = victims.New(c.Policy, c.VictimOrder, p.model)
	p.queue = queue.Queue{Ageing: p.ageing, BySubmission: c.NoResidencyOrder}
	p.fleet = fleet.New(&books.Ledger{Reserve: c.reserve, Overlap: c.overlap, Meet: p.meet}, p.chooser, c.NoResidencyOrder)
	return p
}

// meet fills in what is to be known of a task that runs.
func (p *Planner) meet(t *books.Task) {
	t.Rank, t.KnowsShare, t.Guard = p.chooser.RankOf(t), books.ShareKnown(t.TaskView), p.ageing.GuardOf(t.TaskView)
}

// Decide decides about v, as the function Decide does. v is not changed, nor read after
// the call. The orders are valid until the next call.
func (p *Planner) Decide(v *headrace.View) []headrace.Order { return p.DecideFirst(v, nil) }

// DecideFirst decides as Decide does about a view that leaves out tasks for which the marks
// stand, and fills in the answers. Where one is not spent the view is to be made longer, and
// the orders mean nothing.
func (p *Planner) DecideFirst(v *headrace.View, marks []Mark) []headrace.Order {
	queue := p.begin(v)
	var gangs []*books.Gang
	for _, u := range queue {
		switch {
		case u.Room == "":
		case u.Whole != nil: // room was made for some of it, the others go anywhere
			gangs = append(gangs, u.Whole)
		default:
			u.Served = p.redeem(u)
		}
	}
	for _, g := range gangs {
		p.redeemGang(g)
	}
	p.marks.load(marks, v, p.ageing)
	for i, w := range queue {
		p.behind = queue[i+1:]
		if !w.Served || w.Dumping != nil {
			keepFrom(p, w.Task)
		}
		p.fleet.Expect(w.Priority, p.fleet.Touch)
		got := served
		switch {
		case w.Whole != nil && w.Whole.Done:
			continue
		case w.Whole != nil:
			got = p.placeGang(w.Whole)
		case w.Dumping != nil:
			startSooner(p, w)
		case !w.Served:
			unblock(p, w)
			if w, got = w.Next(p.fleet), nothing; !p.hopeless(w.Task) {
				got = p.place(w)
				w.Served = w.State == headrace.Suspended // it has had its turn (unblock)
			}
		}
		p.marks.pass(w.Task, got)
	}
	return p.orders
}

// begin takes in v, relieves its nodes, and lines up the tasks that wait.
func (p *Planner) begin(v *headrace.View) []*queue.Waiter {
	p.load(v)
	queue := p.queue.Order(p.fleet.Waiting)
	for _, n := range p.fleet.Every {
		p.relieve(n)
	}
	return queue
}

func (p *Planner) load(v *headrace.View) {
	p.orders, p.notes, p.keeping, p.waitsFor = p.orders[:0], p.notes[:0], keeping{}, 0
	p.blocked, p.passed = blocked{first: p.blocked.first[:0]}, p.passed[:0]
	p.fleet.Load(v)
}

// relieve orders out memory of suspended tasks on a node whose tasks hold more
// than its budget, as happens when a task needs more than it said or has said
// nothing.
func (p *Planner) relieve(n *books.Node) {
	excess := -n.Later.Mem
	if excess <= 0 || n.Pageable <= 0 {
		return
	}
	nobody := &books.Task{TaskView: &headrace.TaskView{}}
	p.apply(nobody, p.chooser.Relieve(n, excess), fmt.Sprintf("%s holds %s more than its memory budget", n.ID, words.Size(excess)))
}

// reserve gives u its room on n.
func (p *Planner) reserve(u *books.Task, n *books.Node) {
	n.Reserve(u)
	p.fleet.Touch(n)
}

// outcome is what a decision has brought a waiting task.
type outcome uint8

const (
	nothing  outcome = iota
	served           // a place, or one that others are leaving
	roomMade         // others leave for it, or it leaves
)

// place decides about one waiting task: start it, let it wait for room that is on
// its way, make room, or keep room.
func (p *Planner) place(w *queue.Waiter) outcome {
	u := w.Task
	if u.Order > 0 || u.Settled {
		if u.Counted != nil {
			p.note(u, "what it holds is needed by a more urgent task")
		} else {
			p.note(u, "its memory is needed by a more urgent task")
		}
		return nothing
	}
	now, s := p.fleet.Find(u)
	if now != nil {
		p.startLone(w, now)
		return served
	}
	if n := fleet.Yield(p.fleet, u); n != nil {
		p.startLone(w, n)
		return roomMade // what it leaves of that room is for others
	}
	if p.fleet.Nowhere(u, s) {
		p.noteNowhere(u)
		return nothing
	}
	if n := p.fleet.FitsLater(u, s); n != nil {
		if way := p.sooner(u, s, n); way != nil {
			p.displace(u, way)
			return roomMade
		}
		p.reserve(u, n)
		p.note(u, "room is being made on ", string(n.ID))
		return served
	}
	if way := p.search(u, s); way != nil {
		switch {
		case p.patient(u, s, way):
			return served
		case !way.Waits():
			p.displace(u, way)
		case !p.await(u, s, way):
			return nothing
		}
		return roomMade
	}
	if u.State == headrace.Suspended && p.c.Policy.Checkpoints() && p.moveOn(u) {
		return roomMade
	}
	if u.State == headrace.Suspended && u.Home.TakesBack(u) {
		p.start(u, u.Home, "nothing else runs, and there is room for what it asked for")
		return served
	}
	p.block(u, s)
	return nothing
}

// displace has others leave for u, which gets their room.
func (p *Planner) displace(u *books.Task, way *victims.Plan) {
	p.apply(u, way, "makes room for "+string(u.ID)+" ("+u.Priority.String()+")")
	p.reserve(u, way.Node)
	p.notePlan(u, way)
}

// sooner returns the plan that has others leave for u, on whichever node, if Cost finds that cheaper than
// to wait for the dumps under way on n, where it fits once they are done; else nil.
func (p *Planner) sooner(u *books.Task, s fleet.Spots, n *books.Node) *victims.Plan {
	if !p.chooser.Weighs() || u.NoVictims || u.Counted != nil || !n.AwaitsDumps(u) {
		return nil
	}
	way := p.fleet.PlanWithoutDumps(u, s)
	if way == nil || way.Waits() || len(way.Acts) == 0 || way.Cost.Total >= n.Dumping()*p.model.Urgency(u) {
		return nil
	}
	return way
}

// hopeless reports whether it is known without looking that nothing can be done for u,
// and that nothing is to be kept for it.
func (p *Planner) hopeless(u *books.Task) bool {
	keeps := p.keeping.anywhere || len(p.fleet.Every) == 1 && p.fleet.Every[0].Kept != nil && u.Whole == nil
	if !keeps || p.explain || u.Order > 0 || u.Settled {
		return false
	}
	return p.fleet.Hopeless(u)
}

// await lets u wait for its plan. What the plan will free and what it would page
// out are spoken for, and so is what of u's need goes beyond; but nobody counts on
// what may be left over some day. Where there is nobody who could leave instead, room is only
// kept so, which is done for as few as with block: it reports false when it is not.
func (p *Planner) await(u *books.Task, s fleet.Spots, way *victims.Plan) bool {
	p.notePlan(u, way)
	if way.OnlyWaits(u) {
		if kept := p.keeper(u, s); kept != nil {
			if *kept {
				p.fleet.Failed(u, fleet.Planned, true)
				return false
			}
			*kept = true
		}
	}
	n := way.Node
	before := n.Free()
	p.apply(u, way, "")
	n.Reserve(u)
	n.Forgo(before)
	p.fleet.Touch(n)
	return true
}

// patient lets u, which needs devices, wait for the first that are free instead of having others
// lose what they have done, if Cost expects room for it, and for those before it that wait so, by when
// it will have waited, since this wait began, for as much as the plan costs. It reports false where the
// plan is cheaper. What it has waited so counts because the ages from which the rest of the others is
// guessed grow as fast as what a kill costs: who began anew at each decision might wait for ever.
func (p *Planner) patient(u *books.Task, s fleet.Spots, way *victims.Plan) bool {
	if u.Counted == nil || !p.chooser.Weighs() || way.Waits() {
		return false
	}
	left := way.Cost.Total/p.model.Urgency(u) - books.Since(u.TaskView).Seconds()
	if left <= 0 || !p.fleet.Opens(u, s, p.waitsFor+1, left) {
		return false
	}
	p.waitsFor++
	p.note(u, "waits for others to end, which is expected soon: cheaper than to preempt")
	p.keep(u, s, p.keeper(u, s))
	return true
}

// search finds the policy's plan for u, or nil.
func (p *Planner) search(u *books.Task, s fleet.Spots) *victims.Plan {
	if u.NoVictims || p.fleet.Fails(u, fleet.Planned) {
		return nil
	}
	return p.fleet.Plan(u, s)
}

// moveOn has the suspended u go on on another node that has room, if that is expected to
// be sooner than on its own.
func (p *Planner) moveOn(u *books.Task) bool {
	m, ok := p.fleet.Elsewhere(u, p.chooser.Weighs())
	if !ok {
		return false
	}
	o := headrace.Order{Verb: headrace.OrderPreempt, Task: u.ID, Node: u.Home.ID, To: m.To.ID, Delay: m.Takes}
	var act books.Act
	if m.Again {
		act = books.By(u, headrace.Kill)
		o.Waste, o.Reason = words.Seconds(price.Redo(u.TaskView, u.Home)), "begins again on "+string(m.To.ID)+", which has room: "
		if _, ok := fleet.CanMove(u); ok {
			o.Reason += "it loses less than by being moved"
		} else {
			o.Reason += "it cannot be moved, and has waited for as long as it does again"
		}
	} else {
		act = books.DumpTo(u, m.Store)
		o.Store, o.Reason = u.Home.Stores[m.Store].Name, "goes on on "+string(m.To.ID)+", which has room, sooner than on "+string(u.Home.ID)
		m.To.Fetch(u.TaskView, o.Store, m.Bytes)
	}
	o.Mechanism = act.By
	p.emit(o, u)
	u.Home.Credit(act)
	m.To.Expect(u.TaskView)
	p.fleet.Touch(u.Home)
	p.fleet.Touch(m.To)
	p.note(u, o.Reason)
	return true
}

// keeping is for whom room is kept already that does not depend on one node: for a task
// that could go anywhere, for a suspended one that could be moved, and for a gang that is bound
// to its nodes.
type keeping struct{ anywhere, movable, bound bool }

// keeper returns what of it u counts for; nil: its room depends on one node.
func (p *Planner) keeper(u *books.Task, s fleet.Spots) *bool {
	switch {
	case u.State != headrace.Suspended && p.fleet.SeveralSpots(u, s):
		return &p.keeping.anywhere
	case u.State == headrace.Suspended && p.c.Policy.Checkpoints():
		if _, ok := fleet.CanMove(u); ok {
			return &p.keeping.movable
		}
	}
	return nil
}

// block keeps what is free for u on the node where the least is missing, so that
// smaller tasks behind it do not eat it up for ever: for one task that can go
// anywhere, for one that can be moved, and for one on each node that can do neither. What
// is missing there can only become less, so that the choice is stable.
func (p *Planner) block(u *books.Task, s fleet.Spots) {
	kept := p.keeper(u, s)
	taken := kept != nil && *kept
	if taken && !p.explain {
		return
	}
	if !p.fleet.LargeEnough(u, s) {
		p.noteNowhere(u)
		return
	}
	p.noteRefusal(u, s)
	if taken || p.keep(u, s, kept) {
		return
	}
	if p.blocked.Task != nil {
		return
	}
	if n := p.fleet.NearestFit(u, s, true); n != nil {
		p.blocked = blocked{u, s, kept, p.blocked.first}
		for _, v := range p.behind {
			if v.State == headrace.Suspended && v.Home == n && v.Whole == nil {
				p.blocked.first = append(p.blocked.first, v)
			}
		}
	}
}

// blocked is the first task for which nothing is kept, as it will not fit before others have run that are
// suspended on the node where the least is missing: those of first, which have not had their turn.
type blocked struct {
	*books.Task
	spots fleet.Spots
	kept  *bool
	first []*queue.Waiter
}

// unblock decides, before w has its turn, which was not begun, about those for whom the blocked one has to wait: else
// w would go before that one. Those that would have to leave again for w have their turn later. After the last one
// what is left is kept.
func unblock(p *Planner, w *queue.Waiter) {
	b := &p.blocked
	if len(b.first) == 0 || books.Begun(w.TaskView) || w.Whole != nil {
		return
	}
	later := b.first[:0]
	for _, v := range b.first {
		switch {
		case v.Served:
		case v.Priority < w.Priority:
			later = append(later, v)
		default:
			p.fleet.Expect(v.Priority, p.fleet.Touch)
			v.Served = true
			if p.place(v) == roomMade {
				p.marks.pass(w.Task, roomMade)
			}
			keepFrom(p, w.Task)
		}
	}
	if b.first = later; len(later) == 0 {
		p.keep(b.Task, b.spots, b.kept)
		keepFrom(p, w.Task)
	}
}

// keep keeps what is free for u, which counts for kept (keeper), unless that is for somebody already: at once
// where that depends on one node, else from those behind it that may not pass. It reports whether there is a node for that.
func (p *Planner) keep(u *books.Task, s fleet.Spots, kept *bool) bool {
	if kept != nil && *kept {
		return true
	}
	n := p.fleet.NearestFit(u, s, false)
	switch {
	case n == nil:
		return false
	case kept == nil:
		keepOn(p, n, u)
	default:
		*kept = true
		p.passed = append(p.passed, passed{u, s})
	}
	return true
}

func keepOn(p *Planner, n *books.Node, u *books.Task) {
	n.Keep(u)
	p.fleet.Touch(n)
}

// passed is a task, or one of a gang, for which room is to be kept.
type passed struct {
	*books.Task
	spots fleet.Spots
}

// mayPass reports whether w may have what would be kept for u, which stands before it: it has the same place by aged
// priority, and came in the first quarter of the wait of u, less ten minutes, at most an hour after it. Large ones so
// gather at the head of the queue, where a node that was once kept is enough for many, and nodes are idle less; but one that
// would soon have its room is not passed by all who come right behind it. The more may pass, the longer large ones wait, and
// without an end to these, one of them would wait for ever behind a stream of more than four times what there is room for.
func mayPass(w, u *books.Task) bool {
	return w.Aged == u.Aged && u.Waiting-w.Waiting < min(u.Waiting/4-10*time.Minute, time.Hour)
}

// keepFrom keeps, before w has its turn, what is free for those that it may not pass.
func keepFrom(p *Planner, w *books.Task) {
	still := p.passed[:0]
	for _, u := range p.passed {
		switch {
		case mayPass(w, u.Task):
			still = append(still, u)
		case u.Whole != nil:
			setAside(p, u.Whole, true) // if what others were given meanwhile has left enough
		default:
			if n := p.fleet.NearestFit(u.Task, u.spots, false); n != nil {
				keepOn(p, n, u.Task)
			}
		}
	}
	p.passed = still
}

// redeem gives w the room that was made for it by earlier orders, before anybody
// else is served, and reports whether that room is still there.
func (p *Planner) redeem(w *queue.Waiter) bool {
	u, n := w.Task, p.fleet.NodeOf(w.Room)
	if n == nil || u.Order > 0 || !fleet.May(u, n) {
		return false
	}
	switch {
	case n.Fits(u):
		p.startLone(w, n)
		return true
	case n.FitsLater(u):
		if n.AwaitsDumps(u) && !books.Begun(u.TaskView) {
			w.Dumping = n
		} else {
			p.note(u, "room is being made on ", string(n.ID))
		}
		p.reserve(u, n)
		return true
	}
	return false
}

// startSooner starts w, whose room is being made by dumps, where there is room now, if any is left when
// it is its turn. What it leaves is for others.
func startSooner(p *Planner, w *queue.Waiter) {
	now, _ := p.fleet.Find(w.Task)
	if now == nil {
		p.note(w.Task, "room is being made on ", string(w.Dumping.ID))
		return
	}
	books.Release(w.Dumping, w.TaskView)
	p.fleet.Touch(w.Dumping)
	p.startLone(w, now)
}

// startLone orders w, which is of no gang, to run on n. One whose turn at its store is far only has its
// room kept: while it is brought back nobody can take that, however urgent.
func (p *Planner) startLone(w *queue.Waiter, n *books.Node) {
	why := ""
	switch {
	case books.Restorable(w.TaskView) && n == w.Home && p.fleet.BringsBackOthers(n, w.TaskView):
		n.Fetch(w.TaskView, w.Checkpoint.Store, w.Checkpoint.Bytes)
		p.reserve(w.Task, n)
		p.note(w.Task, "others come back from ", w.Checkpoint.Store, " before it")
		return
	case w.State == headrace.Suspended:
		why = "there is room again"
	case !books.Restorable(w.TaskView):
		attraction := p.fleet.Attraction(w.Task, n)
		why = "there is room" + attraction + passing(w, attraction != "")
	}
	p.start(w.Task, n, why)
}

// start orders u to run on n. Why is for a person, unless it comes back from a checkpoint.
func (p *Planner) start(u *books.Task, n *books.Node, why string) {
	o := headrace.Order{Task: u.ID, Node: n.ID, Reason: why}
	switch {
	case u.State == headrace.Suspended:
		o.Verb = headrace.OrderResume
		if n.SwapIn > 0 {
			o.Delay = words.Seconds(float64(u.Swapped) / n.SwapIn)
		}
	case books.Restorable(u.TaskView):
		o.Verb = headrace.OrderRestore
		o.Delay, o.Reason = fleet.ComeBack(u, n)
		n.Fetch(u.TaskView, u.Checkpoint.Store, u.Checkpoint.Bytes)
		p.fleet.Restoring(n, u.TaskView)
	default:
		o.Verb = headrace.OrderStart
	}
	if u.Aged > u.Priority && !u.Beyond {
		o.Reason += "; by waiting it has risen from " + u.Priority.String() + " to " + u.Aged.String()
	}
	p.reserve(u, n)
	p.emit(o, u)
}
