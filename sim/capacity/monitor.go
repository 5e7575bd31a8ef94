package capacity

import (
	"cmp"
	"math"
	"slices"
	"time"

	"headrace"
	"headrace/policy"
)

// preempt looks who has to give way (ProportionalCapacityPreemptionPolicy).
func (s *Scheduler) preempt(now time.Duration) {
	clear(s.scenes)
	allowed := s.all.times(s.c.PerRound)
	chosen := map[*task]bool{}
	excess := s.excess()
	for i, q := range s.queues {
		if excess[i] <= 0 {
			continue
		}
		for _, t := range slices.Backward(q.inOrder()) { // what is kept for somebody is given back before
			if t.kept != nil && excess[i] > slack {
				s.unkeep(t)
				excess[i] -= t.size.of(s.all)
			}
		}
		for _, t := range q.victims() {
			if excess[i] <= slack {
				break
			}
			if !t.size.fits(allowed) {
				continue
			}
			chosen[t] = true
			excess[i] -= t.size.of(s.all)
			allowed.sub(t.size)
			s.choose(t, now)
		}
	}
	if s.c.IntraQueue {
		for _, q := range s.queues {
			s.preemptWithin(q, chosen, &allowed, now)
		}
	}
	s.looked = now
}

// victims returns those who hold room in the order in which they give way: the last
// applications of the lowest priority first, of each the newest containers.
func (q *queue) victims() []*task {
	slices.SortFunc(q.running, func(a, b *task) int {
		return cmp.Or(cmp.Compare(a.v.Priority, b.v.Priority), cmp.Compare(b.job, a.job), cmp.Compare(b.container, a.container))
	})
	return q.running
}

// excess returns what each queue has to give back now, as a share of the cluster.
func (s *Scheduler) excess() []float64 {
	ideal, out, sum := s.ideal(), make([]float64, len(s.queues)), 0.0
	for i, q := range s.queues {
		sum += max(0, q.used.of(s.all)-ideal[i])
	}
	scale := min(1, s.c.PerRound/sum)
	for i, q := range s.queues {
		used, guaranteed := q.used.of(s.all), q.Capacity/100
		keep := max(ideal[i], min(used+q.pending.of(s.all), guaranteed))
		if used > keep+slack && used > guaranteed*(1+s.c.Ignored) {
			out[i] = (used - keep) * scale * s.c.NaturalTermination
		}
	}
	return out
}

// ideal returns what each queue ought to have, as a share of the cluster: what it has up
// to its guarantee, and of the rest what it asks for. Those that are guaranteed nothing get what
// the others leave.
func (s *Scheduler) ideal() []float64 {
	out := make([]float64, len(s.queues))
	rest := s.deal(out, 1, true)
	s.deal(out, rest, false)
	return out
}

// deal sets out for the queues that are guaranteed something, or for the others, and returns what it leaves of rest.
// That is offered to those that have the least of what they are guaranteed, in proportion to that, until nobody
// wants more; without a guarantee to those of the highest priority, in equal parts
// (AbstractPreemptableResourceCalculator).
func (s *Scheduler) deal(out []float64, rest float64, guaranteed bool) float64 {
	wants := func(i int) float64 {
		q := s.queues[i]
		used := q.used.of(s.all)
		return min(q.Maximum/100, used+q.pending.of(s.all), max(used, q.Capacity/100)) - out[i]
	}
	part := func(i int) float64 { return cmp.Or(s.queues[i].Capacity, 1) }
	before := func(i, j int) int {
		if guaranteed {
			return turn(s.queues[i], s.queues[j], out[i], out[j])
		}
		return cmp.Compare(s.queues[j].Priority, s.queues[i].Priority)
	}
	var needy []int
	for i, q := range s.queues {
		if (q.Capacity > 0) != guaranteed {
			continue
		}
		out[i] = min(q.used.of(s.all), q.Capacity/100)
		rest -= out[i]
		if wants(i) > slack {
			needy = append(needy, i)
		}
	}
	for len(needy) > 0 && rest > slack {
		first, all, given := slices.MinFunc(needy, before), 0.0, 0.0
		for _, i := range needy {
			all += part(i)
		}
		for _, i := range slices.Clone(needy) {
			if i != first && before(first, i) != 0 {
				continue
			}
			some := min(wants(i), rest*part(i)/all)
			out[i] += some
			given += some
		}
		rest -= given
		needy = slices.DeleteFunc(needy, func(i int) bool { return wants(i) <= slack })
	}
	return rest
}

// YARN's intra-queue-preemption.minimum-threshold and max-allowable-limit.
const (
	withinFrom = 0.5
	withinMost = 0.2
)

// preemptWithin has applications of q make room for others of higher priority in it
// (FifoIntraQueuePreemptionPlugin): what the queue has is dealt out anew in its order, and
// who has more than that gives back as much as those before it miss.
func (s *Scheduler) preemptWithin(q *queue, chosen map[*task]bool, allowed *amount, now time.Duration) {
	used, most := q.used.of(s.all), min(allowed.of(s.all), withinMost*q.Capacity/100)
	if q.waiting == 0 || used < withinFrom*q.Capacity/100 {
		return
	}
	// missing is what applications of each priority miss of what they ought to have.
	var missing, has, asks [headrace.MaxPriority + 1]float64
	left := used
	for _, t := range q.running {
		if chosen[t] {
			left -= t.size.of(s.all)
		} else {
			has[t.v.Priority] += t.size.of(s.all)
		}
	}
	for _, t := range q.line {
		if t.waits {
			asks[t.v.Priority] += t.size.of(s.all)
		}
	}
	for p := len(has) - 1; p >= 0; p-- {
		ought := min(left, has[p]+asks[p])
		left -= ought
		missing[p], has[p] = max(0, ought-has[p]), max(0, has[p]-ought)
	}
	for _, t := range q.victims() {
		p, share := int(t.v.Priority), t.size.of(s.all)
		above := math.Inf(-1)
		for higher := p + 1; higher < len(missing); higher++ {
			above = max(above, missing[higher])
		}
		if chosen[t] || has[p] <= slack || above <= slack || most <= slack || !t.size.fits(*allowed) {
			continue
		}
		has[p] -= share
		most -= share
		allowed.sub(t.size)
		for higher := len(missing) - 1; higher > p && share > 0; higher-- {
			some := min(share, missing[higher])
			missing[higher] -= some
			share -= some
		}
		s.choose(t, now)
	}
}

// choose warns a container that YARN wants back, and ends its time when it is over. At the end of a look YARN forgets
// whom it warned more than twice that time before; it looks also when nobody waits and we are not asked.
func (s *Scheduler) choose(t *task, now time.Duration) {
	if before := max(s.looked, now-s.interval-s.c.Monitor); t.marked >= 0 && before > t.marked+2*s.c.Warning {
		t.marked = never
	}
	switch {
	case t.leaves:
	case t.marked < 0:
		s.giveWay(t, false, now)
	case now >= t.marked+s.c.Warning:
		s.giveWay(t, true, now)
	}
}

// giveWay asks how t gives way, as the plug-in asks the manager. A kill is what YARN does
// without us: last reports that the container was warned for long enough.
func (s *Scheduler) giveWay(t *task, last bool, now time.Duration) {
	v := policy.Verdict{Mechanism: headrace.Kill, Reason: "it was to be killed a moment ago"}
	if now >= t.killing {
		if s.scenes[t.node] == nil {
			s.scenes[t.node] = picture(t.node, now)
		}
		v = s.scenes[t.node].GiveWay(t.v.ID, s.claim(t), s.policy)
	}
	switch {
	case v.Mechanism == headrace.Wait:
		t.marked = never
		return
	case v.Mechanism == headrace.Kill:
		if now >= t.killing {
			t.killing = now + claimed
		}
		if !last {
			t.marked = now
			return
		}
	}
	t.leaves, t.ordered, t.marked, t.killing = true, true, never, never
	s.orders = append(s.orders, headrace.Order{Verb: headrace.OrderPreempt, Task: t.v.ID, Node: t.node.v.ID,
		Mechanism: v.Mechanism, Store: v.Store, PageOut: v.PageOut, Delay: v.Delay, Waste: v.Waste, Reason: v.Reason})
	for _, o := range v.PageOuts {
		s.orders = append(s.orders, o)
		s.tasks[o.Task].paging += o.PageOut
	}
}

// claim returns the highest priority of those for whom t gives way in its own queue, 0
// if another queue waits for what it is guaranteed (headrace.yarn.rm.Room).
func (s *Scheduler) claim(t *task) headrace.Priority {
	if s.underserved(t.queue) {
		return 0
	}
	for _, o := range t.queue.inOrder() {
		if o.waits && !o.aside.asked && o.v.Priority > t.v.Priority {
			return o.v.Priority
		}
	}
	return 0
}

// picture returns what the manager sees of n: of its stores how long a dump waits that is nobody's in particular.
func picture(n *node, now time.Duration) *policy.Scene {
	v := *n.v
	v.Stores = slices.Clone(v.Stores)
	for i := range v.Stores {
		s := &v.Stores[i]
		s.Queue, s.Queues = s.QueueOf(0), nil
	}
	n.claims = slices.DeleteFunc(n.claims, func(c policy.Claim) bool { return c.Bytes == 0 || at(now).After(c.Until) })
	v.Memory -= n.claims.Held(at(now))
	tasks := make([]headrace.TaskView, 0, len(n.here))
	for _, t := range n.here {
		tasks = append(tasks, t.asContainer())
	}
	return policy.NewScene(v, tasks)
}

// asContainer is t as the manager knows it: its container is all that it ever was.
func (t *task) asContainer() headrace.TaskView {
	v := *t.v
	v.Node, v.Starting, v.PagingOut = t.node.v.ID, v.Starting || t.began, t.paging
	if t.leaves && !v.Leaving {
		v.Leaving, v.LeavingBy = true, headrace.Checkpoint // to go on elsewhere
	}
	v.Preemptions -= t.before
	v.Progress.Lost, v.Waiting, v.Waited, v.Room, v.Input = 0, 0, 0, "", headrace.InputView{}
	return v
}
