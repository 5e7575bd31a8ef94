package solo

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"headrace"
	"headrace/disk"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/proc"
	"headrace/serve"
	"headrace/solo/journal"
	"headrace/wire"
)

// mover is a machine whose dumps and restores end when the test says so.
type mover struct {
	*bed
	mu sync.Mutex
	// begun are the dumps and restores that have begun, ends what lets them end.
	begun []string
	ends  map[string]chan struct{}
}

// newMover has tasks that are checkpointed, and as many that run.
func newMover(t *testing.T, n int, change ...func(*bed)) (m *mover, away, here []headrace.TaskID) {
	t.Helper()
	m = &mover{bed: newBed(t, policy.Wait), ends: map[string]chan struct{}{}}
	m.cfg.Slots = float64(3 * n)
	for _, c := range change {
		c(m.bed)
	}
	con := &conn{world: m.world}
	if err := m.startWith(con); err != nil {
		t.Fatal(err)
	}
	for range n {
		away, here = append(away, m.run(headrace.Normal)), append(here, m.run(headrace.Normal))
	}
	for i := range n {
		m.awaitState(here[i], headrace.Running)
		m.awaitState(away[i], headrace.Running)
		if _, err := m.tasks.Checkpoint(m.ctx(), &wire.VerbRequest{Id: string(away[i])}); err != nil {
			t.Fatal(err)
		}
	}
	con.dumping = func(id headrace.TaskID) <-chan struct{} { return m.begin(disk.Dump, id) }
	con.restoring = func(id headrace.TaskID) <-chan struct{} { return m.begin(disk.Restore, id) }
	return m, away, here
}

func name(c disk.Class, id headrace.TaskID) string { return fmt.Sprintf("%s of %s", c, id) }

func (m *mover) begin(c disk.Class, id headrace.TaskID) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	end := make(chan struct{})
	m.begun = append(m.begun, name(c, id))
	m.ends[name(c, id)] = end
	return end
}

// end lets a dump or restore end, once it has begun.
func (m *mover) end(c disk.Class, id headrace.TaskID) {
	m.t.Helper()
	m.awaitBegun(name(c, id))
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.ends[name(c, id)])
}

func (m *mover) awaitBegun(what string) {
	m.t.Helper()
	testkit.Await(m.t, "the beginning of the "+what, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return slices.Contains(m.begun, what)
	})
}

// ask asks for a dump or a restore, and waits until it waits for its turn or has it.
func (m *mover) ask(c disk.Class, id headrace.TaskID) {
	m.t.Helper()
	verb := m.tasks.Checkpoint
	if c == disk.Restore {
		verb = m.tasks.Restore
	}
	ctx := m.ctx()
	go verb(ctx, &wire.VerbRequest{Id: string(id)}) // how it ends shows in the task
	m.awaitAsked(c, id)
}

// askAs asks for a dump as a user, as ask does.
func (m *mover) askAs(uid uint32, id headrace.TaskID) {
	m.t.Helper()
	ctx := m.ctx()
	go m.loop.calls.ask(ctx, &call{command: headrace.CommandCheckpoint, id: id, by: serve.Viewer{UID: uid}})
	m.awaitAsked(disk.Dump, id)
}

func (m *mover) awaitAsked(c disk.Class, id headrace.TaskID) {
	m.t.Helper()
	testkit.Await(m.t, "the turn of the "+name(c, id), func() bool {
		for _, uses := range m.loop.stores.Disks.Uses() {
			for _, u := range uses {
				if u.Name == name(c, id) && u.Class == c && (u.Waiting || u.Reading) {
					return true
				}
			}
		}
		return false
	})
}

func (m *mover) wantBegun(want ...string) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(m.begun, want) {
		m.t.Errorf("begun are %q, want %q", m.begun, want)
	}
}

// Restores take turns with each other and with dumps, and go before dumps that wait.
func TestRestoresTakeTurns(t *testing.T) {
	m, away, here := newMover(t, 3)
	m.ask(disk.Restore, away[0])
	m.ask(disk.Dump, here[0])
	m.ask(disk.Restore, away[1])
	m.ask(disk.Dump, here[1])
	m.ask(disk.Restore, away[2])
	m.awaitBegun(name(disk.Restore, away[0]))
	m.wantBegun(name(disk.Restore, away[0]))
	var want []string
	for _, id := range away {
		m.end(disk.Restore, id)
		m.awaitState(id, headrace.Running)
		want = append(want, name(disk.Restore, id))
	}
	for _, id := range here[:2] {
		m.end(disk.Dump, id)
		m.awaitState(id, headrace.Checkpointed)
		want = append(want, name(disk.Dump, id))
	}
	m.wantBegun(want...)
}

// TestTurnsOfUsers: who asks for dumps of many tasks that cannot be dumped, or has many restored, has others wait for one of them. What root asks for,
// and what makes room for a user's task, is not in that line either.
func TestTurnsOfUsers(t *testing.T) {
	needRoot(t)
	m, away, here := newMover(t, 3)
	const greedy, modest = 1, 2 // daemon and bin, on every machine
	var many []headrace.TaskID
	for range 3 {
		id := m.run(headrace.Normal, as("daemon"))
		m.awaitState(id, headrace.Running)
		m.world.with(id, func(th *thing) { th.noDump = fmt.Errorf("%w: it cannot be stopped", proc.ErrNotNow) })
		many = append(many, id)
	}
	other := m.run(headrace.Normal, as("bin"))
	m.awaitState(other, headrace.Running)
	for _, id := range many {
		m.askAs(greedy, id)
	}
	m.askAs(modest, other)
	m.ask(disk.Dump, here[0]) // as root
	m.ask(disk.Restore, away[0])
	m.end(disk.Dump, many[0])
	m.end(disk.Restore, away[0])
	m.awaitBegun(name(disk.Dump, other))
	m.wantBegun(name(disk.Dump, many[0]), name(disk.Restore, away[0]), name(disk.Dump, other))
	m.end(disk.Dump, other)
	m.awaitState(other, headrace.Checkpointed)
}

// TestWhomADumpServes: the turn is charged to whom it is for.
func TestWhomADumpServes(t *testing.T) {
	tasks := newTable()
	victim, urgent := &task{}, &task{}
	victim.rec.ID, victim.rec.UID, urgent.rec.ID, urgent.rec.UID = "t1", 1, "t2", 2
	tasks.load(victim)
	tasks.load(urgent)
	o := &operations{life: &life{core: &core{tasks: tasks}}}
	for what, x := range map[string]struct {
		in   journal.Intent
		c    *call
		want uint32
	}{
		"the policy, for a task":           {journal.Intent{For: "t2"}, nil, 2},
		"the policy, for one that is gone": {journal.Intent{For: "t9"}, nil, 1},
		"its owner":                        {journal.Intent{}, &call{by: serve.Viewer{UID: 1}}, 1},
		"root":                             {journal.Intent{}, &call{by: serve.Viewer{All: true}}, 0},
		"another scheduler":                {journal.Intent{}, &call{ordered: true, by: serve.Viewer{UID: 7}}, 0},
	} {
		if got := o.serves(victim, &x.in, x.c); got != x.want {
			t.Errorf("%s: user %d has it, want %d", what, got, x.want)
		}
	}
}

// What waits for its turn can be killed, and ends when its task does; both give up
// their places.
func TestPlacesAreGivenUp(t *testing.T) {
	m, away, here := newMover(t, 3)
	m.ask(disk.Restore, away[0])
	m.ask(disk.Restore, away[1])
	for _, id := range here {
		m.ask(disk.Dump, id)
	}
	for _, id := range []headrace.TaskID{away[1], here[0]} {
		if got, err := m.tasks.Kill(m.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil || got.State != "killed" {
			t.Errorf("kill while it waits for its turn: %v, %v", got, err)
		}
	}
	m.finish(here[1], 0)
	m.awaitState(here[1], headrace.Done)
	m.awaitBegun(name(disk.Restore, away[0]))
	m.wantBegun(name(disk.Restore, away[0]))
	m.end(disk.Restore, away[0])
	m.end(disk.Dump, here[2])
	m.awaitState(here[2], headrace.Checkpointed)
	m.wantBegun(name(disk.Restore, away[0]), name(disk.Dump, here[2]))
}

// TestRoomLapses: the right to room that was made for a task lasts as long as somebody leaves.
func TestRoomLapses(t *testing.T) {
	waits, leaves := &task{room: true}, &task{}
	s := &own{operations: &operations{life: &life{core: &core{tasks: newTable()}}}}
	s.tasks.active = []*task{waits, leaves}
	for _, kind := range []headrace.Operation{headrace.Suspending, headrace.Checkpointing, headrace.Killing, headrace.PagingOut} {
		leaves.op = &operation{kind: kind}
		if s.lapse(); !waits.room {
			t.Fatalf("it has no right to what %v frees", kind)
		}
	}
	leaves.op = &operation{kind: headrace.Starting}
	if s.lapse(); waits.room {
		t.Error("nobody leaves, and it has a right to room")
	}
}
