package capacity

import (
	"cmp"
	"slices"
	"time"

	"headrace"
	"headrace/policy"
)

// The plug-in's patience (headrace.yarn.rm.Pace).
const (
	paceParked    = 2 * time.Second
	paceSoon      = time.Minute
	paceDoublings = 2
	paceAsk       = 5 * time.Second
	paceRetry     = time.Second
	paceContested = 30 * time.Second
)

// aside is what the plug-in knows of a container that was put aside.
type aside struct {
	is bool
	// since is when it was put aside; nothing is tried before notBefore.
	since, notBefore time.Duration
	// asked: the scheduler is asked for its room, since askedAt, and may keep the node
	// for it if reserve is set; dueAt is when that was last right although it was not
	// served.
	asked, reserve bool
	askedAt, dueAt time.Duration
	// contested: others have been left the room for it, since contestedAt.
	contested   bool
	contestedAt time.Duration
	// rounds is how often it was put aside soon after it had gone on, which it last did
	// at resumed if again is set.
	rounds  int
	again   bool
	resumed time.Duration
	// considered is when it was last considered that it goes on elsewhere. archiving: its
	// checkpoint is on its way to where all nodes find it, and is there at archived;
	// released: it is, and the container goes on wherever there is room.
	considered, archived time.Duration
	archiving, released  bool
}

// enterParked takes down a container that is put aside.
func (s *Scheduler) enterParked(t *task, now time.Duration) {
	a := &t.aside
	if !a.is {
		rounds := 0
		if a.again && now-a.resumed < paceSoon {
			rounds = min(a.rounds+1, paceDoublings)
		}
		*a = aside{is: true, since: now, notBefore: now + paceParked<<rounds, rounds: rounds}
	}
	if a.archiving && now >= a.archived {
		s.unkeep(t)
		a.archiving, a.asked, a.released = false, false, true
	}
	if a.asked {
		t.queue.asked.add(t.size)
		t.node.asked.add(t.size)
		if a.reserve {
			t.node.keepers++
		}
	}
	if a.asked || a.released {
		s.wait(t)
		return
	}
	s.parked = append(s.parked, t)
}

// tire takes asks back that were in vain.
func (s *Scheduler) tire(now time.Duration) {
	for _, q := range s.queues {
		for _, t := range q.line {
			a := &t.aside
			switch {
			case !a.asked:
			case s.stillDue(t):
				a.dueAt = now
			case now-a.dueAt > paceAsk:
				s.withdraw(t, now)
			}
		}
	}
}

// goOn asks for the room of those who were put aside.
func (s *Scheduler) goOn(now time.Duration) {
	s.parked = slices.DeleteFunc(s.parked, func(t *task) bool { return now < t.aside.notBefore || t.leaves || t.v.Held })
	slices.SortStableFunc(s.parked, func(a, b *task) int {
		return cmp.Or(cmp.Compare(b.v.Priority, a.v.Priority), cmp.Compare(a.aside.askedAt, b.aside.askedAt), cmp.Compare(a.aside.since, b.aside.since))
	})
	for _, t := range s.parked {
		s.consider(t, now)
	}
}

// room is what there is for a container that was put aside (headrace.yarn.rm.Room).
type room struct{ fits, share, contested, overtaken bool }

func (s *Scheduler) room(t *task) room {
	n, q := t.node, t.queue
	free, after, keepers := n.free, q.used, n.keepers
	free.sub(n.asked)
	after.add(q.asked)
	if t.aside.asked {
		free.add(t.size)
		if t.aside.reserve {
			keepers--
		}
	} else {
		after.add(t.size)
	}
	r := room{fits: n.kept == nil && t.size.fits(free), share: keepers == 0 && after.fits(q.guaranteed)}
	r.contested = q.top > int(t.v.Priority) || !r.share && s.underserved(q)
	r.overtaken = slices.Max(q.last[:t.v.Priority+1]) > t.job
	return r
}

// underserved reports whether another queue has less than it is guaranteed, and
// somebody waits in it.
func (s *Scheduler) underserved(but *queue) bool {
	return slices.ContainsFunc(s.queues, func(q *queue) bool {
		return q != but && q.waiting > 0 && q.used.of(s.all) < q.guaranteed.of(s.all)-slack
	})
}

// stillDue reports whether an ask stays although it was not served in time.
func (s *Scheduler) stillDue(t *task) bool {
	r := s.room(t)
	if t.aside.reserve {
		return r.share
	}
	return r.overtaken && !r.fits
}

// consider asks for the room of t when it is its turn.
func (s *Scheduler) consider(t *task, now time.Duration) {
	r, a := s.room(t), &t.aside
	if !r.fits && !r.share {
		a.contested = false
		if !s.moveOn(t, now) && r.overtaken { // the scheduler gives room to whoever has asked: stand in line
			s.ask(t, false, now)
		}
		return
	}
	if r.contested && !a.contested {
		a.contested, a.contestedAt = true, now
	}
	if !r.contested || now-a.contestedAt > paceContested {
		s.ask(t, !r.fits, now)
	}
}

// ask asks the scheduler for the room of t, on its node.
func (s *Scheduler) ask(t *task, reserve bool, now time.Duration) {
	a := &t.aside
	a.asked, a.reserve, a.askedAt, a.dueAt, a.contested = true, reserve, now, now, false
	t.queue.asked.add(t.size)
	t.node.asked.add(t.size)
	if reserve {
		t.node.keepers++
	}
	s.wait(t)
}

// withdraw takes back what ask asked for.
func (s *Scheduler) withdraw(t *task, now time.Duration) {
	s.unkeep(t)
	t.queue.pending.sub(t.size)
	t.queue.asked.sub(t.size)
	t.node.asked.sub(t.size)
	if t.aside.reserve {
		t.node.keepers--
	}
	t.waits, t.aside.asked, t.aside.notBefore = false, false, now+paceRetry
}

// moveOn has t go on elsewhere if that is sooner and some other node has room: what is
// only suspended is dumped first, then its checkpoint goes to where all nodes find it. It
// reports whether something was ordered.
func (s *Scheduler) moveOn(t *task, now time.Duration) bool {
	a := &t.aside
	if s.c.Elsewhere == 0 || now-a.since < s.c.Elsewhere || a.archiving || t.paging > 0 || a.considered > 0 && now < a.considered+2*paceRetry ||
		!slices.ContainsFunc(s.nodes, func(n *node) bool { return n != t.node && n.kept == nil && t.size.fits(n.free) }) {
		return false
	}
	a.considered = now
	n := picture(t.node, now).Node
	// It is expected to wait on for as long as it has waited: nothing else is known.
	ways, ok := policy.MoveOn(t.asContainer(), n, now-a.since)
	if !ok || ways.Elsewhere >= ways.Here {
		return false
	}
	if t.v.State == headrace.Suspended {
		t.leaves = true
		s.orders = append(s.orders, headrace.Order{Verb: headrace.OrderPreempt, Task: t.v.ID, Node: t.node.v.ID, Mechanism: headrace.Checkpoint,
			Store: n.Stores[0].Name, Reason: "to go on elsewhere"})
		return true
	}
	a.archiving = true
	a.archived = now + time.Duration(float64(t.v.Checkpoint.Bytes)/n.Net*float64(time.Second))
	return false
}
