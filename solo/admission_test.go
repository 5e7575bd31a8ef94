package solo

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/config"
	"headrace/internal/accounts"
	"headrace/limits"
	"headrace/policy"
	"headrace/proc"
	"headrace/serve"
	"headrace/solo/journal"
	"headrace/wire"
)

// as has root hand in a task as one of the users that every machine has.
func as(user string) func(*wire.RunRequest) {
	return func(q *wire.RunRequest) { q.User = user }
}

func limitsFrom(t *testing.T, text string) *limits.Table {
	t.Helper()
	f, err := config.Parse("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	table, _, err := limits.Read(f, "f", nil, accounts.Here)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestNobodyShutsOthersOut: a user whose endless tasks have every slot, and hundreds
// of whose tasks wait, keeps another user's tasks of the same priority from running
// for no longer than it takes to suspend one.
func TestNobodyShutsOthersOut(t *testing.T) {
	needRoot(t)
	for _, pol := range []policy.Name{policy.Cost, policy.Suspend} {
		t.Run(string(pol), func(t *testing.T) {
			b := newBed(t, pol)
			b.cfg.Slots = 2
			b.start()
			var greedy []headrace.TaskID
			for range 60 {
				greedy = append(greedy, b.run(headrace.High, as("daemon")))
			}
			b.awaitState(greedy[0], headrace.Running)
			b.awaitState(greedy[1], headrace.Running)
			for range 3 {
				modest := b.run(headrace.High, as("bin"))
				b.awaitState(modest, headrace.Running)
				if s := b.get(greedy[0]).State; s != "running" {
					t.Errorf("the other user's own share is %s", s)
				}
				b.finish(modest, 0)
			}
			b.awaitState(greedy[1], headrace.Running) // nobody else waits any more
			if n := b.get(greedy[1]).Preemptions; n == 0 || n > 3 {
				t.Errorf("%d preemptions, want one for each that came, or fewer", n)
			}
			if s := b.get(greedy[2]).State; s != "pending" {
				t.Errorf("one that was not begun went before one that was: %s", s)
			}
		})
	}
}

// TestSharesKillNobody: where only a kill would give another user a share, that user
// has to wait.
func TestSharesKillNobody(t *testing.T) {
	needRoot(t)
	b := newBed(t, policy.Kill)
	b.cfg.Slots = 2
	b.start()
	var greedy []headrace.TaskID
	for range 4 {
		greedy = append(greedy, b.run(headrace.High, as("daemon")))
	}
	b.awaitState(greedy[0], headrace.Running)
	b.awaitState(greedy[1], headrace.Running)
	modest := b.run(headrace.High, as("bin"))
	b.finish(greedy[0], 0)
	b.awaitState(modest, headrace.Running) // before those that came first
	if w := b.get(greedy[1]); w.State != "running" || w.Preemptions != 0 {
		t.Errorf("what was running is %s after %d preemptions", w.State, w.Preemptions)
	}
}

// TestSharesSpareNobodyFromAbove: what is more than a share is not killed for who waits for
// it, but is for a more urgent task, also while the other one waits.
func TestSharesSpareNobodyFromAbove(t *testing.T) {
	needRoot(t)
	for _, pol := range []policy.Name{policy.Cost, policy.Adaptive} {
		t.Run(string(pol), func(t *testing.T) {
			b := newBed(t, pol)
			b.cfg.Slots, b.cfg.Memory, b.cfg.CRIU = 2, 200<<20, ""
			b.mem.SwapTotal, b.mem.SwapFree = 0, 0
			b.start()
			large := func(q *wire.RunRequest) { q.Memory = 100 << 20 }
			var greedy [2]headrace.TaskID
			for i := range greedy {
				greedy[i] = b.run(headrace.Normal, as("daemon"), large)
				b.awaitState(greedy[i], headrace.Running)
				// One of which nobody knows yet what it holds may be suspended: that costs nothing.
				b.await(greedy[i], "measured", func(w *wire.Task) bool { return w.Usage.GetResident() == 100<<20 })
			}
			modest := b.run(headrace.Normal, as("bin"), large)
			b.await(modest, "in the queue, with a reason", func(w *wire.Task) bool { return strings.Contains(w.Reason, "waits for ") })
			if n := b.get(greedy[1]).Preemptions; n != 0 {
				t.Errorf("preempted %d times for a share", n)
			}
			b.awaitState(b.run(headrace.Production, large), headrace.Running)
			if s := b.get(modest).State; s != "pending" {
				t.Errorf("who waits for a share is %s", s)
			}
		})
	}
}

// TestDoneIsNotBelieved: a task that says that it is done, and runs on, gives way.
func TestDoneIsNotBelieved(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.start()
	low := b.run(headrace.Low)
	b.awaitState(low, headrace.Running)
	b.world.with(low, func(t *thing) { t.share = 1 })
	b.await(low, "done, as it says", func(w *wire.Task) bool { return w.Progress == 1 })
	b.awaitState(b.run(headrace.High), headrace.Running)
}

// TestSlotsOfAUser: within the limit the urgent go first; the reason says what they
// wait for; others use what is left; a limit that is raised counts at once.
func TestSlotsOfAUser(t *testing.T) {
	needRoot(t)
	b := newBed(t, policy.Cost)
	b.cfg.Slots = 4
	b.cfg.Limits = limits.NewSource(limitsFrom(t, "[limits user daemon]\nslots = 2\n"))
	b.start()
	first := b.run(headrace.Normal, as("daemon"))
	second := b.run(headrace.Normal, as("daemon"))
	b.awaitState(first, headrace.Running)
	b.awaitState(second, headrace.Running)
	third := b.run(headrace.Normal, as("daemon"))
	urgent := b.run(headrace.High, as("daemon"))
	other := b.run(headrace.Low, as("bin"))
	b.awaitState(other, headrace.Running)
	waits := b.await(urgent, "a reason", func(w *wire.Task) bool { return strings.Contains(w.Reason, "limit slots") })
	if waits.State != "pending" {
		t.Errorf("the third of two is %s", waits.State)
	}
	b.finish(first, 0)
	b.awaitState(urgent, headrace.Running)
	if s := b.get(third).State; s != "pending" {
		t.Errorf("the last is %s", s)
	}
	b.cfg.Limits.Replace(limitsFrom(t, "[limits]\n"))
	b.awaitState(third, headrace.Running)
}

// TestLimitKeepsNoMemory: what is suspended, and may not go on by a limit of its owner, leaves its memory to others who are as
// urgent, however many more urgent tasks the owner has.
func TestLimitKeepsNoMemory(t *testing.T) {
	needRoot(t)
	for _, p := range []headrace.Priority{headrace.High, headrace.Low} {
		t.Run(p.String(), func(t *testing.T) {
			b := newBed(t, policy.Cost)
			b.cfg.Slots, b.cfg.Memory = 2, 1<<30
			b.mem.SwapTotal, b.mem.SwapFree = 0, 0
			b.cfg.Limits = limits.NewSource(limitsFrom(t, "[limits user daemon]\nrunning = 1\n"))
			b.start()
			memory := func(q *wire.RunRequest) { q.Memory = 700 << 20 }
			first := b.run(headrace.Low, as("daemon"), memory)
			b.world.with(first, func(x *thing) { x.resident = 700 << 20 })
			b.awaitState(first, headrace.Running)
			urgent := []headrace.TaskID{b.run(headrace.Production), b.run(headrace.Production)}
			b.awaitState(first, headrace.Suspended)
			second := b.run(headrace.High, as("daemon"))
			for _, id := range urgent {
				b.awaitState(id, headrace.Running)
				b.finish(id, 0)
			}
			b.awaitState(second, headrace.Running)
			b.awaitState(b.run(p, as("bin"), memory), headrace.Running)
			b.awaitState(first, headrace.Checkpointed)
			b.finish(second, 0)
		})
	}
}

// TestLimitCountsWhoIsToLeave: what is to be checkpointed runs on until it is its turn, and has its owner's place for as long.
func TestLimitCountsWhoIsToLeave(t *testing.T) {
	needRoot(t)
	b := newBed(t, policy.Cost)
	b.cfg.Slots = 4
	b.cfg.Limits = limits.NewSource(limitsFrom(t, "[limits user daemon]\nrunning = 1\n"))
	turn := make(chan struct{})
	c := &conn{world: b.world, dumping: func(headrace.TaskID) <-chan struct{} { return turn }}
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	first := b.run(headrace.Low, as("daemon"))
	b.awaitState(first, headrace.Running)
	answered := make(chan error, 1)
	go func() {
		_, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(first)})
		answered <- err
	}()
	b.await(first, "on its way", func(w *wire.Task) bool { return w.Doing != "" })
	second := b.run(headrace.High, as("daemon"))
	b.await(second, "held back", func(w *wire.Task) bool { return w.State == "running" || strings.Contains(w.Reason, "limit running") })
	if s := b.get(second).State; s != "pending" {
		t.Errorf("the second of one is %s", s)
	}
	close(turn)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	b.awaitState(second, headrace.Running)
}

// TestPathsOfInputsCount: paths take room in the records, once for all tasks of a job, until they have ended.
func TestPathsOfInputsCount(t *testing.T) {
	needRoot(t)
	b := newBed(t, policy.Cost)
	b.cfg.Limits = limits.NewSource(limitsFrom(t, "[limits]\nspec-bytes = 100K\n"))
	b.start()
	got := asUser(t, 4001, wire.SocketPath(b.cfg.StateDir), "runpaths 60000", "runpaths 60000")
	if got[0][0] != 't' || got[1] != "resource_exhausted" {
		t.Fatalf("two with 60 KB of paths, of which 100 KB are allowed: %v", got)
	}
	id := headrace.TaskID(got[0])
	b.awaitState(id, headrace.Running)
	b.finish(id, 0)
	b.awaitState(id, headrace.Done)
	b.shutdown()
	file, err := journal.Open(b.cfg.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := file.Load()
	if err != nil || len(all.Records) != 1 {
		t.Fatalf("%d records, %v", len(all.Records), err)
	}
	if in := all.Records[0].Input; in == nil || in.Files != 1 || len(in.Paths) > 0 {
		t.Errorf("the record of a task that has ended: %+v", in)
	}
}

// TestLimitsRefuse: what is beyond a user's limits is refused with the reason, and
// root still may.
func TestLimitsRefuse(t *testing.T) {
	needRoot(t)
	b := newBed(t, policy.Cost)
	b.cfg.Limits = limits.NewSource(limitsFrom(t, "[limits]\nwaiting = 3\nspec-bytes = 100K\n"))
	b.start()
	const uid = 4001
	socket := wire.SocketPath(b.cfg.StateDir)
	high, above := strconv.Itoa(int(headrace.High)), strconv.Itoa(int(headrace.High)+1)
	got := asUser(t, uid, socket, "runat "+above, "runat "+high)
	if got[0] != "permission_denied" || !strings.HasPrefix(got[1], "t") {
		t.Fatalf("above and at the greatest priority: %v", got)
	}
	first := headrace.TaskID(got[1])
	b.awaitState(first, headrace.Running)
	got = asUser(t, uid, socket, "run work", "run work", "run work", "run work")
	if got[2][0] != 't' || got[3] != "resource_exhausted" {
		t.Errorf("the fourth of three that wait: %v", got)
	}
	if got := asUser(t, uid+1, socket, "runlarge 60000", "runlarge 60000"); got[0][0] != 't' || got[1] != "resource_exhausted" {
		t.Errorf("too many bytes: %v", got)
	}
	root := b.run(headrace.Production)
	b.awaitState(root, headrace.Running)
	b.finish(root, 0)
	b.awaitState(first, headrace.Running)
	b.finish(first, 0)
	deadline := time.Now().Add(patience)
	for { // room again, once one of those that waited runs
		got := asUser(t, uid, socket, "run work")
		if got[0][0] == 't' {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing is accepted although one has ended: %v", got)
		}
	}
}

// TestGraceIsLimited: a user's task is not kept from giving way by a long grace that
// the user has asked for. Root may.
func TestGraceIsLimited(t *testing.T) {
	needRoot(t)
	b := newBed(t, policy.Cost)
	b.start()
	socket := wire.SocketPath(b.cfg.StateDir)
	id := asUser(t, 4001, socket, "run work")[0]
	b.awaitState(headrace.TaskID(id), headrace.Running)
	got := asUser(t, 4001, socket, "suspend-slowly "+id, "kill-slowly "+id, "suspend "+id)
	if want := []string{"permission_denied", "permission_denied", "ok"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: id, Grace: 3600}); err != nil {
		t.Errorf("root: %v", err)
	}
}

// TestCheckpointsAreLimited: a user's tasks are checkpointed as far as the limit goes, by whoever wants it but root; what is restored counts no more.
func TestCheckpointsAreLimited(t *testing.T) {
	needRoot(t)
	b := newBed(t, policy.Checkpoint)
	b.cfg.Limits = limits.NewSource(limitsFrom(t, "[limits]\ncheckpoint-bytes = 150MiB\n")) // each task has 100
	b.start()
	measured := func(w *wire.Task) bool { return w.Usage.Resident > 0 }
	first := b.run(headrace.Low, as("daemon"))
	b.awaitState(first, headrace.Running)
	b.await(first, "measured", measured)
	second := b.run(headrace.Normal, as("daemon"))
	b.awaitState(first, headrace.Checkpointed)
	b.awaitState(second, headrace.Running)
	b.await(second, "measured", measured)
	other := b.run(headrace.High, as("bin"))
	b.awaitState(other, headrace.Running)
	if s := b.awaitState(second, headrace.Suspended); s.Checkpoint != nil {
		t.Errorf("beyond the limit: %v", s)
	}
	if _, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(second)}); err != nil {
		t.Errorf("root: %v", err)
	}
	var asked [2]proc.CheckpointOptions
	for i, id := range []headrace.TaskID{first, second} {
		b.world.with(id, func(th *thing) { asked[i] = th.dumpedBy })
	}
	if asked[0].MaxDeleted != 50<<20 || asked[1].MaxDeleted < 1<<30 {
		t.Errorf("its deleted files may hold %d bytes, and as root asks %d; want what the limit leaves, and what the store has", asked[0].MaxDeleted, asked[1].MaxDeleted)
	}
	if asked[0].StoreID == "" || asked[1].StoreID == "" {
		t.Errorf("the store that is meant is not named: %+v", asked)
	}
}

// TestSuspendedByHandCounts: what users have suspended may hold their limit of memory, and
// half of all memory together, and those who beyond that want others to run have to wait.
func TestSuspendedByHandCounts(t *testing.T) {
	needRoot(t)
	b := newBed(t, policy.Cost)
	b.cfg.Slots, b.cfg.Memory = 4, 500<<20
	b.cfg.Limits = limits.NewSource(limitsFrom(t, "[limits]\nmemory = 150MiB\n")) // each task has 100
	b.start()
	socket := wire.SocketPath(b.cfg.StateDir)
	run := func(uid uint32) string {
		t.Helper()
		id := asUser(t, uid, socket, "run work")[0]
		b.awaitState(headrace.TaskID(id), headrace.Running)
		b.await(headrace.TaskID(id), "measured", func(w *wire.Task) bool { return w.Usage.Resident > 0 })
		return id
	}
	suspend := func(uid uint32, id, want string) {
		t.Helper()
		if got := asUser(t, uid, socket, "suspend "+id)[0]; got != want {
			t.Errorf("user %d suspends %s: %s, want %s", uid, id, got, want)
		}
	}
	first, second := run(1), run(1)
	suspend(1, first, "ok")
	suspend(1, first, "ok")
	suspend(1, second, "resource_exhausted")
	suspend(2, run(2), "ok")
	third := run(3)
	suspend(3, third, "resource_exhausted")
	if _, err := b.tasks.Suspend(b.ctx(), &wire.VerbRequest{Id: third}); err != nil {
		t.Errorf("root: %v", err)
	}
	b.finish(headrace.TaskID(second), 0)
	next := b.run(headrace.Normal, func(q *wire.RunRequest) { q.User, q.Memory = "daemon", 100<<20 })
	b.await(next, "beyond its owner's memory", func(w *wire.Task) bool { return strings.Contains(w.Reason, "limit memory") })
	if got := asUser(t, 1, socket, "kill "+first)[0]; got != "ok" {
		t.Fatal(got)
	}
	b.awaitState(next, headrace.Running)
}

// TestGrownWhileItWasSuspended: what a task has when it has been suspended counts, not what it had when that was asked for; one that
// holds more then than its owner may set aside is not held.
func TestGrownWhileItWasSuspended(t *testing.T) {
	needRoot(t)
	b := newBed(t, policy.Cost)
	b.cfg.Slots, b.cfg.Memory = 4, 500<<20
	c := &conn{world: b.world}
	c.before = func(op string, id headrace.TaskID) error {
		if op == "suspend" {
			b.world.with(id, func(th *thing) { th.resident = 300 << 20 })
		}
		return nil
	}
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	socket := wire.SocketPath(b.cfg.StateDir)
	id := headrace.TaskID(asUser(t, 1, socket, "run work")[0])
	b.awaitState(id, headrace.Running)
	if got := asUser(t, 1, socket, "suspend "+string(id))[0]; got != "resource_exhausted" {
		t.Errorf("its owner is told %s", got)
	}
	if w := b.awaitState(id, headrace.Running); w.Held {
		t.Error("it is held")
	}
	if w, err := b.tasks.Suspend(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil || !w.Held {
		t.Errorf("root: %v, %v", w, err)
	}
}

// TestLimitedDoNotAge: while a limit of its owner holds a task back it does not wait.
func TestLimitedDoNotAge(t *testing.T) {
	clk := &fakeClock{now: time.Hour, date: time.Unix(1e9, 0)}
	cfg := &Config{Slots: 4, Limits: limits.NewSource(limitsFrom(t, "[limits]\nrunning = 1\n"))}
	a := &admission{core: &core{cfg: cfg, seldom: &seldom{clk: clk}, turn: newTurn(nil), boot: "b"}}
	tasks := []*task{{}, {}}
	for _, t := range tasks {
		t.rec.UID, t.rec.Waited = 4001, time.Minute
	}
	views := make([]headrace.TaskView, len(tasks))
	a.restrain(views, tasks)
	if views[0].Barred || !views[1].Barred {
		t.Fatalf("barred: %v, %v, of one that may run", views[0].Barred, views[1].Barred)
	}
	if _, written := a.changed[tasks[1]]; !written || !tasks[1].rec.Limited {
		t.Error("that it is held back is not recorded")
	}
	clk.advance(time.Hour, 0)
	if first, second := tasks[0].waited(clk.boot()), tasks[1].waited(clk.boot()); first != 2*time.Hour+time.Minute || second != 0 {
		t.Errorf("they have waited for %v and %v, want all the time and nothing", first, second)
	}
	again := []*task{{rec: tasks[1].rec}} // the daemon was started anew, and the first one is done
	a.restrain(make([]headrace.TaskView, 1), again)
	clk.advance(time.Second, 0)
	if w := again[0].waited(clk.boot()); w != time.Second || again[0].rec.Limited {
		t.Errorf("a second after it was let run it has waited for %v", w)
	}
	later := clk.boot()
	again[0].rec.Since, again[0].rec.Waited = later, time.Second // it ran, and has left
	if w := again[0].waited(later + time.Minute); w != time.Minute+time.Second {
		t.Errorf("a minute after it ran it has waited for %v", w)
	}
}

// TestWhatCannotBeEndedCounts: a task that runs counts in its owner's limits and share also while
// the policy may do nothing with it.
func TestWhatCannotBeEndedCounts(t *testing.T) {
	cfg := &Config{Slots: 4, Limits: limits.NewSource(limitsFrom(t, "[limits]\nslots = 1\n"))}
	a := &admission{core: &core{cfg: cfg, seldom: &seldom{clk: &fakeClock{now: time.Hour}}, turn: newTurn(nil), boot: "b"}}
	tasks := []*task{{}, {}}
	for _, t := range tasks {
		t.rec.UID = 4001
	}
	tasks[0].rec.State = headrace.Running
	views := []headrace.TaskView{{State: headrace.Running, CPUs: 1, Held: true}, {CPUs: 1}}
	a.restrain(views, tasks)
	if !views[1].Barred || tasks[1].limited == "" || tasks[0].limited != "" {
		t.Errorf("beside one that could not be killed: barred %v (%q), want barred by the limit of one slot", views[1].Barred, tasks[1].limited)
	}
}

// TestUsersTakeTurns: where a share is less than a task, a slot that comes free is for who had none
// for the longest time, not for who handed in first.
func TestUsersTakeTurns(t *testing.T) {
	needRoot(t)
	b := newBed(t, policy.Cost)
	b.cfg.Slots = 1
	b.start()
	var mine, theirs []headrace.TaskID
	for range 3 {
		mine = append(mine, b.run(headrace.Normal, as("daemon")))
	}
	b.awaitState(mine[0], headrace.Running)
	for range 2 {
		theirs = append(theirs, b.run(headrace.Normal, as("bin")))
	}
	for _, next := range []headrace.TaskID{mine[0], theirs[0], mine[1], theirs[1], mine[2]} {
		if w := b.awaitState(next, headrace.Running); w.Preemptions > 0 {
			t.Errorf("%s has been preempted", next)
		}
		b.finish(next, 0)
	}
}

// TestSharesKeepBands: what is more than a share goes behind those of its priority, but
// not behind those of a lower band, however long they have waited; nor are they protected from it.
func TestSharesKeepBands(t *testing.T) {
	const gb = 1 << 30
	for p, below := range map[headrace.Priority]headrace.Priority{9: 2, 2: 0} {
		a := &admission{core: &core{cfg: &Config{Slots: 4, Memory: 64 * gb, Limits: limits.NewSource(limitsFrom(t, ""))}}}
		one := func(id headrace.TaskID, uid uint32, p headrace.Priority, s headrace.TaskState) (headrace.TaskView, *task) {
			x := &task{}
			x.rec.UID = uid
			v := headrace.TaskView{ID: id, Priority: p, State: s, CPUs: 1, Progress: headrace.Progress{Share: -1}}
			if s == headrace.Running {
				v.Node, v.Resident, v.Running = node, 4*gb, 10*time.Minute
			}
			return v, x
		}
		var v headrace.View
		var tasks []*task
		add := func(view headrace.TaskView, x *task) *headrace.TaskView {
			v.Tasks, tasks = append(v.Tasks, view), append(tasks, x)
			return &v.Tasks[len(v.Tasks)-1]
		}
		decide := func() []headrace.Order {
			seen := v
			seen.Nodes = []headrace.NodeView{{ID: node, CPUs: 4, Memory: 64 * gb}}
			seen.Tasks = slices.Clone(v.Tasks)
			a.restrain(seen.Tasks, tasks)
			return policy.Decide(seen, policy.Config{Policy: policy.Suspend})
		}
		add(one("a2", 4001, p, headrace.Running))
		add(one("a3", 4001, p, headrace.Running))
		c := add(one("c1", 4003, below, headrace.Pending))
		c.Waiting = time.Hour
		add(one("b1", 4002, p, headrace.Pending)).MemoryRequest = 60 * gb
		add(one("a1", 4001, p, headrace.Pending))
		c = &v.Tasks[2]
		if got := decide(); len(got) != 1 || got[0].Task != "a1" || got[0].Verb != headrace.OrderStart {
			t.Errorf("%v: in the free slot: %+v, want a1 to start", p, got)
		}
		c.State, c.Node, c.Waiting, c.Waited, c.Running = headrace.Running, node, 0, time.Hour, time.Minute
		if got := decide(); p > headrace.Low && (len(got) != 1 || got[0].Task != "c1" || got[0].For != "a1") {
			t.Errorf("%v: with no free slot: %+v, want c1 to leave for a1", p, got)
		}
	}
}

// TestRootHasARest: what all other users may fill together leaves room for root.
func TestRootHasARest(t *testing.T) {
	a := &admission{core: &core{cfg: &Config{Limits: limits.NewSource(limits.Default("f"))}, tasks: newTable(), ledger: &ledger{}}}
	a.tasks.active = make([]*task, maxUnended-reservedForRoot)
	if err := a.refusesFrom(serve.Viewer{UID: 7}, []*task{{}}); serve.Coded(err).(*connect.Error).Code() != connect.CodeResourceExhausted {
		t.Errorf("an ordinary user: %v", err)
	}
	if err := a.refusesFrom(serve.Everything, []*task{{}}); err != nil {
		t.Errorf("root: %v", err)
	}
}
