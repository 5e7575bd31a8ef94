package manager

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/wire"
	"headrace/wire/convert"
)

// TestSuspendAndResume goes the usual way of a container.
func TestSuspendAndResume(t *testing.T) {
	testkit.NoLeaks(t)
	s := start(t, nil)
	m := s.machine("n1", task("c1"), task("c2"))
	defer m.keep()()

	d := s.preempt("c1")[0]
	wantDecision(t, d, "suspend", "")
	o := m.order()
	if o.Container != "c1" || verb(o) != "suspend" || o.Number == 0 || o.ExpectedDelay != d.Delay || o.Reason == "" {
		t.Fatalf("order %v for decision %v", o, d)
	}
	if c := s.container("c1"); c.Ordered != "suspend" || c.State != "running" || c.Node != "n1" || c.User != "ada" || c.Hosting.Queue != "low" {
		t.Fatalf("while it is ordered: %v", c)
	}
	again := s.preempt("c1")[0]
	if convert.MechanismName(again) != "suspend" || again.Delay != d.Delay || again.Reason != d.Reason {
		t.Fatalf("asked again: %v, want %v", again, d)
	}
	if len(s.outstandingOf("n1")) != 1 {
		t.Fatal("a second order was given")
	}

	m.finish(o, "")
	c := s.until("c1", "suspended", func(c *wire.Container) bool { return c.State == "suspended" })
	if c.Ordered != "" || c.SinceMs == 0 {
		t.Fatalf("suspended: %v", c)
	}
	wantDecision(t, s.preempt("c1")[0], "suspend", "already")
	m.none()

	for range 2 { // asking twice is asking once
		if _, err := s.api.Resume(context.Background(), &wire.ResumeRequest{Container: "c1"}); err != nil {
			t.Fatal(err)
		}
	}
	o = m.order()
	if o.Container != "c1" || verb(o) != "resume" {
		t.Fatalf("order %v", o)
	}
	if c := s.container("c1"); c.Ordered != "resume" || c.State != "suspended" {
		t.Fatalf("while the resume is ordered: %v", c)
	}
	wantDecision(t, s.preempt("c1")[0], "wait", "brought back")
	m.finish(o, "")
	s.until("c1", "running", func(c *wire.Container) bool { return c.State == "running" && c.Ordered == "" })
	m.none()
	if n := s.log.count("msg=preempt"); n != 1 {
		t.Errorf("%d lines about one decision:\n%s", n, s.log)
	}
}

// finish carries out an order, or has it fail, and reports.
func (m *machine) finish(o *wire.NodeOrder, err string) {
	m.s.t.Helper()
	if err == "" {
		m.set(o.Container, func(t *wire.Task) {
			t.State = map[string]string{"suspend": "suspended", "checkpoint": "checkpointed", "resume": "running"}[verb(o)]
			t.SinceMs, t.Doing = time.Now().UnixMilli(), ""
			switch verb(o) {
			case "archive":
				t.State, t.Archived = "checkpointed", true
			case "suspend":
				t.Preemptions, t.KeepsRoom = t.Preemptions+1, false
				t.Usage.Swapped += o.PageOut
				t.Usage.Resident -= o.PageOut
			case "checkpoint":
				t.Preemptions++
				t.Checkpoint = &wire.CheckpointInfo{Store: cmp.Or(o.Store, "disk"), TotalBytes: t.Usage.Resident}
				t.Usage.Resident, t.Usage.Dirty, t.Usage.SinceSaveWall = 0, 0, 0
			}
		})
	}
	m.report(&wire.OrderResult{Number: o.Number, Error: err})
}

func TestCheckpoint(t *testing.T) {
	s := start(t, func(c *Config) { c.Policy.Policy = policy.Checkpoint })
	m := s.machine("n1", task("c1"))
	defer m.keep()()
	d := s.preempt("c1")[0]
	wantDecision(t, d, "checkpoint", "")
	o := m.order()
	if verb(o) != "checkpoint" || o.Store != "disk" || d.Store != "disk" || d.Delay < 5 || d.Waste < 10 {
		t.Fatalf("order %v, decision %v", o, d)
	}
	m.finish(o, "")
	s.until("c1", "checkpointed", func(c *wire.Container) bool { return c.State == "checkpointed" && c.Ordered == "" })
	if _, err := s.api.Resume(context.Background(), &wire.ResumeRequest{Container: "c1"}); err != nil {
		t.Fatal(err)
	}
	if o := m.order(); verb(o) != "resume" || o.ExpectedDelay < 5 {
		t.Fatalf("order %v", o)
	}
}

// TestProgress: what an application tells of its containers counts like what they tell
// themselves; nobody else may tell it.
func TestProgress(t *testing.T) {
	const most = 0.9999 // of an hour
	for _, c := range []struct {
		name        string
		own         float64
		told        *wire.ContainerProgress
		fresh       time.Duration
		want, count string
	}{
		{"nobody tells it", -1, nil, time.Hour, "checkpoint", ""},
		{"it tells itself", most, nil, time.Hour, "wait", ""},
		{"its application tells it", -1, &wire.ContainerProgress{Container: "c1", User: "ada", Share: most}, time.Hour, "wait", "taken"},
		{"it knows better", 0.1, &wire.ContainerProgress{Container: "c1", User: "ada", Share: most}, time.Hour, "checkpoint", "taken"},
		{"that was long ago", -1, &wire.ContainerProgress{Container: "c1", User: "ada", Share: most}, 0, "checkpoint", "taken"},
		{"somebody else tells it", -1, &wire.ContainerProgress{Container: "c1", User: "eve", Share: most}, time.Hour, "checkpoint", "refused"},
		{"no share", -1, &wire.ContainerProgress{Container: "c1", User: "ada", Share: math.NaN()}, time.Hour, "checkpoint", "refused"},
		{"of no container", -1, &wire.ContainerProgress{Container: "c9", User: "ada", Share: most}, time.Hour, "checkpoint", "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, func(cfg *Config) { cfg.Policy.Policy, cfg.timing.fresh = policy.Cost, c.fresh })
			k := task("c1")
			k.NoSuspend, k.Progress = "a test says so", c.own
			m := s.machine("n1", k)
			if c.told != nil {
				m.told = append(m.told, c.told)
				m.report()
			}
			wantDecision(t, s.preempt("c1")[0], c.want, "")
			if line := `headrace_manager_progress_total{result="` + c.count + `"} 1`; c.count != "" && !strings.Contains(s.get("/metrics"), line) {
				t.Errorf("the metrics lack %s", line)
			}
		})
	}
}

// TestOutlivedPromise: a container that says that it is done is waited for, but not when it
// then runs on.
func TestOutlivedPromise(t *testing.T) {
	s := start(t, func(c *Config) { c.Policy.Policy = policy.Cost })
	k := task("c1")
	k.Progress = 1
	m := s.machine("n1", k)
	wantDecision(t, s.preempt("c1")[0], "wait", "")
	m.set("c1", func(t *wire.Task) { t.Usage.Running += 60 })
	m.report()
	wantDecision(t, s.preempt("c1")[0], "suspend", "")
}

// TestPromisesSurvive: which end a container has told is not forgotten by a restart of the manager, for its node
// keeps it. One that is older does not, and all is as it was.
func TestPromisesSurvive(t *testing.T) {
	cost := func(c *Config) { c.Policy.Policy = policy.Cost }
	for older, want := range map[bool]string{false: "suspend", true: "wait"} {
		s := start(t, cost)
		k := task("c1")
		k.Progress = 1
		m := s.machine("n1", k)
		m.older = older
		wantDecision(t, s.preempt("c1")[0], "wait", "")
		m.report() // the answer has it
		s.stop()
		<-m.over
		m.s = start(t, cost)
		m.join()
		m.set("c1", func(t *wire.Task) { t.Usage.Running += 60 })
		m.report()
		wantDecision(t, m.s.preempt("c1")[0], want, "")
	}
}

// TestPromiseOfTheOneBefore: a container that is launched again under its name has promised nothing.
func TestPromiseOfTheOneBefore(t *testing.T) {
	s := start(t, func(c *Config) { c.Policy.Policy = policy.Cost })
	k := task("c1")
	k.Progress = 1
	m := s.machine("n1", k)
	wantDecision(t, s.preempt("c1")[0], "wait", "")
	m.set("c1", func(t *wire.Task) { t.SubmittedMs++; t.Usage.Running += 60 })
	m.report()
	wantDecision(t, s.preempt("c1")[0], "wait", "")
}

// TestFailure: what went wrong is told, and not tried again at once.
func TestFailure(t *testing.T) {
	s := start(t, nil)
	m := s.machine("n1", task("c1"))
	wantDecision(t, s.preempt("c1")[0], "suspend", "")
	m.finish(m.order(), "a process is traced")
	c := s.container("c1")
	if c.Ordered != "" || c.State != "running" || !strings.Contains(c.Reason, "suspend failed: a process is traced") {
		t.Fatalf("after the failure: %v", c)
	}
	wantDecision(t, s.preempt("c1")[0], "checkpoint", "it cannot be suspended: it failed a moment ago: a process is traced")
	if c := s.container("c1"); c.Ordered != "checkpoint" || strings.Contains(c.Reason, "traced") {
		t.Fatalf("with a new order: %v", c)
	}
	m.finish(m.order(), "no space left on device")
	wantDecision(t, s.preempt("c1")[0], "wait", "cannot be suspended")
	m.none()
}

// TestOneAfterAnother: dumps to one store queue, also within a request and before the
// node has said so.
func TestOneAfterAnother(t *testing.T) {
	s := start(t, func(c *Config) { c.Policy.Policy = policy.Checkpoint })
	m := s.machine("n1", task("c1"), task("c2"), task("c3"))
	both := s.preempt("c1", "c2", "c1")
	third := s.preempt("c3")[0]
	one := both[0].Delay
	if one < 5 || both[1].Delay < 1.99*one || third.Delay < 2.99*one || both[2].Delay != one {
		t.Fatalf("delays %v, %v and %v, %v", both[0].Delay, both[1].Delay, third.Delay, both[2].Delay)
	}
	// What the node has begun is in its own queue.
	o := m.order()
	m.set("c1", func(t *wire.Task) { t.Doing = "checkpointing" })
	m.info.Stores[0].Queue = one
	m.tasks = append(m.tasks, task("c4"))
	m.report()
	if d := s.preempt("c4")[0]; d.Delay > 4.01*one || d.Delay < 3.9*one {
		t.Fatalf("delay %v, want four dumps of %v", d.Delay, one)
	}
	if o.Container != "c1" {
		t.Fatalf("order %v comes first", o)
	}
	if c := s.container("c1"); c.Doing != "checkpointing" || c.Ordered != "checkpoint" {
		t.Fatalf("%v", c)
	}
}

// TestMemory: what is decided together does not count on the same room.
func TestMemory(t *testing.T) {
	s := start(t, nil)
	m := &machine{s: s, name: "n1", tasks: []*wire.Task{task("c1"), task("c2"), task("c3")},
		info: &wire.NodeInfo{Memory: 3 * gb, SwapFree: 4 * gb, SwapOut: 500e6, SwapIn: 500e6}}
	for _, t := range m.tasks {
		t.Usage.Resident = gb
	}
	m.join()
	m.report()
	for i, d := range s.preempt("c1", "c2") {
		wantDecision(t, d, "suspend", "")
		if o := m.order(); o.PageOut != gb {
			t.Errorf("order %d pages out %d", i, o.PageOut)
		}
	}
	// 4 GB of swap, of which 0.4 are kept: a third and a fourth would not fit.
	m.tasks = append(m.tasks, task("c4"))
	m.set("c4", func(t *wire.Task) { t.Usage.Resident = gb })
	m.report()
	wantDecision(t, s.preempt("c3")[0], "suspend", "")
	d := s.preempt("c4")[0]
	wantDecision(t, d, "wait", "paged out")
}

// TestClaims: room that was made stays taken until somebody comes.
func TestClaims(t *testing.T) {
	s := start(t, nil)
	m := &machine{s: s, name: "n1", tasks: []*wire.Task{task("c1"), task("c2")},
		info: &wire.NodeInfo{Memory: 3 * gb, SwapFree: 8 * gb, SwapOut: 500e6, SwapIn: 500e6}}
	for _, t := range m.tasks {
		t.Usage.Resident = gb
	}
	m.join()
	m.report()
	s.preempt("c1")
	o := m.order()
	if o.PageOut != 0 { // 3 GB hold three of 1 GB
		t.Fatalf("order %v", o)
	}
	m.finish(o, "")
	s.preempt("c2") // c1 in memory, c2, and whoever c1 has left for: full
	if o = m.order(); o.PageOut != gb {
		t.Fatalf("order %v", o)
	}
	m.finish(o, "")
	s.cluster.mu.Lock()
	claims := s.cluster.containers.on[s.cluster.members.all["n1"]].claims
	s.cluster.mu.Unlock()
	if len(claims) != 2 || claims[0].Bytes != gb {
		t.Fatalf("claims %v", claims)
	}
	m.tasks = append(m.tasks, task("c3"))
	m.report()
	if claims[0].Bytes != 0 || claims[1].Bytes != gb {
		t.Fatalf("claims %v once somebody has come", claims)
	}
}

// TestObserve: nothing is sent, nothing is remembered, and the decisions are the same.
func TestObserve(t *testing.T) {
	s := start(t, func(c *Config) { c.Policy.Policy = policy.Checkpoint })
	m := s.machine("n1", task("c1"), task("c2"))
	q := &wire.PreemptRequest{Observe: true, Victims: []*wire.Victim{{Container: "c1"}, {Container: "c2"}, {Container: "c1"}, {Container: "c9"}}}
	before := s.containers(0, 0).Version
	for range 2 {
		res, err := s.api.Preempt(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		d := res.Decisions
		if convert.MechanismName(d[0]) != "checkpoint" || d[1].Delay < 1.9*d[0].Delay || d[2].Delay != d[0].Delay || convert.MechanismName(d[3]) != "wait" {
			t.Fatalf("decisions %v", d)
		}
	}
	m.none()
	if v := s.containers(0, 0).Version; v != before {
		t.Errorf("version %d, was %d", v, before)
	}
	if n := s.log.count(`mechanism="would checkpoint"`); n != 2 {
		t.Errorf("%d lines:\n%s", n, s.log)
	}
}

func TestKillIsTheSchedulersBusiness(t *testing.T) {
	s := start(t, func(c *Config) { c.Policy.Policy = policy.Kill })
	m := s.machine("n1", task("c1"))
	for range 2 {
		wantDecision(t, s.preempt("c1")[0], "kill", "")
	}
	m.none()
	m.tasks = nil
	m.report()
	if c := s.container("c1"); c != nil {
		t.Fatalf("it has ended: %v", c)
	}
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	if n := len(s.cluster.containers.on[s.cluster.members.all["n1"]].claims); n != 1 {
		t.Errorf("%d claims", n)
	}
}

// TestSettled is about containers about which nothing is to be decided.
func TestSettled(t *testing.T) {
	s := start(t, nil)
	tasks := []*wire.Task{task("pending"), task("ending"), task("dumping"), task("coming"), task("gone"), task("held")}
	tasks[0].State = "pending"
	tasks[1].Doing, tasks[2].Doing = "killing", "checkpointing"
	tasks[3].State, tasks[3].Doing = "suspended", "resuming"
	tasks[4].State, tasks[4].ExitCode = "failed", 1
	tasks[5].State, tasks[5].Held = "suspended", true
	local := task("local")
	local.Hosting = nil
	s.machine("n1", append(tasks, local)...)
	for _, c := range []struct{ id, mechanism, reason string }{
		{"pending", "wait", "has not been started"}, {"ending", "wait", "being killed"}, {"dumping", "checkpoint", "already"},
		{"coming", "wait", "coming to run"}, {"gone", "wait", "ended already"}, {"local", "wait", "not known"}, {"held", "suspend", "already"}, {"", "wait", "not known"},
	} {
		wantDecision(t, s.preempt(c.id)[0], c.mechanism, c.reason)
	}
	for id, code := range map[string]connect.Code{
		"pending": connect.CodeFailedPrecondition, "held": connect.CodeFailedPrecondition, "dumping": connect.CodeFailedPrecondition,
		"gone": connect.CodeNotFound, "coming": 0,
	} {
		_, err := s.api.Resume(context.Background(), &wire.ResumeRequest{Container: id})
		if got := connect.CodeOf(err); err != nil && got != code || err == nil && code != 0 {
			t.Errorf("resume %s: %v, want %v", id, err, code)
		}
	}
}

// TestHostileNumbers: whatever a node reports, there is a decision.
func TestHostileNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	number := func() int64 {
		return []int64{0, 1, -1, math.MaxInt64, math.MinInt64, gb, 1 << 50}[r.IntN(7)]
	}
	share := func() float64 {
		return []float64{0, 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e300, 1e-300, 0.5}[r.IntN(9)]
	}
	for i, p := range slices.Repeat(policy.Names(), 300) {
		c, reports := bigSite(1, 4, p)
		rep := reports[0]
		rep.Info = &wire.NodeInfo{Memory: number(), MemoryUsed: number(), SwapFree: number(), SwapOut: share(), SwapIn: share()}
		for range r.IntN(3) {
			rep.Info.Stores = append(rep.Info.Stores, &wire.Store{Name: "s", Write: share(), Read: share(), Free: number(),
				DumpOverhead: share(), RestoreOverhead: share(), Queue: share()})
		}
		for _, k := range rep.Tasks {
			k.Memory, k.Progress, k.LostWall, k.SinceMs, k.Priority = number(), share(), share(), number(), r.Uint32()
			k.Cpus = share()
			k.Usage = &wire.Usage{Resident: number(), Swapped: number(), Dirty: number(), Running: share(), SinceSaveWall: share(), SinceSaveCpu: share()}
			if r.IntN(2) == 0 {
				k.Checkpoint = &wire.CheckpointInfo{Store: "s", TotalBytes: number()}
			}
			k.State = []string{"running", "running", "suspended", "checkpointed"}[r.IntN(4)]
		}
		if err := checkReport(rep); err != nil {
			continue
		}
		if _, err := c.report(rep); err != nil {
			t.Fatal(err)
		}
		var victims []*wire.Victim
		for _, k := range rep.Tasks {
			victims = append(victims, &wire.Victim{Container: k.Id, ForPriority: r.Uint32N(12)})
		}
		for _, d := range c.preempt(victims, r.IntN(2) == 0) {
			sane := func(x float64) bool { return x >= 0 && !math.IsInf(x, 0) }
			if convert.MechanismName(d) == "" || d.Reason == "" || !sane(d.Delay) || !sane(d.Waste) {
				t.Fatalf("round %d, %s: %v of\n%v", i, p, d, rep)
			}
		}
	}
}
