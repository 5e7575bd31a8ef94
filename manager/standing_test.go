package manager

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"headrace/wire"
	"headrace/wire/convert"
)

func TestStandingAnswers(t *testing.T) {
	const limit = 20 * time.Second
	for _, c := range []struct {
		s      standing
		asked  time.Duration
		wait   bool
		reason string
	}{
		{ended, 0, true, "ended already"},
		{ended, time.Hour, true, "ended already"},
		{early, 0, true, "started only just now"},
		{early, time.Hour, true, "started only just now"},
		{unknown, 0, true, "it is given 20s"},
		{unknown, limit - 1, true, "not known here"},
		{unknown, limit, false, "not known here"},
		{unknown, 61 * time.Second, false, "for 1m1s"},
		{away, 0, true, "nothing is heard of its node; it is given 20s"},
		{away, limit, false, "nothing is heard of its node, and that for 20s"},
		{pending, 0, true, "has not been started; it is given"},
		{pending, limit, false, "has not been started"},
	} {
		wait, reason := c.s.answer(c.asked, limit)
		if wait != c.wait || !strings.Contains(reason, c.reason) {
			t.Errorf("%d after %v: %v, %q; want %v, %q", c.s, c.asked, wait, reason, c.wait, c.reason)
		}
	}
}

func TestLately(t *testing.T) {
	start := time.Now()
	l := lately{rotated: start}
	l.add("a", 2)
	for i, want := range []bool{true, true, false} {
		l.rotate(start.Add(time.Duration(i)*61*time.Second), time.Minute)
		if l.has("a") != want {
			t.Errorf("after %d spans: %v, want %v", i, !want, want)
		}
	}
	l.add("b", 2)
	l.remove("b")
	if l.has("b") {
		t.Error("what was taken out is still there")
	}
	for i := range 100 {
		l.add(fmt.Sprint(i), 2)
	}
	if n := len(l.now) + len(l.before); n > 4 || !l.has("99") {
		t.Errorf("%d names are kept, want at most 4 and the last among them", n)
	}
}

// A container that cannot be told anything is given some time, then it is up to its
// scheduler. The log says both, once each.
func TestGivenTime(t *testing.T) {
	s := start(t, func(c *Config) { c.timing.doubt = 300 * time.Millisecond })
	pending := task("pending")
	pending.State = "pending"
	m := s.machine("n1", pending, task("away"))
	m.leave()
	s.until("away", "away", func(c *wire.Container) bool { return c.Away })
	s.machine("n2", func() *wire.Task { p := task("pending2"); p.State = "pending"; return p }())
	for _, id := range []string{"stranger", "pending2", "away"} {
		wantDecision(t, s.preempt(id)[0], "wait", "it is given 300ms")
		end := time.Now().Add(patience)
		d := s.preempt(id)[0]
		for ; convert.MechanismName(d) == "wait" && time.Now().Before(end); d = s.preempt(id)[0] {
			time.Sleep(20 * time.Millisecond)
		}
		wantDecision(t, d, "", "and that for")
		wantDecision(t, s.preempt(id)[0], "", "and that for")
		for _, mechanism := range []string{"wait", "none"} {
			if n := s.log.count("msg=preempt container=" + id + " node="); n != 2 || s.log.count("mechanism="+mechanism) == 0 {
				t.Errorf("%d lines about %s, want one with wait and one with none:\n%s", n, id, s.log)
			}
		}
	}
}

// A container that comes to be known is a victim as any other, and gets its time anew
// when it is lost sight of again.
func TestComesToBeKnown(t *testing.T) {
	s := start(t, nil)
	wantDecision(t, s.preempt("c1")[0], "wait", "not known here")
	m := s.machine("n1", task("c1"))
	wantDecision(t, s.preempt("c1")[0], "suspend", "")
	m.finish(m.order(), "")
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	if len(s.cluster.doubts) != 0 {
		t.Errorf("%d doubts are left", len(s.cluster.doubts))
	}
}

// What has ended is remembered, over a restart of the manager too, until it is launched
// again.
func TestEndedIsRemembered(t *testing.T) {
	s := start(t, func(c *Config) { c.timing.doubt = time.Nanosecond })
	m := s.machine("n1", task("c1"))
	m.set("c1", func(t *wire.Task) { t.State = "done" })
	m.report()
	if s.container("c1") != nil {
		t.Error("what has ended is still told")
	}
	wantDecision(t, s.preempt("c1")[0], "wait", "it has ended already")
	m.tasks = nil // as an agent tells it once
	m.report()
	wantDecision(t, s.preempt("c1")[0], "wait", "it has ended already")
	m.tasks = []*wire.Task{task("c1")}
	m.report()
	wantDecision(t, s.preempt("c1")[0], "suspend", "")
}
