package capacity

import (
	"cmp"
	"slices"

	"headrace"
)

// serve gives away what is free on n, at its heartbeat.
func (s *Scheduler) serve(n *node) {
	if t := n.kept; t != nil {
		switch {
		case !t.size.fits(n.free):
			return
		case !s.starts(t, n):
			s.unkeep(t)
		}
	}
	for n.kept == nil && s.give(n) {
	}
}

// give has one task begin or go on on n, or keeps n for one. When the memory is missing
// for the one whose turn it is, those who are suspended on n, and hold it, run first.
func (s *Scheduler) give(n *node) bool {
	short := false
	if n.free.cpus <= slack || n.free.memory <= 0 {
		return false
	}
	for _, q := range s.inTurn() {
		line := q.inOrder()
		if !q.least.fits(n.free) && !q.least.fits(s.free) {
			continue
		}
		for _, t := range line {
			switch {
			case !t.waits || t.aside.asked && t.node != n || short && !t.aside.asked || !q.may(t):
			case s.starts(t, n):
				return true
			case t.size.fits(n.free):
				short = true
			case s.keeps(t, n):
				return false
			}
		}
	}
	return false
}

// inTurn returns the queues in the order in which they are offered room: those that are guaranteed
// something before those that are not (PriorityUtilizationQueueOrderingPolicy).
func (s *Scheduler) inTurn() []*queue {
	slices.SortFunc(s.queues, func(a, b *queue) int {
		if (a.Capacity > 0) != (b.Capacity > 0) {
			return cmp.Compare(b.Capacity, a.Capacity)
		}
		return cmp.Or(turn(a, b, a.used.of(s.all), b.used.of(s.all)), cmp.Compare(b.Capacity, a.Capacity), cmp.Compare(a.Name, b.Name))
	})
	return s.queues
}

// turn compares two queues that have such shares of the cluster: by how much that is of what they are guaranteed or,
// where that is nothing, of the cluster.
func turn(a, b *queue, hasA, hasB float64) int {
	ofA, ofB := 100*hasA/cmp.Or(a.Capacity, 100), 100*hasB/cmp.Or(b.Capacity, 100)
	if a.Priority != b.Priority && (ofA < 1) == (ofB < 1) {
		return cmp.Compare(b.Priority, a.Priority)
	}
	return cmp.Compare(ofA, ofB)
}

// may reports whether the maximum of the queue allows t.
func (q *queue) may(t *task) bool {
	after := q.used
	if t.kept == nil {
		after.add(t.size)
	}
	return after.fits(q.most)
}

// keeps has n kept for t, if n is large enough and all nodes together have the room.
func (s *Scheduler) keeps(t *task, n *node) bool {
	if t.kept != nil || t.aside.asked && !t.aside.reserve || t.size.fits(n.free) || !t.size.fits(n.all) || !t.size.fits(s.free) {
		return false
	}
	n.kept, t.kept = t, n
	t.queue.used.add(t.size)
	t.queue.pending.sub(t.size)
	s.free.sub(t.size)
	return true
}

// unkeep ends that a node is kept for t.
func (s *Scheduler) unkeep(t *task) {
	if t.kept == nil {
		return
	}
	t.kept.kept, t.kept = nil, nil
	t.queue.used.sub(t.size)
	t.queue.pending.add(t.size)
	s.free.add(t.size)
}

// starts has t begin or go on on n if there is room.
func (s *Scheduler) starts(t *task, n *node) bool {
	if !t.size.fits(n.free) || !s.pageOut(t, n) {
		return false
	}
	s.unkeep(t)
	o := headrace.Order{Verb: headrace.OrderStart, Task: t.v.ID, Node: n.v.ID, Reason: "its queue has room"}
	switch t.v.State {
	case headrace.Suspended:
		o.Verb = headrace.OrderResume
	case headrace.Checkpointed:
		o.Verb = headrace.OrderRestore
	}
	s.orders = append(s.orders, o)
	q := t.queue
	q.pending.sub(t.size)
	if t.aside.asked {
		q.asked.sub(t.size)
		n.asked.sub(t.size)
	} else { // a new container
		q.waiting--
		s.containers++
		t.container, t.before = s.containers, t.v.Preemptions
		n.claims.Come(t.size.memory)
	}
	t.waits, t.began, t.marked, t.killing = false, true, never, never
	t.aside.asked, t.aside.released = false, false
	q.used.add(t.size)
	n.free.sub(t.size)
	s.free.sub(t.size)
	q.running = append(q.running, t)
	if t.node == n {
		n.memory += t.resident()
	} else {
		t.node, n.here = n, append(n.here, t)
	}
	n.memory -= t.size.memory
	return true
}

// pageOut has memory of those who are suspended on n written to swap, as much as t
// needs: the last submitted first. It reports false where that is not enough.
func (s *Scheduler) pageOut(t *task, n *node) bool {
	missing := t.size.memory - n.memory
	if t.node == n {
		missing -= t.resident()
	}
	if missing <= 0 {
		return true
	}
	there := int64(0)
	others := slices.DeleteFunc(slices.Clone(n.here), func(o *task) bool {
		return o == t || o.began || o.v.State != headrace.Suspended || !o.parked() || o.leaves || o.resident() <= 0
	})
	for _, o := range others {
		there += o.resident()
	}
	if missing > min(there, n.swap) {
		return false
	}
	for i := len(others) - 1; i >= 0 && missing > 0; i-- {
		o := others[i]
		some := min(missing, o.resident())
		s.orders = append(s.orders, headrace.Order{Verb: headrace.OrderPageOut, Task: o.v.ID, Node: n.v.ID, PageOut: some, For: t.v.ID, Reason: "the kernel needs its memory"})
		o.paging += some
		missing -= some
		n.memory += some
		n.swap -= some
	}
	return true
}
