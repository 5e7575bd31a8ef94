package sim

import (
	"headrace"
	"headrace/policy"
)

// backlog is the tasks that were submitted and that the policy is not shown: of each
// priority those that came last, as long as nothing can be done for them anyway. Where
// much more is submitted than can run, a decision takes no longer by what waits.
type backlog struct {
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

// usesBacklog reports whether tasks may be held back from the scheduler: whoever observes
// it sees all, inputs in memory change the order, and with cost a task that waits may count
// on what known shares will free.
func (e *engine) usesBacklog() bool {
	return e.c.Capacity == nil && e.c.Observe == nil && e.files == nil && !(e.c.KnowShare && e.c.Policy.Policy == policy.Cost)
}

// heldBack reports whether a task of that priority that is submitted now is not shown.
func (e *engine) heldBack(p headrace.Priority) bool {
	return e.backlog.lines[p].len() > 0 || e.usesBacklog() && e.waiting() >= enough+e.active()
}

// waiting and active return how many of the tasks that are shown wait, and how many do not.
func (e *engine) waiting() int { return e.roster.waiting - e.backlog.tasks }
func (e *engine) active() int  { return len(e.roster.order) - e.roster.gone - e.waiting() }

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

// decideFirst has the planner decide about as much of the queue as it can do something
// about: it shows it more until nothing can be done for the rest. What is decided is what
// it would decide if it saw all.
func (e *engine) decideFirst(p *policy.Planner) []headrace.Order {
	b, more := &e.backlog, max(enough/8, e.active()/8)
	for i := range b.lines {
		if l := &b.lines[i]; l.len() > 0 && l.mark() == nil {
			b.take(l, more)
		}
	}
	e.showBatch()
	for ; ; more *= 2 {
		b.marks = b.marks[:0]
		for i := range b.lines {
			if l := &b.lines[i]; l.len() > 0 {
				b.marks = append(b.marks, policy.Mark{Task: l.newest.at, CPUs: l.least})
			}
		}
		orders := p.DecideFirst(&e.roster.view, b.marks)
		for i := range b.marks {
			if !b.marks[i].Spent {
				b.take(&b.lines[e.roster.view.Tasks[b.marks[i].Task].Priority], more)
			}
		}
		if len(b.batch) == 0 {
			return orders
		}
		e.showBatch()
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
func (e *engine) showBatch() {
	b := &e.backlog
	if len(b.batch) == 0 {
		return
	}
	var first *task
	for _, i := range b.batch {
		t := e.enter(i)
		if first == nil {
			first = t
		}
		l := &b.lines[t.spec.Priority]
		l.newest, l.seq = t, t.seq
		t.refresh(e.now, e.c.KnowShare)
	}
	b.batch = b.batch[:0]
	e.roster.merge(first.at)
}

// fits returns a task that is not shown, has waited for longer than patience and could run
// on n, where tasks hold so much memory.
func (b *backlog) fits(e *engine, n *node, held int64) (id int32, found bool) {
	for i := range b.lines {
		l := &b.lines[i]
		for _, id := range l.waiting[l.head:] {
			t := &e.w.Tasks[id]
			if e.now-t.Submit <= patience {
				break
			}
			if float64(t.CPUs) <= n.v.CPUs+1e-9 && t.Memory <= n.v.Memory-held {
				return id, true
			}
		}
	}
	return 0, false
}
