package sim

import (
	"fmt"
	"time"

	"headrace"
)

// carryOut does what o says.
func (e *engine) carryOut(o *headrace.Order) error {
	t := e.roster.byID[o.Task]
	if t == nil {
		return fmt.Errorf("sim: at %v the policy orders %s of %s, which is not there", e.now, o.Verb, o.Task)
	}
	n := e.byNode[o.Node]
	if n == nil {
		return fmt.Errorf("sim: at %v the policy orders %s of %s on %q, which is no node", e.now, o.Verb, o.Task, o.Node)
	}
	if why := t.refuses(o, n); why != "" {
		return fmt.Errorf("sim: at %v the policy orders %s of %s on %s: %s", e.now, o.Verb, o.Task, o.Node, why)
	}
	if o.For != "" {
		if u := e.roster.byID[o.For]; u != nil {
			u.v.Room = o.Node
		}
	}
	if o.To != "" {
		t.v.Room = o.To
	}
	switch o.Verb {
	case headrace.OrderStart:
		e.start(t, n)
	case headrace.OrderResume:
		e.resume(t)
	case headrace.OrderRestore:
		e.restore(t, n)
	case headrace.OrderPageOut:
		t.v.PagingOut += o.PageOut
		t.node.pager.add(t, o.PageOut)
	case headrace.OrderPreempt:
		e.preempt(t, o)
		if o.Mechanism == headrace.Kill {
			return t.endless(e)
		}
	}
	return nil
}

// refuses says why o cannot be carried out, which would be a bug of the policy.
func (t *task) refuses(o *headrace.Order, n *node) string {
	v := t.v
	switch {
	case v.Starting || v.Leaving:
		return "it is on its way"
	case o.Verb == headrace.OrderStart && v.State != headrace.Pending,
		o.Verb == headrace.OrderResume && (v.State != headrace.Suspended || t.node != n),
		o.Verb == headrace.OrderRestore && (v.Checkpoint == nil || v.State != headrace.Checkpointed && v.State != headrace.Pending),
		o.Verb == headrace.OrderPageOut && v.State != headrace.Suspended,
		o.Verb == headrace.OrderPreempt && (t.node != n || v.State != headrace.Running && (v.State != headrace.Suspended || o.Mechanism == headrace.Suspend)):
		return "it is " + v.State.String()
	}
	return ""
}

// arrives makes t leave the queue for the node n, where it holds its CPUs.
func (e *engine) arrives(t *task, n *node, to phase) {
	v := t.v
	t.node, t.started = n, true
	v.Node, v.Room = n.v.ID, ""
	v.Waited = e.now - t.left
	v.Starting = true
	e.roster.waiting--
	if t.in != nil {
		e.files.view.leave(t)
	}
	e.tally.turn(t, to)
	e.tally.hour().Scheduled++
}

// comes is when t runs, or reads, on its node.
func (e *engine) comes(t *task) {
	v := t.v
	v.State, v.Starting = headrace.Running, false
	v.Waiting, v.Running = 0, 0
	t.came = e.now
	if e.files == nil || !e.files.reads(t) {
		e.goOn(t)
	}
}

// goOn lets t run until its end, as soon as all of its gang can.
func (e *engine) goOn(t *task) {
	if t.gang == nil {
		t.getOn(e.tally)
		return
	}
	if !t.gang.arrives(t) {
		e.tally.turn(t, stalled)
		return
	}
	for _, m := range t.gang.members {
		m.getOn(e.tally)
	}
}

// getOn lets t run until its end.
func (t *task) getOn(y *tally) {
	y.turn(t, running)
	y.clock.later(t, t.spec.Run-t.done, evEnd)
}

// halt ends whatever t was about to do.
func (e *engine) halt(t *task, to phase) {
	t.gen++
	if t.phase == reading {
		e.files.stopReading(t)
	}
	e.tally.turn(t, to)
	if t.gang != nil {
		t.gang.leaves(t)
		t.gang.stall(e.tally)
	}
}

// leaves makes t wait in the queue again.
func (e *engine) leaves(t *task) {
	e.tally.turn(t, idle)
	t.v.Leaving = false
	t.v.Running = 0
	t.left = e.now - t.v.Waited // a task that had to leave keeps its age
	e.roster.waiting++
	if t.in != nil {
		e.files.view.enter(t)
	}
}

func (e *engine) start(t *task, n *node) {
	e.r.Counts.Starts++
	e.arrives(t, n, stopping)
	e.later(t, e.c.Costs.Start, evBegun)
}

// end is the end of t.
func (e *engine) end(t *task) {
	if t.v.Leaving { // it has ended before its checkpoint began
		t.node.store.withdraw(t)
		e.r.Counts.Withdrawn++
	}
	e.tally.turn(t, idle)
	response, jobEnded := e.tally.complete(t)
	if e.files != nil {
		e.files.ended(t, response, jobEnded)
	}
	if t.v.Checkpoint != nil {
		e.drop(t)
	}
	if t.gang != nil {
		t.gang.ended(t)
	}
	e.roster.forget(t)
	e.stages.ended(t.spec, e.admit)
}

// drop removes the checkpoints of t from the node it is on.
func (e *engine) drop(t *task) {
	e.tally.keep(t.node, -t.v.Checkpoint.Bytes)
	t.v.Checkpoint, t.chain = nil, 0
}

// disown forgets what t has saved: YARN begins it anew in another container.
func (e *engine) disown(t *task) {
	t.saved = 0
	if t.in != nil {
		t.in.saved = place{at: t.in.first}
	}
	if t.v.Checkpoint != nil {
		e.drop(t)
	}
}

// preempt makes t leave. It is counted when it has left.
func (e *engine) preempt(t *task, o *headrace.Order) {
	v := t.v
	v.Leaving, v.LeavingBy = true, o.Mechanism
	switch o.Mechanism {
	case headrace.Kill:
		if v.State == headrace.Running { // a suspended one holds no processors
			e.halt(t, stopping)
		}
		if e.c.Capacity != nil {
			e.disown(t)
		}
		e.tally.lose(t, e.files.loseReading(t))
		e.later(t, e.c.Costs.Kill, evKilled)
	case headrace.Suspend:
		v.PagingOut = o.PageOut
		e.halt(t, stopping)
		e.later(t, e.c.Costs.Stop, evStopped)
	case headrace.Checkpoint:
		t.node.store.add(move{t: t, user: serves(e, t, o), took: e.dumpTime(t)})
	}
}

// serves returns the user for whom t leaves. What another scheduler orders is nobody's in particular.
func serves(e *engine, t *task, o *headrace.Order) int32 {
	if e.c.Capacity != nil {
		return 0
	}
	if u := e.roster.byID[o.For]; u != nil {
		return u.spec.User
	}
	return t.spec.User
}

// killed: t has ended, and begins anew or from its checkpoint.
func (e *engine) killed(t *task) {
	e.tally.preempted(t)
	waits := t.v.State == headrace.Suspended
	t.node.pager.callOff(t)
	t.node.pager.swapped -= t.v.Swapped
	e.gone(t, headrace.Pending)
	if waits {
		t.v.Leaving = false
	} else {
		e.leaves(t)
	}
	if t.v.Checkpoint == nil {
		t.v.Node, t.node = "", nil
	}
}

// gone enters that the processes of t are.
func (e *engine) gone(t *task, state headrace.TaskState) {
	v := t.v
	v.State = state
	v.Resident, v.Swapped, v.Dirty = 0, 0, 0
	read, _ := t.readFor(e.now)
	v.Progress.Wall, v.Progress.TotalWall = 0, t.saved+read
}

// stopped: all threads of t stand still.
func (e *engine) stopped(t *task) {
	e.tally.preempted(t)
	t.refresh(e.now, e.c.KnowShare)
	t.v.State = headrace.Suspended
	e.leaves(t)
	t.node.pager.add(t, t.v.PagingOut)
}

// resume brings the suspended task t back: its memory is read from swap, and it goes
// on.
func (e *engine) resume(t *task) {
	e.r.Counts.Resumes++
	t.node.pager.callOff(t)
	e.arrives(t, t.node, pagingIn)
	var in time.Duration
	if t.v.Swapped > 0 {
		in = transfer(t.v.Swapped, e.c.Node.SwapIn)
	}
	e.later(t, e.c.Costs.Resume+in, evResumed)
}

func (e *engine) resumed(t *task) {
	v := t.v
	e.r.IO.PagedIn += v.Swapped
	t.node.pager.swapped -= v.Swapped
	v.Resident, v.Swapped = v.Resident+v.Swapped, 0
	e.comes(t)
}

// dumpTime returns how long a dump of t takes.
func (e *engine) dumpTime(t *task) time.Duration {
	return e.c.Medium.DumpOverhead + transfer(t.dirty(t.progress(e.now)), e.c.Medium.Write)
}

// dump begins the dump m: from now on its task stands still. Where there is no room
// for it the task stays as it was, and dump reports false.
func (e *engine) dump(m *move) bool {
	t := m.t
	m.took = e.dumpTime(t)
	t.writes = t.dirty(t.progress(e.now))
	if !t.node.store.fits(t.writes) {
		e.r.Counts.NoRoom++
		t.v.Leaving = false
		return false
	}
	e.tally.keep(t.node, t.writes)
	if t.v.State == headrace.Running {
		e.halt(t, dumping)
	} else {
		t.node.pager.callOff(t)
	}
	return true
}

// dumped: the checkpoint of t is committed, its processes are gone.
func (e *engine) dumped(t *task) {
	e.tally.preempted(t)
	v := t.v
	old := v.Checkpoint
	c := &headrace.CheckpointView{Store: e.c.Medium.Name, Bytes: t.writes}
	switch {
	case old == nil:
		t.chain = 1
	case t.chain >= MaxChain:
		e.tally.keep(t.node, -old.Bytes)
		t.chain = 1
	default:
		c.Bytes += old.Bytes
		t.chain++
		e.r.Counts.Incremental++
	}
	e.r.IO.Dumped += t.writes
	suspended := v.State == headrace.Suspended
	t.done = t.progress(e.now)
	t.saved = t.done
	e.files.save(t)
	t.node.pager.swapped -= v.Swapped
	v.Checkpoint = c
	e.gone(t, headrace.Checkpointed)
	if suspended { // it waits already
		v.Leaving = false
		return
	}
	e.leaves(t)
}

// restore brings t back from its checkpoint on n. What two orders of one decision
// move to a node may be more than there is room for; then the second is not carried
// out.
func (e *engine) restore(t *task, n *node) {
	from := t.node
	if from != n && !n.store.fits(t.v.Checkpoint.Bytes) {
		e.r.Counts.NoRoom++
		e.asking.changed = true
		return
	}
	e.r.Counts.Restores++
	e.arrives(t, n, restoring)
	if from == n {
		n.store.add(e.restoreMove(t))
		return
	}
	e.r.Counts.Remote++
	bytes := t.v.Checkpoint.Bytes
	e.tally.keep(from, -bytes)
	e.tally.keep(n, bytes)
	e.r.IO.Moved += bytes
	e.later(t, transfer(bytes, e.c.Node.Net), evMoved)
}

func (e *engine) restoreMove(t *task) move {
	return move{t: t, restore: true, user: t.spec.User, took: e.c.Medium.RestoreOverhead + transfer(t.v.Checkpoint.Bytes, e.c.Medium.Read)}
}

// stored: the first dump or restore of s is done.
func (e *engine) stored(s *store) {
	if t, restored := s.done(); restored {
		e.r.IO.Restored += t.v.Checkpoint.Bytes
		e.comes(t)
	} else {
		e.dumped(t)
	}
	s.next()
}
