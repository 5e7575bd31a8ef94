package books

import (
	"cmp"
	"math"
	"slices"
	"time"

	"headrace"
)

// Node is a node of the view with its accounts. What is free counts every task
// on it: now, and later, when all that is leaving or being paged out is gone and
// all that this decision gave away is taken.
type Node struct {
	*headrace.NodeView
	of         *Ledger
	Index      int
	name       headrace.NodeID
	Now, Later Room
	counted    counted
	// Swap is what may still be ordered out; Pageable what suspended tasks have;
	// swapped what all tasks have there.
	Swap, Pageable, swapped int64
	Stores                  []Store
	// LowestRunning and lowestSuspended are the least priorities of those that are not held;
	// above MaxPriority when there are none.
	LowestRunning, lowestSuspended headrace.Priority
	// first and last are the tasks that may be preempted as far as their state goes,
	// chained by Ledger.next; -1 when there are none.
	first, last int32
	// Running is the same tasks once opened, of which whoever looks for victims has
	// sorted so many; Suspended are those whose memory may be paged out.
	Running, Suspended []*Task
	Sorted             int
	opened, linedUp    bool
	// Shares: some of those that may be preempted say how much of them is done.
	Shares bool
	// Kept is a task that nothing can be done for yet: what is free is kept for it.
	Kept *Task
	// Away are the parts of gangs that are suspended here, parts of those that run; saved: see trial.
	Away  []*Task
	parts []*Task
	saved bool
	// staying is what those hold who are being suspended, once they are.
	staying int64
	dumps   dumps
	// claims are what is set aside here for a gang, as a negative amount, and claimed those of
	// it that need what is counted.
	claims  Room
	claimed []*Task
}

// Store is a store with what this decision has added to its queue.
type Store struct {
	*headrace.StoreView
	// queue is that of users who are not among Queues, with what was added, in seconds.
	queue, added float64
	Free         int64
}

// Wait returns how many seconds a dump or restore waits there that is done for the owner of u.
func (s *Store) Wait(u *headrace.TaskView) float64 {
	for i := range s.Queues {
		if q := &s.Queues[i]; q.User == u.User {
			return q.Wait.Seconds() + s.added
		}
	}
	return s.queue
}

// add enters something that takes so many seconds.
func (s *Store) add(seconds float64) {
	s.queue += seconds
	s.added += seconds
}

// reset empties the accounts and keeps the memory of the lists.
func (n *Node) reset(l *Ledger, v *headrace.NodeView) {
	*n = Node{
		NodeView: v, of: l, Index: n.Index, name: n.name, LowestRunning: headrace.MaxPriority + 1, lowestSuspended: headrace.MaxPriority + 1, first: -1, last: -1,
		Now: Room{v.CPUs, v.Memory}, Later: Room{v.CPUs, v.Memory},
		Stores: n.Stores[:0], Running: n.Running[:0], Suspended: n.Suspended[:0], counted: n.counted, parts: n.parts[:0], Away: n.Away[:0], claimed: n.claimed[:0],
	}
	n.counted.reset(v.Counted)
	for j := range v.Stores {
		s := &v.Stores[j]
		n.Stores = append(n.Stores, Store{StoreView: s, queue: s.Queue.Seconds(), Free: s.Free})
	}
}

// account enters what task i of the view holds on n.
func (n *Node) account(i int, t *headrace.TaskView) {
	n.swapped += t.Swapped
	n.Swap -= t.PagingOut
	if t.Need > 0 {
		n.accountCounted(t)
	}
	switch {
	case t.State.Final():
	case t.Starting:
		mem := Demand(t, n.NodeView)
		n.Now.take(t.CPUs, mem)
		n.Later.take(t.CPUs, mem)
		n.of.Restoring(n, t)
	case t.State == headrace.Running:
		mem := Held(t)
		n.Now.take(t.CPUs, mem)
		if t.Leaving {
			n.Later.take(0, Residue(t))
			n.staying += Residue(t)
			n.dumps.add(n, t, Room{t.CPUs, mem})
			break
		}
		n.Later.take(t.CPUs, mem)
		if !t.Held && t.Gang == 0 {
			n.chain(i)
			n.LowestRunning = min(n.LowestRunning, t.Priority)
			n.Shares = n.Shares || ShareKnown(t)
		}
	case t.State == headrace.Suspended && t.Leaving:
		n.Now.take(0, t.Resident)
		n.Later.take(0, Residue(t))
		n.dumps.add(n, t, Room{Mem: t.Resident})
	case t.State == headrace.Suspended:
		n.Now.take(0, Stays(t)-n.onTheWay(t))
		n.Later.take(0, Stays(t)-t.PagingOut)
		n.Suspended = append(n.Suspended, &n.of.Tasks[i])
		n.Pageable += n.of.Tasks[i].Pageable()
		if !t.Held {
			n.lowestSuspended = min(n.lowestSuspended, t.Priority)
		}
	}
}

// Runs reports whether there is a task that may be preempted as far as its state goes.
func (n *Node) Runs() bool { return n.first >= 0 || len(n.parts) > 0 }

// chain adds task i to those that run on n and may be preempted as far as their
// state goes.
func (n *Node) chain(i int) {
	n.of.next[i] = -1
	if n.last < 0 {
		n.first = int32(i)
	} else {
		n.of.next[n.last] = int32(i)
	}
	n.last = int32(i)
}

// balanceSwap makes n.swap what may still be ordered out, when all tasks have been
// entered; until then it is what was ordered out and is not there yet, as a negative
// number.
func (n *Node) balanceSwap() {
	if n.SwapOut <= 0 || n.SwapIn <= 0 {
		n.Swap = 0
		return
	}
	n.Swap += n.SwapFree - int64(math.Ceil(n.of.Reserve*float64(n.SwapFree+n.swapped)))
}

// Open fills in Running, which is empty before.
func (n *Node) Open() {
	if n.opened {
		return
	}
	n.opened = true
	var met [headrace.MaxPriority + 1]bool
	meet := func(t *Task) {
		p := min(t.Priority, headrace.MaxPriority)
		t.First, met[p] = !met[p], true
		n.of.Meet(t)
		n.Running = append(n.Running, t)
	}
	for i := n.first; i >= 0; i = n.of.next[i] {
		meet(n.of.Enrol(int(i), n))
	}
	for _, t := range n.parts {
		meet(t)
	}
}

// LineUp sorts the suspended tasks of n so that those come first whose memory will
// be needed last.
func (n *Node) LineUp() {
	if !n.linedUp {
		n.linedUp = true
		slices.SortFunc(n.Suspended, lastToReturn)
	}
}

// SuspendedBelow returns the suspended tasks of n that are less urgent than p, those first whose
// memory will be needed last; none where all of them are held.
func SuspendedBelow(n *Node, p headrace.Priority) []*Task {
	if n.lowestSuspended >= p {
		return nil
	}
	n.LineUp()
	end, _ := slices.BinarySearchFunc(n.Suspended, p, func(t *Task, p headrace.Priority) int { return cmp.Compare(t.Priority, p) })
	return n.Suspended[:end]
}

// Lowest returns the least priority among running and suspended tasks that are not held; above
// MaxPriority when there are none.
func Lowest(n *Node) headrace.Priority { return min(n.LowestRunning, n.lowestSuspended) }

// onTheWay says how much of the memory of the suspended task t counts as free for a
// start though it is still on its way to swap: all of it, once no more than the
// share overlap of what goes is still to go.
func (n *Node) onTheWay(t *headrace.TaskView) int64 {
	if float64(t.PagingOut) <= n.of.Overlap*float64(t.PagingOut+t.Swapped) {
		return t.PagingOut
	}
	return 0
}

// own says what the suspended task u already holds on its node, as it is counted
// in now and in later. Other waiting tasks hold nothing.
func (n *Node) own(u *Task) (now, later int64) {
	if u.State != headrace.Suspended {
		return 0, 0
	}
	return Stays(u.TaskView) - n.onTheWay(u.TaskView), Stays(u.TaskView) - u.Paging
}

// Possible reports whether u could be on n if n were empty.
func (n *Node) Possible(u *Task) bool {
	return u.CPUs <= n.CPUs+Slack && Demand(u.TaskView, n.NodeView) <= max(0, n.Memory) && holds(n.NodeView.Counted, u.Counted)
}

// Fits reports whether u can be started on n at once.
func (n *Node) Fits(u *Task) bool {
	if need := n.lacks(u); need != nil && !(holds(n.counted.now, need) && holds(n.counted.later, need)) {
		return false
	}
	own, later := n.own(u)
	if n != u.Home {
		own, later = 0, 0
	}
	mem := Demand(u.TaskView, n.NodeView)
	if mem <= 0 {
		return n.Now.Holds(u.CPUs, 0) && n.Later.Holds(u.CPUs, 0)
	}
	return n.Now.Holds(u.CPUs, mem-own) && n.Later.Holds(u.CPUs, mem-later)
}

// FitsLater reports whether u can be started on n once those that are leaving are gone.
func (n *Node) FitsLater(u *Task) bool {
	if need := n.lacks(u); need != nil && !holds(n.counted.later, need) {
		return false
	}
	mem := Demand(u.TaskView, n.NodeView)
	if mem <= 0 {
		return n.Later.Holds(u.CPUs, 0)
	}
	_, own := n.own(u)
	return n.Later.Holds(u.CPUs, mem-own)
}

// MayFit reports whether u will fit on n once all that runs there or is about to has ended,
// beside what is claimed there for others of its gang. If not, suspended tasks hold what is
// missing and have to run first: to keep room from them would have both wait for ever. With after
// those that wait are taken to have done so.
func (n *Node) MayFit(u *Task, after bool) bool {
	free, pageable := Room{n.CPUs + n.claims.CPUs, n.Memory + n.claims.Mem - n.staying}, int64(0)
	var counted []float64
	if u.Counted != nil {
		counted = slices.Clone(n.NodeView.Counted)
		for _, t := range n.claimed {
			subtract(counted, t.Counted)
		}
	}
	for _, t := range n.Suspended {
		if t.Settled || t == u || t.Whole != nil && t.Whole == u.Whole || after && Waiting(t.TaskView) {
			continue
		}
		free.Mem -= Stays(t.TaskView) - t.Paging
		pageable += t.Pageable()
		subtract(counted, t.Counted)
	}
	free.Mem += max(0, min(n.Swap, pageable))
	mem := Demand(u.TaskView, n.NodeView)
	if _, own := n.own(u); mem <= own {
		mem = 0 // it needs no more than it holds
	}
	return free.Holds(u.CPUs, mem) && holds(counted, u.Counted)
}

// stays is how much longer than who waits a task has run, or is expected to run, that is not waited for.
const stays = time.Hour

// Outlasts reports whether t, which runs, was there long before u, which waits, so that it is expected
// to stay for as long again. That changes for t once at most, however long u waits.
func Outlasts(t, u *headrace.TaskView) bool {
	if t.Leaving || t.Starting || t.State != headrace.Running {
		return false
	}
	if ShareKnown(t) {
		return t.Progress.TotalWall.Seconds()*(1-t.Progress.Share)/t.Progress.Share > stays.Seconds()
	}
	return max(t.Progress.TotalWall, t.Running)-Since(u) > stays
}

// MayFitBeside reports whether u, which MayFit, will do so on n also if nobody ends who Outlasts it.
func (n *Node) MayFitBeside(u *Task) bool {
	free := Room{n.CPUs + n.claims.CPUs, n.Memory + n.claims.Mem}
	counted := n.NodeView.Counted
	if u.Counted != nil {
		counted = slices.Clone(counted)
	}
	remain := func(t *headrace.TaskView, need []float64) {
		if Outlasts(t, u.TaskView) {
			free.take(t.CPUs, Held(t))
			if u.Counted != nil {
				subtract(counted, need)
			}
		}
	}
	for i := n.first; i >= 0; i = n.of.next[i] {
		t := &n.of.view.Tasks[i]
		remain(t, n.of.needOf(t))
	}
	for _, t := range n.parts {
		remain(t.TaskView, t.Counted)
	}
	return free.Holds(u.CPUs, Demand(u.TaskView, n.NodeView)) && holds(counted, u.Counted)
}

// TakesBack reports whether u, which is suspended on n, is brought back though it does not fit:
// nothing else runs there, is about to or is leaving, and what u asked for fits, as at its start.
// What it has beyond that was there before, in memory or in swap; else each of two that
// have grown would wait for ever for the memory that the other one has.
func (n *Node) TakesBack(u *Task) bool {
	now, later := n.own(u)
	return n.Now == n.Later && n.Now.CPUs >= n.CPUs-Slack && n.Now.Holds(u.CPUs, u.MemoryRequest-now) && n.Later.Holds(u.CPUs, u.MemoryRequest-later)
}

// Missing says how much is missing on n for u, as a share of what u needs.
func (n *Node) Missing(u *Task) float64 {
	b := n.Balance(u)
	var m float64
	if u.CPUs > 0 {
		m += max(0, b.CPUs) / u.CPUs
	}
	if mem := Demand(u.TaskView, n.NodeView); mem > 0 {
		m += float64(b.Short(n.Swap)) / float64(mem)
	}
	if b.Rest != nil {
		for r, c := range b.Rest.Counted {
			if c > Slack {
				m += c / u.Counted[r]
			}
		}
	}
	return m
}

// Reserve gives u its room on n.
func (n *Node) Reserve(u *Task) {
	n.save()
	mem := Demand(u.TaskView, n.NodeView)
	now, later := n.own(u)
	n.Now.take(u.CPUs, mem-now)
	n.Later.take(u.CPUs, mem-later)
	n.takeCounted(n.lacks(u))
	n.settle(u)
}

// takeCounted gives need away, now and later.
func (n *Node) takeCounted(need []float64) {
	subtract(n.counted.now, need)
	subtract(n.counted.later, need)
}

// Expect gives t, which is on its way from another node, its room on n.
func (n *Node) Expect(t *headrace.TaskView) {
	n.save()
	mem := Demand(t, n.NodeView)
	n.Now.take(t.CPUs, mem)
	n.Later.take(t.CPUs, mem)
	n.takeCounted(n.of.needOf(t))
}

// Release takes back what Expect gave t, or Reserve if t was not begun.
func Release(n *Node, t *headrace.TaskView) {
	n.save()
	mem := Demand(t, n.NodeView)
	n.Now.take(-t.CPUs, -mem)
	n.Later.take(-t.CPUs, -mem)
	for r, need := range n.of.needOf(t) {
		n.counted.now[r] += need
		n.counted.later[r] += need
	}
}

// Keep sets aside for u what is free on n, as far as u needs it.
func (n *Node) Keep(u *Task) {
	n.save()
	mem := Demand(u.TaskView, n.NodeView)
	now, later := n.own(u)
	n.Now.take(clamp(u.CPUs, n.Now.CPUs), clamp(mem-now, n.Now.Mem))
	n.Later.take(clamp(u.CPUs, n.Later.CPUs), clamp(mem-later, n.Later.Mem))
	if need := n.lacks(u); need != nil {
		subtract(n.counted.now, clampedNeed(n.counted.now, need))
		subtract(n.counted.later, clampedNeed(n.counted.later, need))
	}
	n.settle(u)
	n.Kept = u
}

// clamp says what of a need can be met from what is free.
func clamp[T int64 | float64](need, free T) T { return max(0, min(need, free)) }

// settle takes note that this decision has dealt with u, which waited.
func (n *Node) settle(u *Task) {
	if u.State == headrace.Suspended {
		n.Pageable -= u.Pageable()
	}
	u.Settled = true
}

// Credit enters what a frees on n.
func (n *Node) Credit(a Act) {
	n.save()
	t := a.Task
	after := Balance{}.With(a)
	n.Later.take(after.CPUs, after.Mem)
	if t.Counted != nil && a.By != headrace.Suspend {
		for r := range n.counted.later {
			n.counted.later[r] += t.Counted[r]
		}
	}
	if t.State == headrace.Suspended {
		n.Pageable -= t.Pageable()
	}
	t.Settled = true
	for _, m := range t.Members {
		m.Settled = true
	}
	if a.By == headrace.Suspend {
		n.staying += Stays(t.TaskView)
	}
	if a.By == headrace.Checkpoint {
		s := &n.Stores[a.Store]
		s.add(Dump(t.TaskView, s.StoreView))
		s.Free -= DumpBytes(t.TaskView, s.StoreView)
	}
}

// PageOut enters that o goes to swap.
func (n *Node) PageOut(o Out) {
	n.save()
	n.Swap -= o.Bytes
	n.Later.Mem += o.Bytes
	o.Task.Paging += o.Bytes
	if o.Task.State == headrace.Suspended {
		n.Pageable -= o.Bytes
	} else {
		n.staying -= o.Bytes
	}
}

// Free is what is free on a node.
type Free struct {
	now, later Room
	counted    counted
}

// Free returns what is free on n as it is.
func (n *Node) Free() Free { return Free{n.Now, n.Later, n.counted.clone()} }

// AwaitRest settles t, of a gang of which another part is waited for: nobody else takes it.
func (n *Node) AwaitRest(t *Task) {
	n.save()
	t.Settled = true
}

// Forgo gives up what is free beyond what was before: nobody counts on it.
func (n *Node) Forgo(before Free) {
	now, later := before.now, before.later
	more := Room{min(0, n.Later.CPUs-later.CPUs), min(0, n.Later.Mem-later.Mem)}
	n.Now = Room{now.CPUs + more.CPUs, now.Mem + more.Mem}
	n.Later = Room{later.CPUs + more.CPUs, later.Mem + more.Mem}
	for r, was := range before.counted.later {
		less := min(0, n.counted.later[r]-was)
		n.counted.now[r], n.counted.later[r] = before.counted.now[r]+less, was+less
	}
}

// Reads returns how many seconds it takes to read so much from the disks of n: at the least
// bandwidth of any node where that of n is not known, and none where it is of no node.
func (n *Node) Reads(bytes int64) float64 {
	disk := n.Disk
	if !(disk > 0) {
		disk = n.of.leastDisk
	}
	if disk == 0 {
		return 0
	}
	return float64(bytes) / disk
}
