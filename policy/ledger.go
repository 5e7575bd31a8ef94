package policy

import (
	"math"

	"headrace"
)

// load takes in a view: it enters what all tasks hold in the accounts of their
// nodes and lists those that wait. Of those that run it only keeps where they are:
// most nodes need not be looked at more closely (open).
func (d *decision) load(v *headrace.View) {
	d.view = v
	d.orders, d.notes, d.attempts, d.keeping = d.orders[:0], d.notes[:0], 0, false
	d.failed.forget()
	d.classes.forget()
	d.loadNodes(v.Nodes)
	if cap(d.tasks) < len(v.Tasks) {
		d.tasks = make([]task, len(v.Tasks)*5/4)
		d.next = make([]int32, len(v.Tasks)*5/4)
	}
	d.tasks = d.tasks[:len(v.Tasks)]
	d.waiting = d.waiting[:0]
	for i := range v.Tasks {
		t := &v.Tasks[i]
		var n *node
		if t.Node != "" {
			n = d.nodeOf(t.Node)
		}
		queued := waiting(t)
		if queued || t.State == headrace.Suspended {
			d.enrol(i, n)
		}
		if queued {
			d.waiting = append(d.waiting, &d.tasks[i])
		}
		if n != nil {
			d.account(n, i, t)
		}
	}
	d.free.reset(len(d.nodes))
	d.coming.reset(len(d.nodes))
	for i := range d.nodes {
		n := &d.nodes[i]
		n.swap = d.usableSwap(n)
		d.free.leaf(i, least(n.now, n.later))
		d.coming.leaf(i, n.later)
	}
	d.free.build()
	d.coming.build()
}

// enrol makes task i of the view one that this decision can do something with.
func (d *decision) enrol(i int, n *node) *task {
	t := &d.tasks[i]
	*t = task{TaskView: &d.view.Tasks[i], i: i, n: n, paging: d.view.Tasks[i].PagingOut}
	return t
}

// loadNodes empties the accounts of all nodes.
func (d *decision) loadNodes(views []headrace.NodeView) {
	if d.byID == nil || !d.sameNodes(views) {
		d.nodes = make([]node, len(views))
		d.every = make([]*node, len(views))
		d.versions = make([]uint32, len(views))
		d.byID = make(map[headrace.NodeID]*node, len(views))
		size := 64
		for size < 4*len(views) {
			size *= 2
		}
		d.recent = make([]*node, size)
		for i := range views {
			n := &d.nodes[i]
			n.i, n.id = i, views[i].ID
			d.every[i] = n
			d.byID[n.id] = n
		}
	}
	d.leastMemory = math.MaxInt64
	for i := range d.nodes {
		n := &d.nodes[i]
		n.reset(&views[i])
		d.versions[i]++
		d.leastMemory = min(d.leastMemory, n.Memory)
	}
}

func (d *decision) sameNodes(views []headrace.NodeView) bool {
	if len(views) != len(d.nodes) {
		return false
	}
	for i := range views {
		if views[i].ID != d.nodes[i].id {
			return false
		}
	}
	return true
}

// reset empties the accounts and keeps the memory of the lists.
func (n *node) reset(v *headrace.NodeView) {
	*n = node{
		NodeView: v, i: n.i, id: n.id, lowest: headrace.MaxPriority + 1, first: -1, last: -1,
		now: room{v.CPUs, v.Memory}, later: room{v.CPUs, v.Memory},
		stores: n.stores[:0], running: n.running[:0], suspended: n.suspended[:0], prices: n.prices[:0],
	}
	for j := range v.Stores {
		s := &v.Stores[j]
		n.stores = append(n.stores, store{s, s.Queue.Seconds(), s.Free, s.Free})
	}
}

// nodeOf is the node of that name, or nil. A table of those that were asked for
// last saves most of the look-ups; names of nodes tend to differ in their last
// letters.
func (d *decision) nodeOf(id headrace.NodeID) *node {
	h := uint(len(id))
	for i := max(0, len(id)-4); i < len(id); i++ {
		h = h*10 + uint(id[i])
	}
	recent := &d.recent[h&uint(len(d.recent)-1)]
	if *recent != nil && (*recent).id == id {
		return *recent
	}
	n := d.byID[id]
	if n != nil {
		*recent = n
	}
	return n
}

// account enters what task i of the view holds on n.
func (d *decision) account(n *node, i int, t *headrace.TaskView) {
	n.swapped += t.Swapped
	n.swap -= t.PagingOut
	switch {
	case t.State.Final():
	case t.Starting:
		mem := demand(t, n.NodeView)
		n.now.take(t.CPUs, mem)
		n.later.take(t.CPUs, mem)
	case t.State == headrace.Running:
		mem := held(t)
		n.now.take(t.CPUs, mem)
		if t.Leaving {
			n.later.take(0, residue(t))
			break
		}
		n.later.take(t.CPUs, mem)
		if !t.Held {
			d.chain(n, i)
			n.lowest = min(n.lowest, t.Priority)
		}
	case t.State == headrace.Suspended && t.Leaving:
		n.now.take(0, t.Resident)
		n.later.take(0, residue(t))
	case t.State == headrace.Suspended:
		n.now.take(0, t.Resident-d.onTheWay(t))
		n.later.take(0, t.Resident-t.PagingOut)
		n.suspended = append(n.suspended, &d.tasks[i])
		n.pageable += d.tasks[i].pageable()
		if !t.Held {
			n.lowest = min(n.lowest, t.Priority)
		}
	}
}

// chain adds task i to those that run on n and may be preempted as far as their
// state goes.
func (d *decision) chain(n *node, i int) {
	d.next[i] = -1
	if n.last < 0 {
		n.first = int32(i)
	} else {
		d.next[n.last] = int32(i)
	}
	n.last = int32(i)
}

// residue is the memory that a leaving task will still hold.
func residue(t *headrace.TaskView) int64 {
	if t.LeavingBy == headrace.Suspend {
		return t.Resident - t.PagingOut
	}
	return 0
}

// usableSwap is what of n's swap may still be ordered out, n.swap being what was
// and is not there yet, as a negative number.
func (d *decision) usableSwap(n *node) int64 {
	if n.SwapOut <= 0 || n.SwapIn <= 0 {
		return 0
	}
	reserve := int64(math.Ceil(d.c.reserve * float64(n.SwapFree+n.swapped)))
	return n.swap + n.SwapFree - reserve
}

// touch must follow every change to the accounts of n, or to what may be done to
// its tasks: what is known about n for others is then known to be old.
func (d *decision) touch(n *node) {
	d.versions[n.i]++
	d.free.set(n.i, least(n.now, n.later))
	d.coming.set(n.i, n.later)
}
