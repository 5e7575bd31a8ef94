package capacity

import (
	"cmp"
	"slices"
	"time"

	"headrace"
	"headrace/policy"
)

// amount is what YARN gives away.
type amount struct {
	cpus   float64
	memory int64
}

func (a *amount) add(b amount) { a.cpus, a.memory = a.cpus+b.cpus, a.memory+b.memory }
func (a *amount) sub(b amount) { a.cpus, a.memory = a.cpus-b.cpus, a.memory-b.memory }

// slack is what sums of CPUs may be off.
const slack = 1e-6

func (a amount) fits(in amount) bool { return a.cpus <= in.cpus+slack && a.memory <= in.memory }

// of returns the share that a is of all, by what it has most of.
func (a amount) of(all amount) float64 {
	return max(a.cpus/all.cpus, float64(a.memory)/float64(all.memory))
}

func (a amount) times(share float64) amount {
	return amount{a.cpus * share, int64(float64(a.memory) * share)}
}

// node is a machine.
type node struct {
	v   *headrace.NodeView
	all amount
	// free is what YARN may give away; memory is what of the machine's own nobody needs,
	// and swap what may still be written there.
	free         amount
	memory, swap int64
	// here are the tasks that are there, in order of submission.
	here []*task
	// kept is the task that YARN keeps the node for (a reservation), nil for none.
	kept *task
	// asked is what containers that are put aside ask of it, keepers how many of these
	// may have it kept.
	asked   amount
	keepers int
	claims  policy.Claims
	beat    time.Duration // when its next heartbeat comes
}

// queue is a queue with what is in it now.
type queue struct {
	*Queue
	guaranteed, most amount
	// used is what tasks hold and what is kept for them; pending what others ask for,
	// asked the part of it that is for containers that were put aside.
	used, pending, asked amount
	running              []*task
	// line are those that wait for room, in the queue's order once it is sorted, and
	// least is the least that they ask for.
	line   []*task
	sorted bool
	least  amount
	// waiting is how many of them wait for a new container, top their highest priority, -1
	// for none, and last the last job with one of each priority.
	waiting, top int
	last         [headrace.MaxPriority + 1]int
}

// never is a time that has not come.
const never = time.Duration(-1)

// task is a task of the view, and what is remembered of it.
type task struct {
	id    headrace.TaskID
	v     *headrace.TaskView
	look  int // at which it was last seen
	size  amount
	queue *queue
	// node is where it is, or will be; nil: nowhere.
	node *node
	// job is the number of its application, container that of its container; newer ones
	// have larger numbers.
	job, container int
	// before is how often it had to leave before its container was begun.
	before int

	waits bool  // for room
	kept  *node // that is kept for it
	// began: it was told to begin at this look; leaves: it leaves, or was told to; ordered:
	// YARN's preemption has told it to, and it has not left yet. paging is what of its
	// memory is on its way to swap.
	began, leaves, ordered bool
	paging                 int64
	// marked is since when YARN wants it, killing until when it counts as being killed.
	marked, killing time.Duration
	aside           aside
}

func (t *task) holds() bool { return t.v.State == headrace.Running || t.v.Starting }

func (t *task) parked() bool {
	return !t.v.Starting && (t.v.State == headrace.Suspended || t.v.State == headrace.Checkpointed)
}

// resident returns what it has in the memory of its node that is not on its way to
// swap.
func (t *task) resident() int64 { return t.v.Resident - t.paging }

// look takes down what there is, and what has changed.
func (s *Scheduler) look(v *headrace.View, now time.Duration) {
	s.looks++
	if s.nodes == nil {
		s.begin(v.Nodes)
	}
	s.free, s.parked = amount{}, s.parked[:0]
	for i, n := range s.nodes {
		n.v = &v.Nodes[i]
		n.free, n.memory, n.swap, n.here = n.all, n.v.Memory, 0, n.here[:0]
		n.asked, n.keepers = amount{}, 0
		if n.v.SwapOut > 0 {
			n.swap = n.v.SwapFree
		}
		s.free.add(n.all)
	}
	for _, q := range s.queues {
		q.used, q.pending, q.asked = amount{}, amount{}, amount{}
		q.running, q.line, q.sorted, q.top = q.running[:0], q.line[:0], false, -1
		q.waiting = 0
		for p := range q.last {
			q.last[p] = -1
		}
	}
	alive := 0
	// Views keep their order: most tasks are found without looking them up.
	before := s.order
	s.order, s.spare = s.spare[:0], before
	for i := range v.Tasks {
		v := &v.Tasks[i]
		if v.State.Final() {
			continue
		}
		alive++
		for len(before) > 0 && before[0].id != v.ID {
			before = before[1:]
		}
		var t *task
		if len(before) > 0 {
			t = before[0]
		} else {
			t = s.known(v)
		}
		s.order = append(s.order, t)
		s.enter(t, v, now)
	}
	if len(s.tasks) > 2*alive+1024 {
		for id, t := range s.tasks {
			if t.look != s.looks {
				delete(s.tasks, id)
			}
		}
	}
}

// known returns what is remembered of a task, which begins with its first look.
func (s *Scheduler) known(v *headrace.TaskView) *task {
	t := s.tasks[v.ID]
	if t != nil {
		return t
	}
	job, ok := s.jobs[v.Job]
	if !ok {
		job = len(s.jobs)
		s.jobs[v.Job] = job
	}
	i := slices.IndexFunc(s.queues, func(q *queue) bool { return q.Least <= v.Priority && v.Priority <= q.Most })
	t = &task{id: v.ID, size: amount{v.CPUs, v.MemoryRequest}, queue: s.queues[i], job: job, marked: never, killing: never}
	s.tasks[v.ID] = t
	return t
}

// enter takes a task down where it is.
func (s *Scheduler) enter(t *task, v *headrace.TaskView, now time.Duration) {
	t.v, t.look, t.paging, t.began, t.leaves, t.waits = v, s.looks, v.PagingOut, false, v.Leaving, false
	holds := t.holds()
	if t.ordered && !holds {
		t.node.claims = append(t.node.claims, policy.Claim{Bytes: t.size.memory, Until: at(now + claimed)})
	}
	t.ordered = t.ordered && v.Leaving
	if v.Node == "" {
		t.node = nil
	} else if t.node == nil || t.node.v.ID != v.Node {
		t.node = s.byNode[v.Node]
	}
	q, n := t.queue, t.node
	if n != nil {
		n.here = append(n.here, t)
		n.swap -= t.paging
	}
	switch {
	case holds:
		if v.State == headrace.Running && t.aside.is {
			t.aside = aside{rounds: t.aside.rounds, again: true, resumed: now}
		}
		q.running = append(q.running, t)
		q.used.add(t.size)
		n.free.sub(t.size)
		s.free.sub(t.size)
		n.memory -= max(t.size.memory, v.Resident)
	case t.parked():
		n.memory -= t.resident()
		s.enterParked(t, now)
	default:
		t.aside = aside{}
		s.wait(t)
	}
}

// wait has t wait for room.
func (s *Scheduler) wait(t *task) {
	q := t.queue
	t.waits = true
	q.line, q.sorted = append(q.line, t), false
	if t.kept != nil {
		q.used.add(t.size)
		s.free.sub(t.size)
	} else {
		q.pending.add(t.size)
	}
	if !t.aside.asked {
		q.waiting++
		q.top = max(q.top, int(t.v.Priority))
		q.last[t.v.Priority] = max(q.last[t.v.Priority], t.job)
	}
}

// claimed is how long the manager counts room as taken for which nobody has come, and
// a container as killed that it has left to YARN.
const claimed = 10 * time.Second

// at returns a time as the manager has them.
func at(now time.Duration) time.Time { return time.Time{}.Add(now) }

// inOrder returns the line in the queue's order: applications by priority, then as they
// came.
func (q *queue) inOrder() []*task {
	if q.sorted {
		return q.line
	}
	q.sorted = true
	slices.SortStableFunc(q.line, func(a, b *task) int {
		return cmp.Or(cmp.Compare(b.v.Priority, a.v.Priority), cmp.Compare(a.job, b.job))
	})
	for i, t := range q.line {
		if i == 0 {
			q.least = t.size
		}
		q.least = amount{min(q.least.cpus, t.size.cpus), min(q.least.memory, t.size.memory)}
	}
	return q.line
}
