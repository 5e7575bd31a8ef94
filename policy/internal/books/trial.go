package books

// trial is what nodes were before something was tried that is undone when not all of it is
// possible, as the start of a gang.
type trial struct {
	on    bool
	saved []saved
}

// saved is a node as it was, and what of the decision its tasks were part of.
type saved struct {
	n              *Node
	free           Free
	swap, pageable int64
	staying        int64
	kept           *Task
	stores         []Store
	opened         bool
	tasks          []savedTask
}

type savedTask struct {
	t       *Task
	settled bool
	order   int
	paging  int64
}

// Try remembers from now on what nodes were.
func (l *Ledger) Try() { l.trial.on = true }

// Commit makes what was tried last.
func (l *Ledger) Commit() {
	for i := range l.trial.saved {
		l.trial.saved[i].n.saved = false
	}
	clear(l.trial.saved)
	l.trial = trial{saved: l.trial.saved[:0]}
}

// Undo makes all nodes what they were, and calls changed for each that was not. Those that
// waited are to be looked after by the caller.
func (l *Ledger) Undo(changed func(*Node)) {
	for i := range l.trial.saved {
		s := &l.trial.saved[i]
		s.undo()
		changed(s.n)
	}
	l.Commit()
}

// save remembers n, if something is tried.
func (n *Node) save() {
	if !n.of.trial.on || n.saved {
		return
	}
	n.saved = true
	s := saved{n: n, free: n.Free(), swap: n.Swap, pageable: n.Pageable, staying: n.staying, kept: n.Kept, opened: n.opened}
	s.stores = append(s.stores, n.Stores...)
	for _, tasks := range [][]*Task{n.Suspended, n.Running, n.parts, n.Away} {
		for _, t := range tasks {
			s.tasks = append(s.tasks, savedTask{t, t.Settled, t.Order, t.Paging})
		}
	}
	n.of.trial.saved = append(n.of.trial.saved, s)
}

func (s *saved) undo() {
	n := s.n
	n.Now, n.Later = s.free.now, s.free.later
	copy(n.counted.now, s.free.counted.now)
	copy(n.counted.later, s.free.counted.later)
	n.Swap, n.Pageable, n.staying, n.Kept = s.swap, s.pageable, s.staying, s.kept
	n.claims, n.claimed = Room{}, n.claimed[:0]
	copy(n.Stores, s.stores)
	if !s.opened {
		for _, t := range n.Running { // opened meanwhile
			t.Settled, t.Order, t.Paging = false, 0, t.PagingOut
		}
	}
	for _, k := range s.tasks {
		k.t.Settled, k.t.Order, k.t.Paging = k.settled, k.order, k.paging
	}
}

// Claim sets aside for u, of a gang, what it needs on n, also what is not free yet:
// CommitClaims makes that what is free.
func (n *Node) Claim(u *Task) {
	n.Reserve(u)
	n.Kept = u
	n.claims.take(u.CPUs, Demand(u.TaskView, n.NodeView))
	if u.Counted != nil {
		n.claimed = append(n.claimed, u)
	}
}

// CommitClaims ends a trial of claims: nobody else is short of more than what is free.
func (l *Ledger) CommitClaims(changed func(*Node)) {
	for i := range l.trial.saved {
		s := &l.trial.saved[i]
		n, was := s.n, &s.free
		n.Now, n.Later = claimed(n.Now, was.now), claimed(n.Later, was.later)
		for r := range n.counted.later {
			n.counted.now[r] = max(n.counted.now[r], min(was.counted.now[r], 0))
			n.counted.later[r] = max(n.counted.later[r], min(was.counted.later[r], 0))
		}
		changed(n)
	}
	l.Commit()
}

// claimed returns what is free after claims, of what was.
func claimed(now, was Room) Room {
	return Room{max(now.CPUs, min(was.CPUs, 0)), max(now.Mem, min(was.Mem, 0))}
}
