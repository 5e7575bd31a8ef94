package solo

import (
	"context"
	"errors"
	"time"

	"headrace"
	"headrace/proc"
	"headrace/solo/journal"
)

const (
	// freshFor is how old measurements may be when somebody is made to leave.
	freshFor = 300 * time.Millisecond
	// roundTimeout limits how long a decision waits for them, but for the first.
	roundTimeout = 250 * time.Millisecond
	statsTimeout = 5 * time.Second
)

// measuring looks at what tasks with processes use.
type measuring struct {
	*core
	round round
	// emptied is told of tasks that have no processes although nothing is being done to them.
	emptied func(*task, proc.Stats)
}

// round is one measurement of all tasks that a decision waits for.
type round struct {
	number  int
	waiting map[headrace.TaskID]struct{}
	open    bool
	// at is when the last one ended (boot time); unused: nothing has been decided since.
	at           time.Duration
	done, unused bool
}

// takeFresh reports, for the decision that begins now, whether others may have to leave by what
// is known. The first one after a round always may, whatever came between: so each
// round serves.
func (m *measuring) takeFresh() bool {
	r := &m.round
	first := r.unused
	r.unused = false
	return r.done && !r.open && (first || m.clk.boot()-r.at <= freshFor)
}

// refresh measures all tasks that have processes and decides again then. The first time nothing is known of
// them: then it waits for all, also for those to which something is being done since before this daemon began.
func (m *measuring) refresh() {
	if m.round.open {
		return
	}
	m.round = round{number: m.round.number + 1, waiting: map[headrace.TaskID]struct{}{}, open: true}
	n := m.round.number
	for _, t := range m.tasks.active {
		if m.measurable(t) || n == 1 && m.hasProcesses(t) {
			m.round.waiting[t.rec.ID] = struct{}{}
			m.poll(t)
		}
	}
	if len(m.round.waiting) == 0 {
		m.roundOver()
		return
	}
	if n == 1 {
		return // statsTimeout bounds it
	}
	m.later(func() {
		time.AfterFunc(roundTimeout, func() {
			m.post(func() {
				if m.round.open && m.round.number == n {
					m.roundOver()
				}
			})
		})
	})
}

func (m *measuring) roundOver() {
	m.round.open, m.round.done, m.round.unused, m.round.at = false, true, true, m.clk.boot()
	m.redecide = true
}

func (m *measuring) measurable(t *task) bool {
	return m.hasProcesses(t) && (t.op == nil || t.op.kind == headrace.PagingOut)
}

func (m *measuring) hasProcesses(t *task) bool {
	return t.live != nil && (t.rec.State == headrace.Running || t.rec.State == headrace.Suspended)
}

// pollAll measures every task that has processes.
func (m *measuring) pollAll() {
	for _, t := range m.tasks.active {
		if m.measurable(t) {
			m.poll(t)
		}
	}
}

// poll measures one task in the background.
func (m *measuring) poll(t *task) {
	if t.polling {
		return
	}
	t.polling = true
	live, id, reads := t.live, t.rec.ID, t.opensItself() && m.round.open
	m.background(func(ctx context.Context) func() {
		stats, err := statsOf(ctx, live)
		had, cold := int64(0), int64(0)
		if reads && err == nil {
			had, cold = m.inputs.had(live, id, stats.Asked)
		}
		return func() {
			if reads && err == nil {
				t.had, t.cold = had, cold
			}
			m.measured(t, id, live, stats, err)
		}
	})
}

// statsOf is what a task has used, unless its supervisor does not answer in time. It may be called from anywhere.
func statsOf(ctx context.Context, live Task) (proc.Stats, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, statsTimeout, proc.ErrNoAnswer)
	defer cancel()
	return live.Stats(ctx)
}

// usageBefore returns what the task had used when it was last measured, since its start.
func (t *task) usageBefore() proc.Usage {
	if !t.known {
		return proc.Usage{}
	}
	return t.stats.Usage
}

func (m *measuring) measured(t *task, id headrace.TaskID, live Task, stats proc.Stats, err error) {
	t.polling = false
	t.letPass(m.clk.boot())
	if t.live == live {
		switch {
		case err == nil && stats.State == headrace.Checkpointed && m.hasProcesses(t):
			if t.op == nil {
				m.emptied(t, stats)
			}
		case err == nil:
			if t.opensItself() {
				m.inputs.disk.learn(t.usageBefore(), stats.Usage)
			}
			t.stats, t.statsAt, t.known = stats, m.clk.boot(), true
			t.returning.measured()
			m.countContinued(t, stats.Continued)
			m.show(t)
		case !errors.Is(err, proc.ErrGone):
			m.warn("stats "+string(id), "a task could not be measured", "id", id, "err", err)
		}
	}
	if !m.round.open {
		return
	}
	delete(m.round.waiting, id)
	if len(m.round.waiting) == 0 {
		m.roundOver()
	}
}

// countContinued takes in how often the task's supervisor has had to stop it again. In
// the history is only the first time of each suspension: it may be many.
func (m *measuring) countContinued(t *task, here int) {
	if here < t.rec.ContinuedHere { // a new supervisor
		t.rec.ContinuedHere = 0
	}
	if here == t.rec.ContinuedHere {
		return
	}
	t.rec.Continued += here - t.rec.ContinuedHere
	t.rec.ContinuedHere, t.rec.ContinuedMs = here, m.clk.wall().UnixMilli()
	if n := len(t.rec.History); n == 0 || t.rec.History[n-1].State != journal.StoppedAgain {
		const reason = "somebody continued it while it was suspended (SIGCONT); without a freezer that cannot be prevented"
		t.rec.Note(journal.Event{AtMs: t.rec.ContinuedMs, State: journal.StoppedAgain, Reason: reason})
		m.log.Warn("a suspended task was continued by somebody and is stopped again", "id", t.rec.ID, "user", t.rec.User)
	}
	m.touch(t)
}
