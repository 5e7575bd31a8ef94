package policy

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"headrace"
	"headrace/policy/internal/books"
)

// withCounted gives nodes and tasks of v two counted resources, so that no node has to give
// more than it has.
func withCounted(r *rand.Rand, v headrace.View) headrace.View {
	v.Needs = [][]float64{{1, 0}, {2, 0}, {0, 1}, {1, 0.5}}
	free := map[headrace.NodeID][]float64{}
	for i := range v.Nodes {
		if n := &v.Nodes[i]; r.IntN(3) > 0 {
			n.Counted = []float64{float64(r.IntN(4)), float64(r.IntN(3))}
			free[n.ID] = []float64{n.Counted[0], n.Counted[1]}
		}
	}
	for i := range v.Tasks {
		t := &v.Tasks[i]
		if r.IntN(2) == 0 || t.Checkpoint != nil {
			continue
		}
		need := int32(1 + r.IntN(len(v.Needs)))
		if holdsCounted(*t) {
			f, n := free[t.Node], v.Needs[need-1]
			if f == nil || f[0] < n[0] || f[1] < n[1] {
				continue
			}
			f[0], f[1] = f[0]-n[0], f[1]-n[1]
		}
		t.Need, t.NoCheckpoint = need, "devices"
	}
	return v
}

// holdsCounted reports whether t holds what it needs.
func holdsCounted(t headrace.TaskView) bool {
	return t.State == headrace.Running || t.Starting || t.State == headrace.Suspended
}

// checkCounted is checkNode for counted resources: n never gives more than it has, at once
// or in the end.
func checkCounted(v *headrace.View, n *headrace.NodeView, c Config, orders []headrace.Order) error {
	if len(v.Needs) == 0 {
		return nil
	}
	now, end := make([]float64, len(v.Needs[0])), make([]float64, len(v.Needs[0]))
	add := func(to []float64, t headrace.TaskView, times float64) {
		if t.Need > 0 {
			for r, x := range v.Needs[t.Need-1] {
				to[r] += times * x
			}
		}
	}
	for _, t := range v.Tasks {
		if t.Node == n.ID && holdsCounted(t) {
			add(now, t, 1)
			if !t.Leaving || t.LeavingBy == headrace.Suspend {
				add(end, t, 1)
			}
		}
	}
	came := map[headrace.TaskID]bool{}
	for _, o := range orders {
		t := *find(v, o.Task)
		if o.Node != n.ID {
			continue
		}
		switch {
		case o.Verb == headrace.OrderPreempt && o.Mechanism != headrace.Suspend:
			add(end, t, -1)
		case o.Verb == headrace.OrderStart || o.Verb == headrace.OrderRestore:
			add(now, t, 1)
			add(end, t, 1)
		}
		if u := find(v, o.For); u != nil && !came[u.ID] && c.Ageing == 0 && u.State != headrace.Suspended {
			came[u.ID] = true
			add(end, *u, 1)
		}
	}
	for r := range now {
		has := 0.0
		if n.Counted != nil {
			has = n.Counted[r]
		}
		if now[r] > has+books.Slack || end[r] > has+books.Slack {
			return fmt.Errorf("of %v counted %v are used at once and %v in the end", has, now[r], end[r])
		}
	}
	return nil
}

// TestCounted decides about random views with counted resources: all that holds without
// them, and no node gives more of them than it has.
func TestCounted(t *testing.T) {
	seen := map[string]int{}
	killed, placed := 0, 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 31))
		v, c := randomView(r), randomConfig(r)
		v = withCounted(r, v)
		if err := checkDecision(v, c, seen); err != nil {
			t.Fatalf("seed %d, %+v: %v", seed, c, err)
		}
		for _, o := range Decide(v, c) {
			u := find(&v, o.Task)
			switch {
			case u.Need > 0 && o.Verb == headrace.OrderStart:
				placed++
			case u.Need > 0 && u.State == headrace.Suspended && o.Verb == headrace.OrderPreempt:
				killed++
			}
		}
	}
	if placed < 100 || killed < 3 {
		t.Errorf("%d tasks with needs are started, %d suspended ones killed for theirs", placed, killed)
	}
}
