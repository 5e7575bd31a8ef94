package manager

import (
	"context"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"headrace/policy"
	"headrace/wire"
	"headrace/wire/convert"
)

// Draining has everything go on, also what a user holds, and nothing give way, until it
// is ended.
func TestDrain(t *testing.T) {
	s := start(t, nil)
	held, dumped, runs := task("held"), task("dumped"), task("runs")
	held.State, held.Held = "suspended", true
	dumped.State = "checkpointed"
	m := s.machine("n1", held, dumped, runs)
	drain := func(end bool) *wire.DrainResponse {
		t.Helper()
		res, err := s.api.Drain(context.Background(), &wire.DrainRequest{End: end})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := drain(false); res.Left != 2 || res.Away != 0 {
		t.Fatalf("left %v, want 2", res)
	}
	fails, works := m.order(), m.order()
	for _, o := range []*wire.NodeOrder{fails, works} {
		if verb(o) != "resume" || !o.Force {
			t.Errorf("order %v, want a forced resume", o)
		}
	}
	wantDecision(t, s.preempt("runs")[0], "wait", "being drained")
	wantDecision(t, s.preempt("stranger")[0], "wait", "being drained")
	m.finish(works, "")
	m.finish(fails, "no room for it")
	if res := drain(false); res.Left != 1 || len(res.Problems) != 1 || !strings.Contains(res.Problems[0], "no room for it") {
		t.Errorf("with a failure: %v", res)
	}
	if people, err := s.api.Nodes(context.Background(), &wire.NodesRequest{}); err != nil || !people.Draining {
		t.Errorf("it does not tell that it is draining: %v", err)
	}
	drain(true)
	wantDecision(t, s.preempt("runs")[0], "suspend", "")
}

// What is on a node that is away is counted, and goes on when the node comes back.
func TestDrainAway(t *testing.T) {
	s := start(t, func(c *Config) { c.Drain = true })
	k := task("c1")
	m := s.machine("n1", k)
	m.set("c1", func(t *wire.Task) { t.State = "suspended" })
	m.leave()
	s.until("c1", "away", func(c *wire.Container) bool { return c.Away })
	m.join()
	m.report()
	defer m.keep()()
	if o := m.order(); verb(o) != "resume" || !o.Force {
		t.Errorf("order %v", o)
	}
}

func TestForgetNode(t *testing.T) {
	s := start(t, nil)
	m := s.machine("old", task("c1"))
	forget := func(name string) connect.Code {
		_, err := s.api.Forget(context.Background(), &wire.ForgetNodeRequest{Node: name})
		if err == nil {
			return 0
		}
		return connect.CodeOf(err)
	}
	if code := forget("old"); code != connect.CodeFailedPrecondition {
		t.Errorf("forget a node that is here: %v", code)
	}
	m.leave()
	s.until("c1", "away", func(c *wire.Container) bool { return c.Away })
	if code := forget("other"); code != connect.CodeNotFound {
		t.Errorf("forget a node that nobody knows: %v", code)
	}
	if code := forget("old"); code != 0 {
		t.Errorf("forget a node that is away: %v", code)
	}
	if s.container("c1") != nil {
		t.Error("its container is still told")
	}
	m.join()
	m.report()
	if s.container("c1") == nil {
		t.Error("it was not taken in again")
	}
}

// The queue and the priority of a container are what its scheduler tells of its
// application.
func TestApplications(t *testing.T) {
	s := start(t, nil)
	k := task("c1")
	k.Hosting.Queue = ""
	s.machine("n1", k, task("c2"))
	tell := func(q *wire.ContainersRequest) {
		t.Helper()
		if _, err := s.api.Containers(context.Background(), q); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(id, queue string, priority uint32) {
		t.Helper()
		if c := s.container(id); c.Hosting.Queue != queue || c.Priority != priority {
			t.Errorf("%s is in the queue %q with priority %d, want %q and %d", id, c.Hosting.Queue, c.Priority, queue, priority)
		}
	}
	tell(&wire.ContainersRequest{Applications: map[string]*wire.Application{"application_1": {Queue: "root.day"}}})
	expect("c1", "root.day", 0)
	tell(&wire.ContainersRequest{Applications: map[string]*wire.Application{"application_1": {Queue: "root.night", Priority: 7}}})
	expect("c1", "root.night", 7)
	expect("c2", "low", 7)
	tell(&wire.ContainersRequest{}) // says nothing
	expect("c1", "root.night", 7)
	long := strings.Repeat("q", maxName+1) // whoever submits an application may write what they like
	tell(&wire.ContainersRequest{Applications: map[string]*wire.Application{"application_1": {Queue: "root.day", Priority: 7}, "application_2": {Queue: long}}})
	expect("c1", "root.day", 7)
	tell(&wire.ContainersRequest{Applications: map[string]*wire.Application{"application_1": {Queue: long}}})
	expect("c1", long[:maxName], 0)
	tell(&wire.ContainersRequest{AllApplications: true}) // none
	expect("c1", "", 2)
}

// TestEndedApplications: what a scheduler tells of applications that have ended for good is told to nodes, but not of one that it
// names as one that runs. Of what it has not told nothing is known, as after a start of the manager.
func TestEndedApplications(t *testing.T) {
	s := start(t, nil)
	expect := func(want ...string) {
		t.Helper()
		res, err := s.api.Ended(context.Background(), &wire.EndedRequest{Applications: []string{"application_1", "application_2", "application_3"}})
		if err != nil || !slices.Equal(res.Applications, want) {
			t.Errorf("ended have %q, %v; want %q", res.GetApplications(), err, want)
		}
	}
	tell := func(running string, ended ...string) {
		t.Helper()
		q := &wire.ContainersRequest{Applications: map[string]*wire.Application{running: {}}, AllApplications: true, EndedApplications: ended}
		if _, err := s.api.Containers(context.Background(), q); err != nil {
			t.Fatal(err)
		}
	}
	expect()
	tell("application_1")
	tell("application_2")
	expect() // that it is not named any more does not mean that it has ended
	tell("application_3", "application_1", "application_2")
	expect("application_1", "application_2")
	tell("application_3") // the scheduler forgets them some time
	expect("application_1", "application_2")
	tell("application_2", "application_2")
	expect("application_1")
	long := strings.Repeat("a", maxName+1)
	for _, bad := range [][]string{{long}, make([]string, maxEnded+1)} {
		_, err := s.api.Containers(context.Background(), &wire.ContainersRequest{AllApplications: true, EndedApplications: bad})
		_, asked := s.api.Ended(context.Background(), &wire.EndedRequest{Applications: bad})
		if connect.CodeOf(err) != connect.CodeInvalidArgument || connect.CodeOf(asked) != connect.CodeInvalidArgument {
			t.Errorf("%d names are taken: %v, %v", len(bad), err, asked)
		}
	}
}

// What a second of a container counts depends on its priority, and on that of who waits:
// of twenty seconds of work cost throws away those of the least, for somebody who is far
// more urgent, and writes the others to storage in ten.
func TestPrioritiesCount(t *testing.T) {
	s := start(t, func(c *Config) { c.Policy.Policy = policy.Cost })
	k := task("c1")
	k.NoSuspend = "it may not"
	k.Usage.SinceSaveWall, k.Usage.SinceSaveCpu = 20, 20
	s.machine("n1", k)
	for _, c := range []struct {
		own, waits uint32
		want       string
	}{
		{0, 11, "kill"}, {10, 11, "checkpoint"}, {5, 6, "checkpoint"}, {0, 1, "checkpoint"},
		{0, 0, "kill"}, // for an urgent one
	} {
		s.applications(t, map[string]*wire.Application{"application_1": {Queue: "root.day", Priority: c.own}})
		res, err := s.api.Preempt(context.Background(), &wire.PreemptRequest{
			Observe: true, Victims: []*wire.Victim{{Container: "c1", ForPriority: c.waits}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if d := res.Decisions[0]; convert.MechanismName(d) != c.want {
			t.Errorf("of priority %d, for %d: %s (%s), want %s", c.own, c.waits, convert.MechanismName(d), d.Reason, c.want)
		}
	}
}

func (s *site) applications(t *testing.T, all map[string]*wire.Application) {
	t.Helper()
	if _, err := s.api.Containers(context.Background(), &wire.ContainersRequest{Applications: all}); err != nil {
		t.Fatal(err)
	}
}
