package solo

import (
	"cmp"
	"context"
	"errors"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/proc"
)

const (
	// freshFor is how old measurements may be when somebody is made to leave.
	freshFor = 300 * time.Millisecond
	// roundTimeout limits how long a decision waits for them.
	roundTimeout = 250 * time.Millisecond
	statsTimeout = 5 * time.Second
)

// round is one measurement of all tasks that a decision waits for.
type round struct {
	number  int
	waiting map[headrace.TaskID]struct{}
	open    bool
	// at is when the last one ended (boot time).
	at   time.Duration
	done bool
}

// decide asks the policy and carries out what it says. Before somebody has to
// leave, everybody is measured again.
func (l *loop) decide() {
	orders, notes := l.policy(l.view(), len(l.tasks.active) <= maxExplained)
	l.explain(notes)
	fresh := l.fresh()
	for _, o := range orders {
		if evicts(o) && !fresh {
			l.refresh()
			continue
		}
		l.carryOut(o)
	}
}

// maxExplained is up to how many tasks the policy says why they wait.
const maxExplained = 1000

// explain shows why tasks wait.
func (l *loop) explain(notes []policy.Note) {
	waits := make(map[headrace.TaskID]string, len(notes))
	for _, n := range notes {
		waits[n.Task] = n.Reason
	}
	for _, t := range l.tasks.active {
		if note := cmp.Or(t.limited, waits[t.rec.ID]); note != t.note {
			t.note = note
			l.show(t)
		}
	}
}

func evicts(o headrace.Order) bool {
	return o.Verb == headrace.OrderPreempt || o.Verb == headrace.OrderPageOut
}

func (l *loop) fresh() bool {
	return l.round.done && !l.round.open && l.clk.boot()-l.round.at <= freshFor
}

// refresh measures all tasks that have processes and decides again then.
func (l *loop) refresh() {
	if l.round.open {
		return
	}
	l.round = round{number: l.round.number + 1, waiting: map[headrace.TaskID]struct{}{}, open: true}
	n := l.round.number
	for _, t := range l.tasks.active {
		if l.measurable(t) {
			l.round.waiting[t.rec.ID] = struct{}{}
			l.poll(t)
		}
	}
	if len(l.round.waiting) == 0 {
		l.roundOver()
		return
	}
	l.later(func() {
		time.AfterFunc(roundTimeout, func() {
			l.post(func() {
				if l.round.open && l.round.number == n {
					l.roundOver()
				}
			})
		})
	})
}

func (l *loop) roundOver() {
	l.round.open, l.round.done, l.round.at = false, true, l.clk.boot()
	l.redecide = true
}

func (l *loop) measurable(t *task) bool {
	if t.live == nil {
		return false
	}
	if t.op != nil && t.op.kind != headrace.PagingOut {
		return false
	}
	return t.rec.State == headrace.Running || t.rec.State == headrace.Suspended
}

// pollStats measures every task that has processes.
func (l *loop) pollStats() {
	for _, t := range l.tasks.active {
		if l.measurable(t) {
			l.poll(t)
		}
	}
}

// poll measures one task in the background.
func (l *loop) poll(t *task) {
	if t.polling {
		return
	}
	t.polling = true
	live, id := t.live, t.rec.ID
	l.later(func() {
		l.background(func(ctx context.Context) func() {
			ctx, cancel := context.WithTimeout(ctx, statsTimeout)
			defer cancel()
			stats, err := live.Stats(ctx)
			return func() { l.measured(t, id, live, stats, err) }
		})
	})
}

func (l *loop) measured(t *task, id headrace.TaskID, live Task, stats proc.Stats, err error) {
	t.polling = false
	t.letPass(l.clk.boot())
	if t.live == live {
		switch {
		case err == nil:
			t.stats, t.statsAt, t.known = stats, l.clk.boot(), true
			l.countContinued(t, stats.Continued)
			l.show(t)
		case !errors.Is(err, proc.ErrGone):
			l.warn("stats "+string(id), "a task could not be measured", "id", id, "err", err)
		}
	}
	if !l.round.open {
		return
	}
	delete(l.round.waiting, id)
	if len(l.round.waiting) == 0 {
		l.roundOver()
	}
}

// stoppedAgain is what the history says when somebody has continued a suspended task.
const stoppedAgain = "stopped again"

// countContinued takes in how often the task's supervisor has had to stop it again. In
// the history is only the first time of each suspension: it may be many.
func (l *loop) countContinued(t *task, here int) {
	if here < t.rec.ContinuedHere { // a new supervisor
		t.rec.ContinuedHere = 0
	}
	if here == t.rec.ContinuedHere {
		return
	}
	t.rec.Continued += here - t.rec.ContinuedHere
	t.rec.ContinuedHere, t.rec.ContinuedMs = here, l.clk.wall().UnixMilli()
	if n := len(t.rec.History); n == 0 || t.rec.History[n-1].State != stoppedAgain {
		const reason = "somebody continued it while it was suspended (SIGCONT); without a freezer that cannot be prevented"
		t.rec.note(event{AtMs: t.rec.ContinuedMs, State: stoppedAgain, Reason: reason})
		l.log.Warn("a suspended task was continued by somebody and is stopped again", "id", t.rec.ID, "user", t.rec.User)
	}
	l.touch(t)
}

// carryOut does what the policy ordered, unless it is not possible (any more);
// then the policy will be asked again when something has changed.
func (l *loop) carryOut(o headrace.Order) {
	t := l.tasks.all[o.Task]
	if t == nil || t.rec.State.Final() {
		l.warn("order", "the policy wants something of a task that is not there", "id", o.Task, "order", o.Verb.String())
		return
	}
	if t.op != nil {
		if t.op.kind == headrace.PagingOut && o.Verb == headrace.OrderResume {
			t.op.cancel()
		}
		return
	}
	if l.clk.boot() < t.retryAt {
		return
	}
	in := &intent{For: o.For, PageOut: o.PageOut, Delay: o.Delay, Reason: o.Reason}
	switch o.Verb {
	case headrace.OrderStart, headrace.OrderResume, headrace.OrderRestore:
		l.bringBack(t, o, in)
	case headrace.OrderPreempt:
		l.preempt(t, o, in)
		l.madeFor(o.For)
	case headrace.OrderPageOut:
		l.pageOut(t, o.PageOut)
		l.madeFor(o.For)
	}
}

// madeFor remembers that room is made for a task. A daemon that starts again does
// not know it; then whoever comes first in the queue gets the room.
func (l *loop) madeFor(id headrace.TaskID) {
	if u := l.tasks.all[id]; u != nil {
		u.room = true
	}
}

// bringBack starts, resumes or restores a task if there is a slot for it.
func (l *loop) bringBack(t *task, o headrace.Order, in *intent) {
	if t.rec.Held || l.tasks.slotsUsed()+t.rec.CPUs > l.cfg.Slots+1e-9 {
		l.warn("slots", "the policy wants to run a task for which there is no slot", "id", o.Task)
		return
	}
	t.room = false
	switch {
	case o.Verb == headrace.OrderStart && t.rec.State == headrace.Pending:
		l.start(t, in)
	case o.Verb == headrace.OrderResume && t.rec.State == headrace.Suspended && t.live != nil:
		l.resume(t, in)
	case o.Verb == headrace.OrderRestore && t.rec.State == headrace.Checkpointed:
		l.restore(t, in)
	default:
		l.warn("order", "the policy's order does not fit the task's state", "id", o.Task,
			"order", o.Verb.String(), "state", t.rec.State.String())
	}
}

func (l *loop) preempt(t *task, o headrace.Order, in *intent) {
	running := t.rec.State == headrace.Running
	if t.live == nil || !running && t.rec.State != headrace.Suspended {
		l.warn("order", "the policy wants to preempt a task without processes", "id", o.Task)
		return
	}
	switch o.Mechanism {
	case headrace.Suspend:
		if running {
			l.suspend(t, in, nil)
		}
	case headrace.Checkpoint:
		if st := l.stores.named(o.Store); st != nil {
			l.checkpoint(t, in, st, nil)
			return
		}
		l.warn("order", "the policy wants a checkpoint in an unknown store", "id", o.Task, "store", o.Store)
	case headrace.Kill:
		if t.beyond { // a share is no reason to throw work away
			return
		}
		in.Grace = atOnce
		l.kill(t, in, nil)
	case headrace.Wait:
		l.warn("order", "the policy preempts by waiting", "id", o.Task)
	}
}
