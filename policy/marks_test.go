package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"headrace"
)

// queued adds waiting tasks of a few kinds to v, and returns the same without most of each
// kind but the first, with the marks that stand for those.
func queued(r *rand.Rand, v headrace.View) (full, part headrace.View, marks []Mark) {
	kinds := make([]headrace.TaskView, 1+r.IntN(4))
	for i := range kinds {
		kinds[i] = headrace.TaskView{State: headrace.Pending, Priority: headrace.Priority(r.IntN(int(headrace.MaxPriority) + 1)), CPUs: pick(r, 0.5, 1, 2, 3), MemoryRequest: int64(r.IntN(5)) * 512 * mb, Progress: headrace.Progress{Share: -1}}
	}
	shares := r.IntN(2) == 0
	for i := range v.Tasks {
		t := &v.Tasks[i]
		t.Input, t.Job = headrace.InputView{}, ""
		if !shares {
			t.Progress.Share = -1
		}
	}
	full, part = v, v
	full.Tasks, part.Tasks = slices.Clone(v.Tasks), slices.Clone(v.Tasks)
	shown, newest := make([]int, len(kinds)), make([]int, len(kinds))
	mark := make([]int, len(kinds)) // of each kind, from 1
	waiting := time.Duration(r.IntN(40)) * time.Minute
	for i := range 4 + r.IntN(30) {
		k := r.IntN(len(kinds))
		t := kinds[k]
		t.ID, t.Waiting = headrace.TaskID(fmt.Sprintf("q%d", i)), waiting
		waiting -= min(waiting, time.Duration(r.IntN(3))*time.Minute)
		full.Tasks = append(full.Tasks, t)
		switch {
		case mark[k] > 0:
		case shown[k] > 0 && r.IntN(2) == 0:
			marks = append(marks, Mark{Task: newest[k], Before: len(part.Tasks), Waiting: t.Waiting})
			mark[k] = len(marks)
		default:
			shown[k]++
			newest[k] = len(part.Tasks)
			part.Tasks = append(part.Tasks, t)
		}
	}
	return full, part, marks
}

// TestMarks: where all marks are spent, what is decided is what would be decided about the
// whole.
func TestMarks(t *testing.T) {
	spent, gaveWay := 0, 0
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 21))
		c := randomConfig(r)
		full, part, marks := queued(r, randomView(r))
		got := slices.Clone(NewPlanner(c).DecideFirst(&part, marks))
		if len(marks) == 0 || slices.ContainsFunc(marks, func(m Mark) bool { return !m.Spent }) {
			continue
		}
		spent++
		if slices.ContainsFunc(got, func(o headrace.Order) bool { return o.Verb == headrace.OrderPreempt }) {
			gaveWay++
		}
		if want := Decide(full, c); !slices.Equal(got, want) {
			t.Fatalf("seed %d, %+v: with %d of %d tasks\n%v\nwith all\n%v", seed, c, len(part.Tasks), len(full.Tasks), got, want)
		}
	}
	if spent < 2000 || gaveWay < 200 {
		t.Errorf("%d views were enough, %d with preemptions; want more", spent, gaveWay)
	}
}

// TestMarkBehindWhoMakesRoom: one that comes after tasks like those left out, and before
// these, may make more room than it needs.
func TestMarkBehindWhoMakesRoom(t *testing.T) {
	c := Config{Policy: Kill, Ageing: 10 * time.Minute, MinRun: None}
	waits := func(id string, p headrace.Priority, waiting time.Duration) headrace.TaskView {
		return headrace.TaskView{ID: headrace.TaskID(id), State: headrace.Pending, Priority: p, CPUs: 1, MemoryRequest: mb, Waiting: waiting, Progress: headrace.Progress{Share: -1}}
	}
	large := headrace.TaskView{ID: "large", State: headrace.Running, Node: "n", Priority: 3, CPUs: 8, MemoryRequest: mb, Resident: mb, Running: time.Hour, Progress: headrace.Progress{Share: -1, Wall: time.Hour, TotalWall: time.Hour}}
	v := headrace.View{Nodes: []headrace.NodeView{{ID: "n", CPUs: 8, Memory: 1024 * mb}, {ID: "small", CPUs: 0.5, Memory: 1024 * mb}}}
	for _, tc := range []struct {
		name   string
		before int // where the first of those left out would stand
		aged   time.Duration
		spent  bool
	}{
		{"behind it", 3, 21 * time.Minute, false},
		{"before it", 2, 21 * time.Minute, true},
		{"behind it by age", 2, 19 * time.Minute, false},
	} {
		// like is of less than large, has risen above it by waiting, and may not displace it.
		v.Tasks = []headrace.TaskView{large, waits("like", 2, 25*time.Minute), waits("urgent", 4, 0)}
		marks := []Mark{{Task: 1, Before: tc.before, Waiting: tc.aged}}
		orders := NewPlanner(c).DecideFirst(&v, marks)
		if len(orders) != 1 || orders[0].Task != "large" || orders[0].For != "urgent" {
			t.Fatalf("%s: %v", tc.name, orders)
		}
		if marks[0].Spent != tc.spent {
			t.Errorf("%s: spent is %v", tc.name, marks[0].Spent)
		}
	}
}
