package manager

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"headrace"
	"headrace/internal/testkit"
	"headrace/wire"
	"headrace/wire/convert"
)

// TestStreamLost: a node that comes back at once gets its outstanding orders again, by
// the same numbers, and nobody notices.
func TestStreamLost(t *testing.T) {
	testkit.NoLeaks(t)
	s := start(t, func(c *Config) { c.timing.away = patience })
	m := s.machine("n1", task("c1"), task("c2"))
	defer m.keep()()
	s.preempt("c1", "c2")
	first := []*wire.NodeOrder{m.order(), m.order()}
	m.leave()
	<-m.over
	if err := untilLost(s, "n1"); err != nil {
		t.Fatal(err)
	}
	if c := s.container("c1"); c.Ordered != "suspend" || c.Away {
		t.Fatalf("while the stream is lost: %v", c)
	}
	m.join()
	for _, o := range first {
		if again := m.order(); again.Number != o.Number || again.Container != o.Container || verb(again) != verb(o) {
			t.Fatalf("%v comes again as %v", o, again)
		}
	}
	m.finish(first[0], "")
	s.until("c1", "suspended", func(c *wire.Container) bool { return c.State == "suspended" && c.Ordered == "" })
}

// untilLost waits until the manager has noticed.
func untilLost(s *site, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ctx.Err() == nil {
		s.cluster.mu.Lock()
		gone := s.cluster.members.all[name].stream == nil
		s.cluster.mu.Unlock()
		if gone {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}

// TestAway: orders of a node that is away are over, its containers are shown as they
// were, and its return is the truth.
func TestAway(t *testing.T) {
	s := start(t, nil)
	m := s.machine("n1", task("c1"), task("c2"))
	stop := m.keep()
	s.preempt("c1")
	o := m.order()
	stop()
	m.leave()
	c := s.until("c1", "away", func(c *wire.Container) bool { return c.Away })
	if c.Ordered != "" || c.State != "running" || c.Reason != "" {
		t.Fatalf("away: %v", c)
	}
	if n := s.containers(0, 0).Nodes; n != 0 {
		t.Errorf("%d nodes are there", n)
	}
	wantDecision(t, s.preempt("c1")[0], "wait", "nothing is heard")
	_, err := s.api.Resume(context.Background(), &wire.ResumeRequest{Container: "c1"})
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("resume: %v", err)
	}
	// It had begun the order, and ends it meanwhile.
	m.join()
	if c := s.container("c1"); !c.Away {
		t.Error("it is not away before it has reported")
	}
	m.finish(o, "")
	c = s.container("c1")
	if c.Away || c.State != "suspended" || c.Ordered != "" {
		t.Fatalf("back: %v", c)
	}
	if len(m.orders) != 0 {
		t.Error("an order came again that was over")
	}
}

// TestSilent: a stream without reports is no sign of life.
func TestSilent(t *testing.T) {
	testkit.NoLeaks(t)
	s := start(t, nil)
	m := s.machine("n1", task("c1"))
	s.cluster.mu.Lock()
	s.cluster.members.timing.silent = time.Millisecond // from now on: it has reported
	s.cluster.mu.Unlock()
	err := <-m.over
	if err == nil || !strings.Contains(err.Error(), "no report") {
		t.Fatalf("the stream ended with %v", err)
	}
	s.until("c1", "away", func(c *wire.Container) bool { return c.Away })
	if err := m.tryReport(); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a report without a stream: %v", err)
	}
}

// TestJoinsAndIsSilent: a node that joins again and again and never reports is away.
func TestJoinsAndIsSilent(t *testing.T) {
	timing := quick
	timing.silent, timing.away = 10*time.Second, 5*time.Second
	m := members{log: slog.New(slog.DiscardHandler), timing: &timing, all: map[string]*node{}}
	join := func() *stream {
		t.Helper()
		s, err := m.join(&wire.JoinRequest{Node: "n1", Session: 7})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := join()
	n, _, err := m.report(&wire.NodeReport{Node: "n1", Session: 7, Report: 1}, time.Now().Add(-11*time.Second))
	if err != nil || n.away {
		t.Fatalf("away %v, %v", n.away, err)
	}
	m.leave(s, errLate)
	s = join()
	if lost, _ := m.expire(time.Now()); len(lost) != 1 || !n.away || m.here != 0 {
		t.Errorf("%d lost, away %v, %d here", len(lost), n.away, m.here)
	}
	if !s.open() {
		t.Error("it is given no time to report on its new stream")
	}
	if lost, _ := m.expire(time.Now().Add(11 * time.Second)); len(lost) != 0 || s.open() {
		t.Errorf("%d lost again, the stream is open: %v", len(lost), s.open())
	}
	join()
	if _, back, err := m.report(&wire.NodeReport{Node: "n1", Session: 7, Report: 2}, time.Now()); err != nil || !back {
		t.Errorf("back %v, %v", back, err)
	}
}

// TestLateReport: a report that comes after a later one, or from a process that has not joined last, changes nothing.
func TestLateReport(t *testing.T) {
	s := start(t, nil)
	join := func(session uint64) {
		t.Helper()
		if _, err := s.cluster.join(&wire.JoinRequest{Node: "n1", Session: session}); err != nil {
			t.Fatal(err)
		}
	}
	report := func(what string, session, number uint64, state string, want connect.Code) {
		t.Helper()
		k := task("c1")
		k.State = state
		_, err := s.api.Report(t.Context(), &wire.NodeReport{Node: "n1", Session: session, Report: number, Tasks: []*wire.Task{k}})
		if err != nil && connect.CodeOf(err) != want || err == nil && want != 0 {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if is := s.container("c1").State; (is == state) != (want == 0) {
			t.Errorf("%s that says %s: the container is %s", what, state, is)
		}
	}
	join(7)
	report("the first", 7, 3, "running", 0)
	report("an earlier one", 7, 2, "suspended", connect.CodeAborted)
	report("one of a process before", 6, 9, "suspended", connect.CodeAborted)
	report("the next", 7, 4, "suspended", 0)
	join(7) // it has lost its stream
	report("one of the old stream", 7, 4, "running", connect.CodeAborted)
	report("one of the new stream", 7, 5, "running", 0)
	join(8) // it was started again
	report("one from before the start", 7, 6, "suspended", connect.CodeAborted)
	report("the first after it", 8, 1, "suspended", 0)
	join(0) // an older version
	report("one without a number", 0, 0, "running", 0)
	report("another", 0, 0, "suspended", 0)
}

// TestReplaced: the second of two nodes of one name has it.
func TestReplaced(t *testing.T) {
	testkit.NoLeaks(t)
	s := start(t, nil)
	m := s.machine("n1", task("c1"))
	defer m.keep()()
	s.preempt("c1")
	first := m.order()
	old := m.over
	m.join()
	if err := <-old; connect.CodeOf(err) != connect.CodeAborted || !strings.Contains(err.Error(), "name") {
		t.Fatalf("the first stream ended with %v", err)
	}
	if o := m.order(); o.Number != first.Number {
		t.Fatalf("the second stream got %v, not %v", o, first)
	}
	if n := s.containers(0, 0).Nodes; n != 1 {
		t.Errorf("%d nodes", n)
	}
}

// TestLate: an order that is not answered is over some time, unless it is being done.
func TestLate(t *testing.T) {
	s := start(t, func(c *Config) { c.timing.patience = 300 * time.Millisecond })
	m := s.machine("n1", task("c1"), task("c2"))
	m.set("c2", func(t *wire.Task) { t.Doing = "" })
	defer m.keep()()
	began := time.Now()
	s.preempt("c1", "c2")
	m.order()
	m.order()
	c := s.until("c1", "given up", func(c *wire.Container) bool { return c.Ordered == "" })
	if !strings.Contains(c.Reason, "has not done it in time") || time.Since(began) < 300*time.Millisecond {
		t.Fatalf("%v after %v", c, time.Since(began))
	}
}

// TestBusyIsNotLate: nor is one that its node is at, for which another one is given up.
func TestBusyIsNotLate(t *testing.T) {
	for doing, want := range map[string]string{"suspending": "suspend", "": ""} {
		s := start(t, nil)
		m := s.machine("n1", task("c1"))
		s.preempt("c1")
		o := m.order()
		m.set("c1", func(t *wire.Task) { t.Doing = doing })
		m.report()
		unlock := s.cluster.lock()
		s.cluster.orders.expire(time.Now().Add(quick.patience + time.Duration((o.ExpectedDelay*10+1)*float64(time.Second))))
		unlock()
		if c := s.container("c1"); c.Ordered != want {
			t.Errorf("of one that is %q: %v", doing, c)
		}
	}
}

// TestBusyForEver: a node that is at something with a container and does not end it is waited for a stated time. Then
// an order is given up, and there is no answer about the container: its scheduler does what it does without one.
func TestBusyForEver(t *testing.T) {
	for _, c := range []struct {
		name, line string
		order      bool
	}{
		{"ordered", "an order is given up", true}, {"not ordered", "a container is not waited for any longer", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, nil)
			m := s.machine("n1", task("c1"))
			if c.order {
				s.preempt("c1")
				m.order()
			}
			m.set("c1", func(t *wire.Task) { t.Doing, t.Operation = "suspending", wire.Operation(headrace.Suspending) })
			m.report()
			later := func(d time.Duration) {
				defer s.cluster.lock()()
				now := time.Now().Add(d)
				s.cluster.orders.expire(now)
				if err := s.cluster.containers.update(s.cluster.members.all["n1"], proto.CloneOf(m.tasks[0]), headrace.Running, now); err != nil {
					t.Fatal(err)
				}
			}
			later(quick.busy - time.Minute)
			wantDecision(t, s.preempt("c1")[0], "suspend", "")
			if k := s.container("c1"); convert.Doing(k) != "suspending" || (convert.Ordered(k) == "suspend") != c.order {
				t.Fatalf("before its time is over: %v", k)
			}
			later(quick.busy + 5*time.Minute)
			k := s.container("c1")
			if convert.Ordered(k) != "" || convert.Doing(k) != "" || !strings.Contains(k.Reason, "its node has been at it for 1h") || !strings.Contains(k.Reason, "(suspending)") {
				t.Errorf("when its time is over: %v", k)
			}
			if n := s.log.count(c.line); n != 1 {
				t.Errorf("%d lines:\n%s", n, s.log)
			}
			wantDecision(t, s.preempt("c1")[0], "", "its node has been at it")
			prices, err := s.api.Price(t.Context(), &wire.PriceRequest{Victims: []*wire.Victim{{Container: "c1"}}})
			if err != nil || prices.Prices[0].Cost != nil {
				t.Errorf("it has a price: %v, %v", prices, err)
			}
			m.none()
			// It ends all the same.
			m.set("c1", func(t *wire.Task) {
				t.State, t.TaskState, t.Doing, t.Operation, t.SinceMs = "suspended", wire.TaskState(headrace.Suspended)+1, "", 0, time.Now().UnixMilli()
			})
			m.report()
			if k := s.container("c1"); !convert.In(k, headrace.Suspended) || k.Reason != "" {
				t.Errorf("when it has ended all the same: %v", k)
			}
			wantDecision(t, s.preempt("c1")[0], "suspend", "already")
		})
	}
}

// TestForget: a node that is away for long is forgotten with its containers.
func TestForget(t *testing.T) {
	s := start(t, func(c *Config) { c.timing.forget = 300 * time.Millisecond })
	m := s.machine("n1", task("c1"))
	m.leave()
	s.until("c1", "forgotten", func(c *wire.Container) bool { return c == nil })
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	if len(s.cluster.members.all)+len(s.cluster.containers.all)+len(s.cluster.containers.on)+len(s.cluster.orders.all) != 0 {
		t.Errorf("left: %v", s.cluster)
	}
}

// TestRestart: a manager that is started again knows everything once the nodes have
// come back, and who asks for what is newer than the answer of an earlier one learns that it is another: no call need
// have failed meanwhile.
func TestRestart(t *testing.T) {
	s := start(t, func(c *Config) { c.Listen = "127.0.0.46:0" }) // where no connection of others takes the port while it is down
	m := s.machine("n1", task("c1"))
	s.preempt("c1")
	o := m.order()
	before := s.containers(0, 0).Version
	addr := s.Addr().String()
	s.stop()
	if err := <-m.over; connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("the stream ended with %v", err)
	}
	s = start(t, func(c *Config) { c.Listen, c.timing.settle = addr, time.Hour })
	wantDecision(t, s.preempt("c1")[0], "wait", "not known yet")
	if _, err := s.api.Resume(context.Background(), &wire.ResumeRequest{Container: "c1"}); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("resume before the node is back: %v", err)
	}
	for _, q := range []*wire.ContainersRequest{
		{Version: before, Wait: 5}, {Version: before, Wait: 5, Aside: true}, {Version: before}, {Version: 1 << 63, Wait: 5},
	} {
		if res, err := s.api.Containers(t.Context(), q); connect.CodeOf(err) != connect.CodeFailedPrecondition {
			t.Errorf("%v: %v, %v", q, res, err)
		}
	}
	if res := s.containers(s.containers(0, 0).Version, 0.01); res.Version <= before || len(res.Containers) != 0 {
		t.Fatalf("after the start: %v, before %d", res, before)
	}
	m.s = s
	m.join()
	m.finish(o, "") // of the manager before
	c := s.container("c1")
	if c.State != "suspended" || c.Ordered != "" || c.Preemptions != 1 {
		t.Fatalf("%v", c)
	}
	wantDecision(t, s.preempt("c1")[0], "suspend", "already")
	s.preempt("c1")
	if _, err := s.api.Resume(context.Background(), &wire.ResumeRequest{Container: "c1"}); err != nil {
		t.Fatal(err)
	}
	if again := m.order(); again.Number <= o.Number {
		t.Errorf("the number %d was used before (%d)", again.Number, o.Number)
	}
}

// TestStuckNode: a node that reads nothing does not hold up anybody, and its stream
// does not last for ever.
func TestStuckNode(t *testing.T) {
	s := start(t, func(c *Config) { c.timing.send, c.timing.spare = 2*time.Second, 1 })
	other := s.machine("n2", task("c2"))
	defer other.keep()()
	conn := stuckJoin(t, s, "n1")
	defer conn.Close()
	m := &machine{s: s, name: "n1", info: &wire.NodeInfo{Memory: 1000 * gb, Stores: []*wire.Store{{Name: "disk", Write: 1e9, Read: 1e9, Free: 1000 * gb}}}}
	var ids []string
	for i := range 200 {
		k := task(fmt.Sprint("k", i))
		k.NoSuspend = strings.Repeat("x", maxText)
		m.tasks, ids = append(m.tasks, k), append(ids, k.Id)
	}
	m.report()
	// As many orders, with as much in them, as it takes to fill what the kernel holds.
	end := time.Now().Add(patience)
	for lost := false; !lost; {
		if time.Now().After(end) {
			t.Fatal("the stream of the node that reads nothing does not end")
		}
		for _, d := range s.preempt(ids...) {
			if convert.MechanismName(d) == "checkpoint" && len(d.Reason) < maxText {
				t.Fatalf("%s: %s, %.100s", d.Container, convert.MechanismName(d), d.Reason)
			}
		}
		time.Sleep(10 * time.Millisecond) // for the sender to take them
		var failed []*wire.OrderResult
		for _, o := range s.outstandingOf("n1") {
			failed = append(failed, &wire.OrderResult{Number: o.wire.Number, Error: "not now"})
		}
		lost = m.tryReport(failed...) != nil
	}
	s.preempt("c2")
	if o := other.order(); o.Container != "c2" {
		t.Fatalf("order %v", o)
	}
}
