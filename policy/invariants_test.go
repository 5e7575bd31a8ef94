package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"headrace"
	"headrace/policy/internal/books"
)

// TestInvariants decides about random views and checks what must hold whatever
// the policy.
func TestInvariants(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(4001) {
		if seed == 4000 {
			seed = 5237 // one comes back by what it asked for while its memory is on its way to swap
		}
		r := rand.New(rand.NewPCG(seed, 1))
		v, c := randomView(r), randomConfig(r)
		for i := range v.Tasks {
			v.Tasks[i].NoKill = headrace.Priority(i % 4 * 3)
			v.Tasks[i].Barred = v.Tasks[i].State != headrace.Running && !v.Tasks[i].Starting && (uint64(i)+seed)%9 == 0
		}
		if err := checkDecision(v, c, seen); err != nil {
			t.Fatalf("seed %d, %+v: %v", seed, c, err)
		}
	}
	for _, what := range []string{"start", "resume", "restore", "pageout", "restore elsewhere",
		"preempt by suspend", "preempt by checkpoint", "preempt by kill", "checkpoint of a suspended task", "suspend with page-out"} {
		if seen[what] < 10 {
			t.Errorf("only %d cases of %s", seen[what], what)
		}
	}
}

// TestNodesGo decides about random views in which a node is missing that tasks are on: what must hold on those that are
// there does, and nobody is told to go where nothing is.
func TestNodesGo(t *testing.T) {
	orders := 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 2))
		v, c := randomView(r), randomConfig(r)
		if seed%2 == 0 {
			v = withGangs(r, v)
		}
		gone := r.IntN(len(v.Nodes))
		v.Nodes = slices.Delete(v.Nodes, gone, gone+1)
		if err := checkDecision(v, c, map[string]int{}); err != nil {
			t.Fatalf("seed %d, %+v: %v", seed, c, err)
		}
		for _, o := range Decide(v, c) {
			orders++
			if !slices.ContainsFunc(v.Nodes, func(n headrace.NodeView) bool { return n.ID == o.Node }) {
				t.Fatalf("seed %d: %s", seed, show(o))
			}
		}
	}
	if orders < 1000 {
		t.Errorf("only %d orders", orders)
	}
}

func checkDecision(v headrace.View, c Config, seen map[string]int) error {
	before := clone(v)
	orders, notes := Explain(v, c)
	if !reflect.DeepEqual(v, before) {
		return fmt.Errorf("the view was changed")
	}
	if again := Decide(v, c); !reflect.DeepEqual(again, orders) {
		return fmt.Errorf("decided differently:\n%v\n%v", orders, again)
	}
	done := map[headrace.TaskID]bool{}
	for _, o := range orders {
		if done[o.Task] {
			return fmt.Errorf("two orders for %s", o.Task)
		}
		done[o.Task] = true
		if err := checkOrder(v, c, o, seen); err != nil {
			return fmt.Errorf("%s: %w", show(o), err)
		}
	}
	for _, t := range v.Tasks {
		noted := slices.ContainsFunc(notes, func(n Note) bool { return n.Task == t.ID })
		if books.Waiting(&t) && !noted && !done[t.ID] {
			return fmt.Errorf("neither an order nor a note for %s", t.ID)
		}
	}
	if err := checkGangs(&v, orders); err != nil {
		return err
	}
	for i := range v.Nodes {
		if err := checkNode(&v, &v.Nodes[i], c.resolved(), orders); err != nil {
			return fmt.Errorf("%s: %w", v.Nodes[i].ID, err)
		}
	}
	if slices.ContainsFunc(orders, func(o headrace.Order) bool { u := find(&v, o.For); return u != nil && u.Gang != 0 }) {
		return nil // those of a gang for whom nobody had to leave go to any node, also to that of another
	}
	if c.resolved().Ageing > 0 {
		return nil // whom room was made for may let an older task go first
	}
	for _, o := range Decide(underWay(v, orders), c) {
		if o.For != "" && slices.ContainsFunc(orders, func(p headrace.Order) bool { return p.For == o.For && !promised(&v, p) }) {
			return fmt.Errorf("after %v, before they were carried out: %s", orders, show(o))
		}
	}
	return nil
}

func clone(v headrace.View) headrace.View {
	v.Nodes, v.Tasks = slices.Clone(v.Nodes), slices.Clone(v.Tasks)
	for i := range v.Nodes {
		v.Nodes[i].Stores = slices.Clone(v.Nodes[i].Stores)
	}
	return v
}

func find(v *headrace.View, id headrace.TaskID) *headrace.TaskView {
	for i := range v.Tasks {
		if v.Tasks[i].ID == id {
			return &v.Tasks[i]
		}
	}
	return nil
}

func checkOrder(v headrace.View, c Config, o headrace.Order, seen map[string]int) error {
	t := find(&v, o.Task)
	what := o.Verb.String()
	switch {
	case t == nil:
		return fmt.Errorf("no such task")
	case t.Starting || t.Leaving:
		return fmt.Errorf("in transition")
	case t.Held && o.Verb != headrace.OrderPageOut:
		return fmt.Errorf("held")
	case t.Barred && (o.Verb == headrace.OrderStart || o.Verb == headrace.OrderResume || o.Verb == headrace.OrderRestore):
		return fmt.Errorf("barred")
	case o.Reason == "" || o.Delay < 0 || o.Waste < 0:
		return fmt.Errorf("reason, delay or waste missing")
	case t.State == headrace.Suspended && o.Node != t.Node:
		return fmt.Errorf("suspended on another node")
	}
	switch o.Verb {
	case headrace.OrderPreempt:
		what += " by " + o.Mechanism.String()
		if err := checkPreempt(v, c.resolved(), o, t); err != nil {
			return err
		}
		if t.State == headrace.Suspended {
			what = "checkpoint of a suspended task"
		}
		if o.Mechanism == headrace.Suspend && o.PageOut > 0 {
			seen["suspend with page-out"]++
		}
	case headrace.OrderRestore:
		if o.Node != t.Node {
			what += " elsewhere"
		}
	case headrace.OrderPageOut:
		if t.State != headrace.Suspended || o.PageOut <= 0 {
			return fmt.Errorf("nothing to page out")
		}
	}
	if o.PageOut > max(0, t.Resident-t.PagingOut) {
		return fmt.Errorf("pages out more than it has")
	}
	seen[what]++
	return nil
}

func checkPreempt(v headrace.View, c Config, o headrace.Order, t *headrace.TaskView) error {
	by := find(&v, o.For)
	if o.For == "" && t.Gang != 0 {
		return nil // it is as with the part of its gang that makes room: see checkGangs
	}
	if o.For != "" && by.Priority <= t.Priority || o.For == "" && t.State == headrace.Running {
		return fmt.Errorf("not of lower priority")
	}
	if t.State == headrace.Running && t.Preemptions > 0 && t.Running < c.MinRun {
		return fmt.Errorf("has run %v only", t.Running)
	}
	allowed := map[Name][]headrace.Mechanism{
		Kill: {headrace.Kill}, Suspend: {headrace.Suspend, headrace.Checkpoint}, Checkpoint: {headrace.Suspend, headrace.Checkpoint},
		Adaptive: {headrace.Kill, headrace.Checkpoint}, Cost: {headrace.Kill, headrace.Suspend, headrace.Checkpoint},
	}
	switch {
	case !slices.Contains(allowed[c.Policy], o.Mechanism):
		return fmt.Errorf("not what %s does", c.Policy)
	case o.Mechanism == headrace.Kill && o.For != "" && by.Priority <= t.NoKill:
		return fmt.Errorf("is not killed for %s", by.Priority)
	case o.Mechanism == headrace.Suspend && t.NoSuspend != "":
		return fmt.Errorf("cannot be suspended")
	case o.Mechanism == headrace.Checkpoint && (t.NoCheckpoint != "" || o.Store == ""):
		return fmt.Errorf("cannot be checkpointed")
	}
	return nil
}

// checkNode checks that nothing is oversubscribed, neither at once by what is
// started, nor when all orders are carried out and those for whom room was made
// have come, and that no more is paged out than the guard allows.
func checkNode(v *headrace.View, n *headrace.NodeView, c Config, orders []headrace.Order) error {
	var now, end usage
	var paging, swapped, ordered, gone int64
	starts := false
	for _, t := range v.Tasks {
		if t.Node == n.ID {
			cpus, mem := use(t, n)
			now.add(cpus, mem)
			paging += t.PagingOut
			if float64(t.PagingOut) <= c.overlap*float64(t.PagingOut+t.Swapped) {
				gone += t.PagingOut
			}
			swapped += t.Swapped
			end.add(atEnd(t, n))
		}
	}
	wasOver := end.mem > n.Memory
	came := map[headrace.TaskID]bool{}
	quiet := !slices.ContainsFunc(v.Tasks, func(t headrace.TaskView) bool {
		return t.Node == n.ID && (t.State == headrace.Running || t.Starting || t.Leaving)
	})
	for _, o := range orders {
		t := find(v, o.Task)
		if o.Node != n.ID {
			continue
		}
		ordered += o.PageOut
		end.mem -= o.PageOut
		switch o.Verb {
		case headrace.OrderPreempt:
			end.sub(atEnd(*t, n))
			if o.Mechanism == headrace.Suspend {
				end.mem += t.Resident
			}
		case headrace.OrderStart, headrace.OrderResume, headrace.OrderRestore:
			cpus, mem := needs(*t, n)
			over := now.mem+mem-holds(*t) > n.Memory+gone || end.mem+mem-holds(*t)+t.PagingOut > n.Memory
			if quiet && o.Verb == headrace.OrderResume && over { // by what it asked for
				mem = max(t.MemoryRequest, holds(*t))
			}
			quiet = false
			starts = starts || mem > 0
			now.add(cpus, mem-holds(*t))
			end.add(cpus, mem-holds(*t)+t.PagingOut)
		}
		if o.For != "" && !came[o.For] && c.Ageing == 0 {
			came[o.For] = true
			u := find(v, o.For)
			cpus, mem := needs(*u, n)
			end.add(cpus, mem-holds(*u)+u.PagingOut)
		}
	}
	if err := checkCounted(v, n, c, orders); err != nil {
		return err
	}
	usable := n.SwapFree - paging - int64(math.Ceil(c.reserve*float64(n.SwapFree+swapped)))
	switch {
	case now.cpus > n.CPUs+books.Slack:
		return fmt.Errorf("%v of %v CPUs used at once", now.cpus, n.CPUs)
	case starts && now.mem > n.Memory+gone:
		return fmt.Errorf("%d of %d bytes used at once", now.mem, n.Memory)
	case end.cpus > n.CPUs+books.Slack:
		return fmt.Errorf("%v of %v CPUs used in the end", end.cpus, n.CPUs)
	case end.mem > n.Memory && !wasOver && (starts || len(came) > 0):
		return fmt.Errorf("%d of %d bytes used in the end", end.mem, n.Memory)
	case ordered > 0 && (ordered > usable || n.SwapOut <= 0):
		return fmt.Errorf("%d bytes paged out, %d may be", ordered, usable)
	}
	return nil
}

type usage struct {
	cpus float64
	mem  int64
}

func (u *usage) add(cpus float64, mem int64) { u.cpus, u.mem = u.cpus+cpus, u.mem+mem }
func (u *usage) sub(cpus float64, mem int64) { u.add(-cpus, -mem) }

func holds(t headrace.TaskView) int64 {
	if t.State == headrace.Suspended {
		return t.Resident
	}
	return 0
}

// needs returns what a waiting task will hold on n.
func needs(t headrace.TaskView, n *headrace.NodeView) (cpus float64, mem int64) {
	t.Starting = true
	return use(t, n)
}

// atEnd returns what t holds when its transition is over.
func atEnd(t headrace.TaskView, n *headrace.NodeView) (cpus float64, mem int64) {
	switch {
	case t.Leaving && t.LeavingBy == headrace.Suspend:
		return 0, t.Resident - t.PagingOut
	case t.Leaving:
		return 0, 0
	case t.State == headrace.Suspended && !t.Starting:
		return 0, t.Resident - t.PagingOut
	}
	return use(t, n)
}

// promised reports whether room on the node of o is somebody's already, who may take what o makes.
func promised(v *headrace.View, o headrace.Order) bool {
	return slices.ContainsFunc(v.Tasks, func(t headrace.TaskView) bool { return t.ID != o.For && t.Room == o.Node && books.Waiting(&t) })
}

// underWay is v with the orders begun.
func underWay(v headrace.View, orders []headrace.Order) headrace.View {
	v = clone(v)
	for _, o := range orders {
		t := find(&v, o.Task)
		if u := find(&v, o.For); u != nil {
			u.Room = o.Node
		}
		switch o.Verb {
		case headrace.OrderPreempt:
			t.Leaving, t.LeavingBy = true, o.Mechanism
			t.PagingOut += o.PageOut
		case headrace.OrderPageOut:
			t.PagingOut += o.PageOut
		default:
			t.Starting, t.Node = true, o.Node
		}
	}
	return v
}
