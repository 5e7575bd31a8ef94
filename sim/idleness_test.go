package sim

import (
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/trace"
)

// A node is not idle for nothing while one is written out that moves elsewhere, and who stands before
// others waits for its memory: a (600 MB) is suspended for u, and moves to the node of b when that ends, shortly
// before u does. Then w (700 MB) waits for two minutes, and x, behind it, might run at once.
func TestIdleForMemoryOfDump(t *testing.T) {
	w, c := idleForDump()
	r := run(t, w, c)
	if r.Counts.Suspends != 1 || r.IO.Moved == 0 {
		t.Errorf("%+v: want one that is suspended and moves", r.Counts)
	}
}

func idleForDump() (*trace.Workload, Config) {
	c := easy(2, policy.Suspend)
	c.Medium.Write, c.Node.Net = 5*mb, 100*mb
	return workload(
		job{submit: 0, run: 1000, priority: 0, memory: 600 * mb, dirty: 600 * mb},
		job{submit: 0, run: 500, priority: 5, memory: 100 * mb},
		job{submit: 300, run: 206, priority: 10, memory: 600 * mb},
		job{submit: 400, run: 10, priority: 0, memory: 700 * mb},
		job{submit: 410, run: 10, priority: 0, memory: 100 * mb},
	), c
}

// A dump that does not end is no reason for a node to be idle: it is one for a few times as long as it was to take.
func TestIdleForDumpWithoutEnd(t *testing.T) {
	w, c := idleForDump()
	e := newEngine(w, c)
	leaving := func() *task {
		for _, x := range e.roster.order {
			if x != nil && x.phase == idle && x.v.Leaving {
				return x
			}
		}
		return nil
	}
	var a *task
	for e.now < 600*time.Second && (a == nil || e.idleness.since[a.node.i] < 0) {
		at, what := e.soonest()
		e.advance(at)
		switch what {
		case aSubmission:
			e.submit()
		case anEvent:
			e.happen(e.take())
		case aDecision:
			if err := e.decide(); err != nil {
				t.Fatal(err)
			}
		}
		a = leaving()
	}
	if a == nil {
		t.Fatal("nobody is written out from an idle node")
	}
	e.now += patience + time.Second
	idle := func() error {
		uses := make([]use, len(e.nodes))
		for _, x := range e.roster.order {
			if x != nil && x.node != nil {
				uses[x.node.i].add(x, nil)
			}
			if x != nil && x.v.Room != "" {
				uses[e.byNode[x.v.Room].i].expected = true
			}
		}
		return e.idleness.verify(e, uses)
	}
	if err := idle(); err != nil {
		t.Error(err)
	}
	e.now += patience + 4*a.node.store.wait()
	if err := idle(); err != nil {
		t.Error(err)
	}
	e.now += patience
	if err := idle(); err == nil || !strings.Contains(err.Error(), "has been idle for") {
		t.Errorf("%v: want what is idle", err)
	}
}

// TestBefore is who stands before whom in the queue: by aged priority, then who was begun, then who came first.
func TestBefore(t *testing.T) {
	waits := func(p headrace.Priority, minutes int, state headrace.TaskState, at int) *task {
		return &task{v: &headrace.TaskView{Priority: p, State: state}, left: time.Hour - time.Duration(minutes)*time.Minute, at: at}
	}
	for _, x := range []struct {
		what          string
		first, second *task
		step          time.Duration
	}{
		{"more urgent", waits(5, 0, headrace.Pending, 1), waits(4, 9, headrace.Pending, 0), policy.Ageing},
		{"risen above it", waits(4, 20, headrace.Pending, 1), waits(5, 9, headrace.Pending, 0), policy.Ageing},
		{"never above its band", waits(9, 0, headrace.Pending, 1), waits(8, 59, headrace.Pending, 0), policy.Ageing},
		{"no ageing", waits(5, 0, headrace.Pending, 1), waits(4, 59, headrace.Pending, 0), policy.None},
		{"begun", waits(4, 0, headrace.Suspended, 1), waits(4, 9, headrace.Pending, 0), policy.Ageing},
		{"came first", waits(4, 0, headrace.Pending, 0), waits(4, 9, headrace.Pending, 1), policy.Ageing},
	} {
		if s := newIdleness(0, x.step); !s.before(x.first, x.second, time.Hour) || s.before(x.second, x.first, time.Hour) {
			t.Errorf("%s: the order is another", x.what)
		}
	}
}
