package sim

import (
	"time"

	"headrace"
)

// turn begins another phase of t: what passed in the old one is counted.
func (e *engine) turn(t *task, to phase) {
	e.spend(t)
	if (t.phase == idle) != (to == idle) {
		e.hold(t, to != idle)
	}
	t.phase, t.since = to, e.now
}

// arrives makes t leave the queue for the node n, where it holds its CPUs.
func (e *engine) arrives(t *task, n *node, to phase) {
	v := t.v
	t.node = n
	v.Node, v.Room = n.v.ID, ""
	v.Waited = e.now - t.left
	v.Starting = true
	e.waiting--
	if t.in != nil {
		e.files.view.leave(t)
	}
	e.turn(t, to)
	e.scheduled()
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

// goOn lets t run until its end.
func (e *engine) goOn(t *task) {
	e.turn(t, running)
	e.later(t, t.spec.Run-t.done, evEnd)
}

// halt ends whatever t was about to do.
func (e *engine) halt(t *task, to phase) {
	t.gen++
	if t.phase == reading {
		e.files.stopReading(t)
	}
	e.turn(t, to)
}

// leaves makes t wait in the queue again.
func (e *engine) leaves(t *task) {
	e.turn(t, idle)
	t.v.Leaving = false
	t.v.Running = 0
	t.left = e.now
	e.waiting++
	if t.in != nil {
		e.files.view.enter(e.files, t)
	}
}

func (e *engine) start(t *task, n *node) {
	e.r.Counts.Starts++
	e.arrives(t, n, stopping)
	e.later(t, e.c.Costs.Start, evBegun)
}

func (e *engine) begun(t *task) { e.comes(t) }

// end is the end of t.
func (e *engine) end(t *task) {
	if t.v.Leaving { // it has ended before its checkpoint began
		t.node.withdraw(t)
	}
	e.turn(t, idle)
	e.complete(t)
	if t.v.Checkpoint != nil {
		e.drop(t)
	}
	e.forget(t)
}

// drop removes the checkpoints of t from the node it is on.
func (e *engine) drop(t *task) {
	e.keep(t.node, -t.v.Checkpoint.Bytes)
	t.v.Checkpoint, t.chain = nil, 0
}

// preempt makes t leave.
func (e *engine) preempt(t *task, o *headrace.Order) {
	v := t.v
	v.Leaving, v.LeavingBy = true, o.Mechanism
	if v.State == headrace.Running {
		e.preempted(t)
	}
	switch o.Mechanism {
	case headrace.Kill:
		e.r.Counts.Kills++
		e.halt(t, stopping)
		e.lose(t)
		e.later(t, e.c.Costs.Kill, evKilled)
	case headrace.Suspend:
		e.r.Counts.Suspends++
		v.PagingOut = o.PageOut
		e.halt(t, stopping)
		e.later(t, e.c.Costs.Stop, evStopped)
	case headrace.Checkpoint:
		e.r.Counts.Checkpoints++
		e.enqueue(t.node, move{t: t, took: e.dumpTime(t)})
	}
}

// killed: t has ended, and begins anew or from its checkpoint.
func (e *engine) killed(t *task) {
	v := t.v
	v.State = headrace.Pending
	v.Resident, v.Swapped, v.Dirty = 0, 0, 0
	read, _ := t.readFor(e.now)
	v.Progress.Wall, v.Progress.TotalWall = 0, t.saved+read
	e.leaves(t)
	if v.Checkpoint == nil {
		v.Node, t.node = "", nil
	}
}

// stopped: all threads of t stand still.
func (e *engine) stopped(t *task) {
	t.refresh(e.now, e.c.KnowShare)
	t.v.State = headrace.Suspended
	e.leaves(t)
	e.pageOut(t, t.v.PagingOut)
}

// resume brings the suspended task t back: its memory is read from swap, and it goes
// on.
func (e *engine) resume(t *task) {
	e.r.Counts.Resumes++
	e.callOff(t)
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
	t.node.swapped -= v.Swapped
	v.Resident, v.Swapped = v.Resident+v.Swapped, 0
	e.comes(t)
}

// dumpTime is how long a dump of t takes.
func (e *engine) dumpTime(t *task) time.Duration {
	return e.c.Medium.DumpOverhead + transfer(t.dirty(t.progress(e.now)), e.c.Medium.Write)
}

// dump begins the dump m: from now on its task stands still. Where there is no room
// for it the task stays as it was, and dump reports false.
func (e *engine) dump(m *move) bool {
	t := m.t
	m.took = e.dumpTime(t)
	t.writes = t.dirty(t.progress(e.now))
	if t.node.stored+t.writes > e.c.Node.Store {
		e.r.Counts.NoRoom++
		t.v.Leaving = false
		return false
	}
	e.keep(t.node, t.writes)
	if t.v.State == headrace.Running {
		e.halt(t, dumping)
	} else {
		e.callOff(t)
	}
	return true
}

// keep enters bytes of checkpoints on n; negative: they are gone.
func (e *engine) keep(n *node, bytes int64) {
	n.stored += bytes
	e.stores += bytes
	e.r.IO.StorePeak = max(e.r.IO.StorePeak, e.stores)
}

// dumped: the checkpoint of t is committed, its processes are gone.
func (e *engine) dumped(t *task) {
	v := t.v
	old := v.Checkpoint
	c := &headrace.CheckpointView{Store: e.c.Medium.Name, Bytes: t.writes}
	switch {
	case old == nil:
		t.chain = 1
	case t.chain >= MaxChain:
		e.keep(t.node, -old.Bytes)
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
	t.in.save()
	t.node.swapped -= v.Swapped
	v.Checkpoint, v.State = c, headrace.Checkpointed
	v.Resident, v.Swapped, v.Dirty = 0, 0, 0
	read, _ := t.readFor(e.now)
	v.Progress.Wall, v.Progress.TotalWall = 0, t.saved+read
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
	if from != n && n.stored+t.v.Checkpoint.Bytes > e.c.Node.Store {
		e.r.Counts.NoRoom++
		e.changed = true
		return
	}
	e.r.Counts.Restores++
	e.arrives(t, n, restoring)
	if from == n {
		e.enqueue(n, e.restoreMove(t))
		return
	}
	e.r.Counts.Remote++
	bytes := t.v.Checkpoint.Bytes
	e.keep(from, -bytes)
	e.keep(n, bytes)
	e.r.IO.Moved += bytes
	e.later(t, transfer(bytes, e.c.Node.Net), evMoved)
}

// moved: the checkpoint of t is on its new node.
func (e *engine) moved(t *task) { e.enqueue(t.node, e.restoreMove(t)) }

func (e *engine) restoreMove(t *task) move {
	return move{t: t, restore: true, took: e.c.Medium.RestoreOverhead + transfer(t.v.Checkpoint.Bytes, e.c.Medium.Read)}
}

func (e *engine) restored(t *task) {
	e.r.IO.Restored += t.v.Checkpoint.Bytes
	e.comes(t)
}
