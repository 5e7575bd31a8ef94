package sim

import (
	"time"

	"headrace"
	"headrace/policy"
)

// backlog is the tasks that were submitted and that the policy is not shown: of each
// priority those that came last, as long as nothing can be done for them anyway. Where
// much more is submitted than can run, a decision takes no longer by what waits.
type backlog struct {
	roster *roster
	// show enters a task of the workload in the roster.
	show func(i int32) *task
	// off: all tasks are shown.
	off bool

	lines [headrace.MaxPriority + 1]line
	// tasks is how many there are.
	tasks int
	// marks and batch are of one decision: what it is asked, and what is to be shown.
	marks []policy.Mark
	batch []int32
}

// line is the tasks of one priority, in order of submission.
type line struct {
	// waiting are indexes into the tasks of the workload, those before head shown.
	waiting []int32
	head    int
	// newest is the last that was shown, of number seq. Whatever is behind it comes after
	// it in the queue for as long as it has not been started.
	newest *task
	seq    int32
	// least is the least that a task of the line has asked for, in CPUs.
	least float64
}

// enough waiting tasks are shown whatever may be done for them, beside as many as do not
// wait: a decision that looks at these anyway is not to be made twice to spare a few.
const enough = 256

// newBacklog returns the backlog of e. It stays empty where not showing a task could change
// something: whoever observes the scheduler sees all, inputs in memory change the order, and
// with cost a task that waits may count on what known shares will free.
func newBacklog(e *engine) backlog {
	return backlog{
		roster: &e.roster, show: e.enter,
		off: e.c.Capacity != nil || e.c.Observe != nil || len(e.w.Files) > 0 || e.c.KnowShare && e.c.Policy.Policy == policy.Cost,
	}
}

// holds reports whether a task of that priority that is submitted now is not shown.
func (b *backlog) holds(p headrace.Priority) bool {
	return b.lines[p].len() > 0 || !b.off && b.waiting() >= enough+b.active()
}

// waiting and active return how many of the tasks that are shown wait, and how many do not.
func (b *backlog) waiting() int { return b.roster.waiting - b.tasks }
func (b *backlog) active() int  { return len(b.roster.order) - b.roster.gone - b.waiting() }

func (l *line) len() int { return len(l.waiting) - l.head }

// add enters task i of the workload.
func (b *backlog) add(i int32, p headrace.Priority, cpus float64) {
	l := &b.lines[p]
	if l.len() == 0 {
		l.waiting, l.head, l.least = l.waiting[:0], 0, cpus
	}
	l.least = min(l.least, cpus)
	l.waiting = append(l.waiting, i)
	b.tasks++
}

// mark returns the newest task of l that is shown and was never started, or nil.
func (l *line) mark() *task {
	if t := l.newest; t != nil && t.seq == l.seq && !t.started {
		return t
	}
	return nil
}

// decide has the planner decide about as much of the queue as it can do something about: it
// shows it more until nothing can be done for the rest. What is decided is what it would
// decide if it saw all.
func (b *backlog) decide(p *policy.Planner, now time.Duration) []headrace.Order {
	more := max(enough/8, b.active()/8)
	for i := range b.lines {
		if l := &b.lines[i]; l.len() > 0 && l.mark() == nil {
			b.take(l, more)
		}
	}
	b.showBatch(now)
	for ; ; more *= 2 {
		b.marks = b.marks[:0]
		for i := range b.lines {
			if l := &b.lines[i]; l.len() > 0 {
				b.marks = append(b.marks, policy.Mark{Task: l.newest.at, CPUs: l.least})
			}
		}
		orders := p.DecideFirst(&b.roster.view, b.marks)
		for i := range b.marks {
			if !b.marks[i].Spent {
				b.take(&b.lines[b.roster.view.Tasks[b.marks[i].Task].Priority], more)
			}
		}
		if len(b.batch) == 0 {
			return orders
		}
		b.showBatch(now)
	}
}

// take has so many of l shown.
func (b *backlog) take(l *line, n int) {
	n = min(n, l.len())
	b.batch = append(b.batch, l.waiting[l.head:l.head+n]...)
	l.head += n
	b.tasks -= n
}

// showBatch shows what was taken.
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
		l := &b.lines[t.spec.Priority]
		l.newest, l.seq = t, t.seq
		t.refresh(now, false)
	}
	b.batch = b.batch[:0]
	b.roster.merge(first.at)
}

// fits returns a task that is not shown, has waited for longer than patience and could run
// on n, where tasks hold so much memory.
func (b *backlog) fits(e *engine, n *node, held int64) (id int32, found bool) {
	for i := range b.lines {
		l := &b.lines[i]
		for _, id := range l.waiting[l.head:] {
			t := &e.w.Tasks[id]
			if _, at := e.stages.place(id, t); e.now-at <= patience {
				break
			}
			if float64(t.CPUs) <= n.v.CPUs+1e-9 && t.Memory <= n.v.Memory-held {
				return id, true
			}
		}
	}
	return 0, false
}
