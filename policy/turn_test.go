package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/queue"
)

// at returns an entry of InputView.At of an input of 100 bytes.
func at(node headrace.NodeID, resident, local int64) headrace.InputAt {
	return headrace.InputAt{Node: node, Resident: resident, Local: local}
}

func TestTurns(t *testing.T) {
	in := func(id headrace.TaskID, job headrace.JobID, nodes ...headrace.InputAt) headrace.TaskView {
		return headrace.TaskView{ID: id, Job: job, CPUs: 1, Input: headrace.InputView{Bytes: 100, At: nodes}}
	}
	waited := func(t headrace.TaskView, w time.Duration) headrace.TaskView {
		t.Waiting = w
		return t
	}
	resident := func(t headrace.TaskView, bytes int64) headrace.TaskView {
		t.Input.Resident = bytes
		return t
	}
	const first = ", so it goes before others of its job"
	for _, k := range []struct {
		name  string
		free  int // nodes, from n0 on; n9 is full
		tasks []headrace.TaskView
		off   bool
		want  string
		words string // of the first order
	}{
		{"in memory where there is room", 1, []headrace.TaskView{in("a", "j"), in("b", "j", at("n0", 100, 100))}, false,
			"b>n0", "there is room, and 100 % of its input in memory" + first},
		{"what has most in memory has it where there is no room", 1,
			[]headrace.TaskView{in("a", "j", at("n9", 100, 100)), in("b", "j", at("n0", 1, 100))}, false,
			"b>n0", "there is room, and 1 % of its input in memory" + first},
		{"the largest share, of equal ones the first", 1,
			[]headrace.TaskView{in("a", "j", at("n0", 20, 0)), in("b", "j", at("n0", 50, 0)), in("c", "j", at("n0", 50, 100))}, false,
			"b>n0", "there is room, and 50 % of its input in memory" + first},
		{"each to its own node", 3,
			[]headrace.TaskView{in("a", "j", at("n2", 100, 100)), in("b", "j", at("n1", 100, 100)), in("c", "j", at("n0", 100, 100))}, false,
			"a>n2 b>n1 c>n0", "there is room, and 100 % of its input in memory"},
		{"the second that wants a node lets others pass", 3,
			[]headrace.TaskView{in("a", "j", at("n2", 100, 100)), in("b", "j", at("n2", 100, 100)), in("c", "j", at("n0", 0, 100)), in("d", "j")}, false,
			"a>n2 c>n0 d>n1", "there is room, and 100 % of its input in memory"},
		{"in memory nowhere: the first, on whatever disk", 1,
			[]headrace.TaskView{in("a", "j", at("n9", 100, 100), at("n0", 0, 100)), in("b", "j"), in("c", "j", at("n0", 0, 70))}, false,
			"b>n0", "there is room; others of its job have theirs in memory where there is no room"},
		{"on disk where there is none, in memory nowhere", 1,
			[]headrace.TaskView{in("a", "j", at("n9", 100, 100), at("n0", 0, 100)), in("b", "j", at("n9", 0, 100))}, false,
			"b>n0", "there is room; others of its job have theirs in memory where there is no room"},
		{"in memory only where there is no room", 2,
			[]headrace.TaskView{in("a", "j", at("n9", 10, 100), at("n1", 0, 100)), in("b", "j", at("n9", 90, 100))}, false,
			"a>n1 b>n0", "there is room, and 100 % of its input on disk"},
		{"in memory on a node that is not there", 1,
			[]headrace.TaskView{in("a", "j", at("n5", 100, 100)), in("b", "j", at("n9", 1, 100))}, false,
			"a>n0", "there is room"},
		{"nobody else is passed", 2,
			[]headrace.TaskView{in("a", "j"), in("x", "k"), in("y", ""), in("b", "j", at("n0", 100, 100))}, false,
			"b>n0 x>n1", "there is room, and 100 % of its input in memory" + first},
		{"nor by what is in memory of a second job", 1, []headrace.TaskView{in("a", "j"), in("x", "k", at("n0", 100, 100))}, false, "a>n0", "there is room"},
		{"nor without a job", 1, []headrace.TaskView{in("a", ""), in("b", "", at("n0", 100, 100))}, false, "a>n0", "there is room"},
		{"nor what has waited for a step more", 1,
			[]headrace.TaskView{waited(in("a", "j"), 200*time.Second), waited(in("b", "j", at("n0", 100, 100)), 100*time.Second)}, false,
			"a>n0", "there is room; by waiting it has risen from free to 1"},
		{"within a step it is passed", 1,
			[]headrace.TaskView{waited(in("a", "j"), 119*time.Second), waited(in("b", "j", at("n0", 100, 100)), 60*time.Second)}, false,
			"b>n0", "there is room, and 100 % of its input in memory" + first + "; by waiting it has risen from free to 1"},
		{"turned off", 1, []headrace.TaskView{in("a", "j"), in("b", "j", at("n0", 100, 100))}, true, "a>n0", "there is room"},
		{"turned off, disks still count in the choice of a node", 2,
			[]headrace.TaskView{in("a", "j"), in("b", "j", at("n0", 100, 0), at("n1", 0, 100))}, true,
			"a>n0 b>n1", "there is room"},
		{"one of which only Resident is known", 1,
			[]headrace.TaskView{in("a", "j"), in("b", "j", at("n0", 30, 100)), resident(in("c", "j"), 40)}, false,
			"c>n0", "there is room; 40 % of its input is in memory" + first},
		{"Resident does not count beside At", 1,
			[]headrace.TaskView{in("a", "j"), resident(in("b", "j", at("n9", 0, 100)), 100)}, false, "a>n0", "there is room"},
	} {
		t.Run(k.name, func(t *testing.T) {
			var v headrace.View
			for i := range k.free {
				v.Nodes = append(v.Nodes, headrace.NodeView{ID: headrace.NodeID(fmt.Sprintf("n%d", i)), CPUs: 1})
			}
			v.Nodes = append(v.Nodes, headrace.NodeView{ID: "n9", CPUs: 1})
			v.Tasks = append([]headrace.TaskView{{ID: "full", Node: "n9", State: headrace.Running, CPUs: 1, Priority: headrace.MaxPriority}}, k.tasks...)
			for _, name := range Names() {
				orders := Decide(v, Config{Policy: name, Ageing: time.Minute, NoResidencyOrder: k.off})
				var got []string
				for _, o := range orders {
					got = append(got, fmt.Sprintf("%s>%s", o.Task, o.Node))
				}
				if strings.Join(got, " ") != k.want || orders[0].Reason != k.words {
					t.Errorf("%s: %s, want %s, %q", name, showAll(orders), k.want, k.words)
				}
			}
		})
	}
}

// claim is why a task should have its turn: the lower the rank the better, then the
// larger part of all of its input.
type claim struct {
	rank      int
	part, all int64
}

func (a claim) before(b claim) bool {
	return a.rank < b.rank || a.rank == b.rank && a.part*b.all > b.part*a.all
}

// claimOf returns the rule said a second time. room and there say of a node whether t
// fits there now, and whether it is in the view.
func claimOf(t *headrace.TaskView, room, there func(headrace.NodeID) bool) claim {
	all := t.Input.Bytes
	if len(t.Input.At) == 0 {
		if t.Input.Resident > 0 {
			return claim{1, min(t.Input.Resident, all), all}
		}
		return claim{2, 0, all}
	}
	var memory int64
	warm := false
	for _, at := range t.Input.At {
		if !there(at.Node) {
			continue
		}
		warm = warm || at.Resident > 0
		if room(at.Node) {
			memory = max(memory, min(at.Resident, all))
		}
	}
	switch {
	case memory > 0:
		return claim{1, memory, all}
	case warm:
		return claim{3, 0, all}
	}
	return claim{2, 0, all}
}

// inputsAnywhere is nodes with some room, and tasks with inputs on some of them.
func inputsAnywhere(r *rand.Rand) headrace.View {
	var v headrace.View
	for i := range 1 + r.IntN(8) {
		v.Nodes = append(v.Nodes, headrace.NodeView{
			ID: headrace.NodeID(fmt.Sprintf("n%d", i)), CPUs: float64(r.IntN(5)), Memory: int64(r.IntN(6)) * 1024 * mb,
		})
	}
	for i := range 1 + r.IntN(20) {
		t := headrace.TaskView{
			ID: headrace.TaskID(fmt.Sprintf("t%d", i)), Job: pick[headrace.JobID](r, "", "j", "k"),
			CPUs: pick(r, 0.5, 1, 2), MemoryRequest: int64(r.IntN(4)) * 512 * mb,
		}
		t.Input = randomInput(r, func() headrace.NodeID { return headrace.NodeID(fmt.Sprintf("n%d", r.IntN(9))) })
		v.Tasks = append(v.Tasks, t)
	}
	return v
}

// randomInput returns an input on nodes that are asked for, of a few bytes, so that
// much is equal; numbers below 0 and above all occur.
func randomInput(r *rand.Rand, node func() headrace.NodeID) headrace.InputView {
	in := headrace.InputView{Bytes: int64(r.IntN(4)), Resident: int64(r.IntN(6)) - 3}
	for range r.IntN(4) {
		in.At = append(in.At, headrace.InputAt{Node: node(), Local: int64(r.IntN(6)) - 1, Resident: int64(r.IntN(7)) - 3})
	}
	return in
}

// dumbPlace is where a task goes.
type dumbPlace struct {
	task headrace.TaskID
	node headrace.NodeID
}

// dumbPlaces puts the tasks of v, none of which have waited or been begun, on nodes one
// after the other until one does not fit: the rule said a second time, by looking at
// all tasks and sorting all nodes.
func dumbPlaces(v headrace.View, off bool) []dumbPlace {
	free, left := slices.Clone(v.Nodes), slices.Clone(v.Tasks)
	node := func(id headrace.NodeID) int {
		return slices.IndexFunc(free, func(n headrace.NodeView) bool { return n.ID == id })
	}
	fits := func(t *headrace.TaskView, n headrace.NodeView) bool {
		return t.CPUs <= n.CPUs && (t.MemoryRequest <= 0 || t.MemoryRequest <= n.Memory)
	}
	there := func(id headrace.NodeID) bool { return node(id) >= 0 }
	var places []dumbPlace
	for len(left) > 0 {
		best := 0
		claimed := func(i int) claim {
			return claimOf(&left[i], func(id headrace.NodeID) bool { return fits(&left[i], free[node(id)]) }, there)
		}
		for i := 1; i < len(left) && !off; i++ {
			mates := left[i].Job == left[0].Job && left[0].Job != "" && left[i].Input.Bytes > 0 && left[0].Input.Bytes > 0
			if mates && claimed(i).before(claimed(best)) {
				best = i
			}
		}
		t := left[best]
		n := dumbNode(&t, free, off, fits)
		if n == nil {
			return places
		}
		n.CPUs, n.Memory = n.CPUs-t.CPUs, n.Memory-t.MemoryRequest
		places = append(places, dumbPlace{t.ID, n.ID})
		left = takeTurn(left, best, func(a, b headrace.TaskView) bool { return a.Job == b.Job && a.Input.Bytes > 0 && b.Input.Bytes > 0 })
	}
	return places
}

// takeTurn is tasks without the one at best, which has had the first place: its mates
// before it move on to the next of their places each.
func takeTurn[T any](tasks []T, best int, mates func(a, b T) bool) []T {
	t := tasks[best]
	for i := best - 1; i >= 0; i-- {
		if best > 0 && mates(tasks[i], t) {
			tasks[best], best = tasks[i], i
		}
	}
	return tasks[1:]
}

// dumbNode returns where t goes, nil if it fits nowhere.
func dumbNode(t *headrace.TaskView, free []headrace.NodeView, off bool, fits func(*headrace.TaskView, headrace.NodeView) bool) *headrace.NodeView {
	var best *headrace.NodeView
	var memory, disk int64
	for i := range free {
		if !fits(t, free[i]) {
			continue
		}
		m, l := int64(0), int64(0)
		for _, at := range t.Input.At {
			am, al := max(0, min(at.Resident, t.Input.Bytes)), max(0, min(at.Local, t.Input.Bytes))
			if off {
				am = 0
			}
			if at.Node == free[i].ID && (am > m || am == m && al > l) {
				m, l = am, al
			}
		}
		if best == nil || m > memory || m == memory && l > disk {
			best, memory, disk = &free[i], m, l
		}
	}
	return best
}

func TestPlacesAgainstOracle(t *testing.T) {
	placed, elsewhere, turned := 0, 0, 0
	for seed := range uint64(6000) {
		r := rand.New(rand.NewPCG(seed, 31))
		v, c := inputsAnywhere(r), randomConfig(r)
		want := dumbPlaces(v, c.NoResidencyOrder)
		orders := Decide(v, c)
		if len(orders) < len(want) {
			t.Fatalf("seed %d: %d orders, want %d", seed, len(orders), len(want))
		}
		plain := dumbPlaces(v, true)
		for i, w := range want {
			o := orders[i]
			if o.Verb != headrace.OrderStart || o.Task != w.task || o.Node != w.node {
				t.Fatalf("seed %d, %+v: %s goes to %s, want %v", seed, c, o.Task, o.Node, want)
			}
			if says := strings.Contains(o.Reason, "in memory"); says && c.NoResidencyOrder {
				t.Fatalf("seed %d: %s", seed, o.Reason)
			}
			placed++
			switch {
			case i >= len(plain) || plain[i].task != w.task:
				turned++
			case plain[i].node != w.node:
				elsewhere++
			}
		}
	}
	if placed < 12000 || elsewhere < 1000 || turned < 2000 {
		t.Errorf("the cases are too easy: %d tasks placed, %d out of order, %d because of memory on another node", placed, turned, elsewhere)
	}
}

// dumbTurns decides about v with the turns of each group found by asking all of its
// tasks that are left.
func dumbTurns(v headrace.View, c Config) []headrace.Order {
	p := NewPlanner(c)
	left := slices.Clone(p.begin(&v))
	for _, u := range left {
		u.Served = u.Room != "" && p.redeem(u)
	}
	known := func(mates []*queue.Waiter) bool {
		return slices.ContainsFunc(mates, func(t *queue.Waiter) bool { return len(t.Input.At) > 0 })
	}
	claimOf := func(t *queue.Waiter) claim {
		return claimOf(t.TaskView, func(id headrace.NodeID) bool { return p.fleet.NodeOf(id).Fits(t.Task) },
			func(id headrace.NodeID) bool { return p.fleet.NodeOf(id) != nil })
	}
	all := slices.Clone(left)
	left = slices.DeleteFunc(left, func(u *queue.Waiter) bool { return u.Served && u.Dumping == nil })
	places := slices.Clone(left)
	for len(left) > 0 {
		u, best := left[0], 0
		place := places[len(places)-len(left)]
		keepFrom(p, place.Task)
		if u.Dumping != nil || u.Served {
			left = left[1:]
			if u.Dumping != nil {
				startSooner(p, u)
			}
			continue
		}
		unblock(p, place)
		mate := func(a, b *queue.Waiter) bool { return changeable(c, a, b) && !a.Served && !b.Served }
		if mates := slices.DeleteFunc(slices.Clone(all), func(t *queue.Waiter) bool { return !changeable(c, u, t) }); known(mates) && !c.NoResidencyOrder {
			for i, t := range left {
				if mate(u, t) && claimOf(t).before(claimOf(left[best])) {
					best = i
				}
			}
			u = left[best]
			u.Passes = best > 0
			if len(u.Input.At) == 0 {
				u.Local = queue.Fraction(u.Input.Resident, u.Input.Bytes)
			}
		}
		left = takeTurn(left, best, mate)
		p.behind = left
		if !p.hopeless(u.Task) {
			p.place(u)
			u.Served = u.State == headrace.Suspended
		}
	}
	return p.orders
}

// scatter gives the tasks of v that wait inputs on its nodes.
func scatter(r *rand.Rand, v *headrace.View) {
	for i := range v.Tasks {
		t := &v.Tasks[i]
		if !books.Waiting(t) || books.Begun(t) {
			continue
		}
		if r.IntN(2) == 0 {
			t.Priority, t.Waiting = pick[headrace.Priority](r, 0, 4), pick(r, 0, 50*time.Second, 70*time.Second)
		}
		t.Input = randomInput(r, func() headrace.NodeID {
			if r.IntN(20) == 0 {
				return "gone"
			}
			return v.Nodes[r.IntN(len(v.Nodes))].ID
		})
	}
}

// TestTurnsAgainstOracle decides about nodes that are in use, where some make room
// for others, and looks at all tasks of a job and all nodes again for each turn.
func TestTurnsAgainstOracle(t *testing.T) {
	moved, preempted := 0, 0
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 33))
		v, c := goldenCase(seed)
		scatter(r, &v)
		c.NoResidencyOrder = r.IntN(10) == 0
		got, want := Decide(v, c), dumbTurns(v, c)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d, %+v:\n got %s\nwant %s", seed, c, showAll(got), showAll(want))
		}
		c.NoResidencyOrder = true
		if !slices.Equal(got, Decide(v, c)) {
			moved++
		}
		if slices.ContainsFunc(got, func(o headrace.Order) bool { return o.Verb == headrace.OrderPreempt }) {
			preempted++
		}
	}
	if moved < 200 || preempted < 200 {
		t.Errorf("the cases are too easy: %d of 1500 decided otherwise than in order of submission, %d with preemption", moved, preempted)
	}
}

// BenchmarkTurns is a job of 5000 tasks that wait, each with its input on three of 200
// nodes, where so many slots are free.
func BenchmarkTurns(b *testing.B) {
	for _, slots := range []int{0, 1, 100, 5000} {
		v := queuedJob(200, 5000, slots)
		for _, off := range []bool{true, false} {
			b.Run(fmt.Sprintf("slots=%d/off=%v", slots, off), func(b *testing.B) {
				p := NewPlanner(Config{NoResidencyOrder: off, Policy: Wait})
				if got := len(p.Decide(&v)); got != slots {
					b.Fatalf("%d orders, want %d", got, slots)
				}
				for b.Loop() {
					p.Decide(&v)
				}
			})
		}
	}
}

func queuedJob(nodes, tasks, slots int) headrace.View {
	r := rand.New(rand.NewPCG(1, 34))
	var v headrace.View
	for i := range nodes {
		n := headrace.NodeView{ID: headrace.NodeID(fmt.Sprintf("node%04d", i)), CPUs: 32}
		free := slots / nodes
		if i < slots%nodes {
			free++
		}
		v.Nodes = append(v.Nodes, n)
		v.Tasks = append(v.Tasks, headrace.TaskView{
			ID: headrace.TaskID("on " + n.ID), Node: n.ID, State: headrace.Running, CPUs: float64(32 - free),
		})
	}
	for i := range tasks {
		t := headrace.TaskView{ID: headrace.TaskID(fmt.Sprintf("j.%d", i)), Job: "j", CPUs: 1, Input: headrace.InputView{Bytes: 128 * mb}}
		for range 3 {
			t.Input.At = append(t.Input.At, headrace.InputAt{
				Node: v.Nodes[r.IntN(nodes)].ID, Local: 128 * mb, Resident: pick[int64](r, 0, 0, 64*mb, 128*mb),
			})
		}
		v.Tasks = append(v.Tasks, t)
	}
	return v
}
