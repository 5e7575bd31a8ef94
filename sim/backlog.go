package sim

import (
	"sort"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/trace"
)

// backlog is the tasks that were submitted and that the policy is not shown: of those that
// are alike the ones behind the first for which nothing can be done. Where much more is
// submitted than can run, a decision takes no longer by what waits.
type backlog struct {
	roster *roster
	stages *stages
	gangs  *gangs
	w      *trace.Workload
	// show enters a task of the workload in the roster.
	show func(i int32) *task
	// off: all tasks are shown.
	off bool

	lines map[shape]*line
	order []*line // of lines, the oldest first
	// tasks is how many there are.
	tasks int
	// marks and batch are of one decision: what it is asked, and what is to be shown.
	marks []policy.Mark
	batch []int32
}

// shape is what tasks have in common between which a decision makes no difference but by
// the time of their submission.
type shape struct {
	priority headrace.Priority
	cpus     float32
	memory   int64
	need     int32
}

func shapeOf(t *trace.Task) shape { return shape{t.Priority, t.CPUs, t.Memory, t.Need} }

// line is the tasks of one shape that are not shown, in order of submission.
type line struct {
	shape
	// waiting are indexes into the tasks of the workload, those before head shown.
	waiting []int32
	head    int
	// shown are those that were shown and wait, the newest last; pace is the most of them
	// that were served between two decisions.
	shown []shownTask
	pace  int
	// more is how many are shown next in this decision.
	more int
}

// shownTask is a task with its number, by which one that has ended is told from the next in
// its place.
type shownTask struct {
	*task
	seq int32
}

// waits reports whether it was never started.
func (t shownTask) waits() bool { return t.task.seq == t.seq && !t.started }

// newest returns the last that was shown.
func (l *line) newest() shownTask { return l.shown[len(l.shown)-1] }

// mostAhead is up to how many of a line are shown at the beginning of a decision. Each time
// that they are not enough the decision is made again.
const mostAhead = 8

// ahead returns how many are to be shown at the beginning of a decision: as many as may be
// served, and one for which nothing can be done.
func (l *line) ahead() int {
	served := 0
	for served < len(l.shown) && !l.shown[served].waits() {
		served++
	}
	l.pace = max(l.pace, min(served, mostAhead-1))
	if len(l.shown) == 0 || !l.newest().waits() {
		l.shown = l.shown[:0]
	} else {
		l.shown = append(l.shown[:0], l.shown[served:]...)
	}
	return 1 + l.pace - len(l.shown)
}

// enough waiting tasks, and a quarter of those that do not wait, are shown whatever may be
// done for them: a decision that looks at so many anyway is not to be made twice to spare
// a few.
const enough = 64

// newBacklog returns the backlog of e. It stays empty where not showing a task could change
// something: whoever observes the scheduler sees all, inputs in memory change the order, and
// with cost a task that waits may count on what known shares will free.
func newBacklog(e *engine) backlog {
	return backlog{
		roster: &e.roster, stages: e.stages, gangs: e.gangs, w: e.w, show: e.enter, lines: map[shape]*line{},
		off: e.c.Capacity != nil || e.c.Observe != nil || len(e.w.Files) > 0 || e.c.KnowShare && e.c.Policy.Policy == policy.Cost,
	}
}

// waiting and active return how many of the tasks that are shown wait, and how many do not.
func (b *backlog) waiting() int { return b.roster.waiting - b.tasks }
func (b *backlog) active() int  { return len(b.roster.order) - b.roster.gone - b.waiting() }

// add takes in task i of the workload, which was submitted now, and reports whether it
// did: it is shown at once otherwise.
func (b *backlog) add(i int32) bool {
	if b.off || b.gangs.gang(&b.w.Tasks[i]) != nil {
		return false
	}
	k := shapeOf(&b.w.Tasks[i])
	l := b.lines[k]
	if l == nil {
		if b.waiting() < enough+b.active()/4 {
			return false
		}
		l = &line{shape: k}
		b.lines[k], b.order = l, append(b.order, l)
	}
	l.waiting = append(l.waiting, i)
	b.tasks++
	return true
}

// decide has the planner decide about as much of the queue as it can do something about: it
// shows it more until nothing can be done for the rest. What is decided is what it would
// decide if it saw all.
func (b *backlog) decide(p *policy.Planner, now time.Duration) []headrace.Order {
	for _, l := range b.order {
		if l.more = l.ahead(); l.more > 0 {
			b.take(l)
		}
		l.more = 1
	}
	for {
		b.showBatch(now)
		b.marks = b.marks[:0]
		for _, l := range b.order {
			b.marks = append(b.marks, b.mark(l, now))
		}
		orders := p.DecideFirst(&b.roster.view, b.marks)
		for i, l := range b.order {
			if !b.marks[i].Spent {
				b.take(l)
			}
		}
		if len(b.batch) == 0 {
			return orders
		}
	}
}

// mark returns what stands for l.
func (b *backlog) mark(l *line, now time.Duration) policy.Mark {
	seq, at := b.place(l.waiting[l.head])
	order := b.roster.order
	before := sort.Search(len(order), func(i int) bool {
		for i < len(order) && order[i] == nil {
			i++
		}
		return i == len(order) || order[i].seq > seq
	})
	return policy.Mark{Task: l.newest().at, Before: before, Waiting: now - at}
}

// place returns the place in the queue of task i, and when it came there.
func (b *backlog) place(i int32) (int32, time.Duration) { return b.stages.place(i, &b.w.Tasks[i]) }

// take has the next of l shown: twice as many each time.
func (b *backlog) take(l *line) {
	n := min(l.more, len(l.waiting)-l.head)
	b.batch = append(b.batch, l.waiting[l.head:l.head+n]...)
	l.head += n
	b.tasks -= n
	l.more *= 2
	if l.head > 1024 && l.head > len(l.waiting)/2 {
		l.waiting = append(l.waiting[:0], l.waiting[l.head:]...)
		l.head = 0
	}
}

// showBatch shows what was taken, and forgets the lines of which nothing is left.
func (b *backlog) showBatch(now time.Duration) {
	if len(b.batch) == 0 {
		return
	}
	var first *task
	for _, i := range b.batch {
		t := b.show(i)
		if first == nil {
			first = t
		}
		l := b.lines[shapeOf(t.spec)]
		l.shown = append(l.shown, shownTask{t, t.seq})
		t.refresh(now, false)
	}
	b.batch = b.batch[:0]
	b.roster.merge(first.at)
	left := b.order[:0]
	for _, l := range b.order {
		if l.head == len(l.waiting) {
			delete(b.lines, l.shape)
		} else {
			left = append(left, l)
		}
	}
	clear(b.order[len(left):])
	b.order = left
}

// fits returns a task that is not shown, has waited for longer than patience and could run
// on n, where tasks use so much.
func (b *backlog) fits(now time.Duration, n *node, u *use) (id int32, found bool) {
	for _, l := range b.order {
		id := l.waiting[l.head]
		if _, at := b.place(id); now-at > patience && float64(l.cpus) <= n.v.CPUs+1e-9 && l.memory <= n.v.Memory-u.memory && u.leaves(n, b.roster.needOf(l.need)) {
			return id, true
		}
	}
	return 0, false
}
