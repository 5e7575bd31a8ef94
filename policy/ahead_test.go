package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"headrace"
)

// TestAhead: a machine with one processor and 100 bytes, on which r runs.
func TestAhead(t *testing.T) {
	task := func(id string, p headrace.Priority, s headrace.TaskState, mem int64) headrace.TaskView {
		v := headrace.TaskView{ID: headrace.TaskID(id), Priority: p, State: s, CPUs: 1, MemoryRequest: mem}
		switch s {
		case headrace.Checkpointed:
			v.Checkpoint, v.Node = &headrace.CheckpointView{Store: "s", Bytes: mem}, "n"
		case headrace.Suspended:
			v.Resident, v.Node = mem, "n"
		case headrace.Running:
			v.Node = "n"
		}
		return v
	}
	r := func(mem int64) headrace.TaskView { return task("r", headrace.High, headrace.Running, mem) }
	c := func(id string, mem int64) headrace.TaskView {
		return task(id, headrace.Low, headrace.Checkpointed, mem)
	}
	heldBack := c("c", 20)
	heldBack.Held = true
	for _, k := range []struct {
		name  string
		tasks []headrace.TaskView
		want  []headrace.TaskID
	}{
		{"room for image and task", []headrace.TaskView{r(60), c("c", 20)}, []headrace.TaskID{"c"}},
		{"room for the task alone", []headrace.TaskView{r(61), c("c", 20)}, nil},
		{"memory is what is missing", []headrace.TaskView{r(90), c("c", 20)}, nil},
		{"two", []headrace.TaskView{r(20), c("c", 20), c("d", 20)}, []headrace.TaskID{"c", "d"}},
		{"only the first", []headrace.TaskView{r(20), c("c", 20), c("d", 21)}, []headrace.TaskID{"c"}},
		{"the first is too large, the second waits for it", []headrace.TaskView{r(20), c("c", 41), c("d", 1)}, nil},
		{"one that has not begun goes first", []headrace.TaskView{r(20), task("p", headrace.Normal, headrace.Pending, 41), c("c", 20)}, nil},
		{"and leaves room", []headrace.TaskView{r(20), task("p", headrace.Normal, headrace.Pending, 40), c("c", 20)}, []headrace.TaskID{"c"}},
		{"what is suspended is counted once", []headrace.TaskView{r(20), task("s", headrace.Low, headrace.Suspended, 40), c("c", 20)}, []headrace.TaskID{"c"}},
		{"a user holds it", []headrace.TaskView{r(20), heldBack}, nil},
		{"it comes back at once", []headrace.TaskView{c("c", 20)}, nil},
		{"what comes back at once takes its room", []headrace.TaskView{c("c", 70), c("d", 20)}, nil},
		{"nobody waits", []headrace.TaskView{r(20)}, nil},
	} {
		t.Run(k.name, func(t *testing.T) {
			v := headrace.View{Tasks: k.tasks, Nodes: []headrace.NodeView{{ID: "n", CPUs: 1, Memory: 100,
				Stores: []headrace.StoreView{{Name: "s", Read: 1, Write: 1}}}}}
			orders, notes := Explain(v, Config{Policy: Wait})
			if got := Ahead(&v, orders, notes); !slices.Equal(got, k.want) {
				t.Errorf("%v, want %v; orders %s, notes %v", got, k.want, showAll(orders), notes)
			}
		})
	}
}

// TestAheadHarmsNobody: whatever the machine, what is read ahead fits beside what the tasks
// there hold and those need that come before.
func TestAheadHarmsNobody(t *testing.T) {
	named := 0
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		v := headrace.View{Nodes: []headrace.NodeView{{ID: "n", CPUs: float64(1 + rnd.IntN(3)), Memory: int64(100 + rnd.IntN(400)),
			Stores: []headrace.StoreView{{Name: "s", Read: 10, Write: 10, Free: 1000}}}}}
		for i := range 1 + rnd.IntN(7) {
			t := headrace.TaskView{ID: headrace.TaskID(fmt.Sprint("t", i)), Priority: headrace.Priority(rnd.IntN(int(headrace.MaxPriority) + 1)),
				CPUs: 1, MemoryRequest: int64(rnd.IntN(120)), State: []headrace.TaskState{headrace.Pending, headrace.Running, headrace.Suspended, headrace.Checkpointed}[rnd.IntN(4)]}
			if t.State != headrace.Pending {
				t.Node = "n"
			}
			if t.State == headrace.Running || t.State == headrace.Suspended {
				t.Resident = int64(rnd.IntN(120))
			}
			if t.State == headrace.Checkpointed {
				t.Checkpoint = &headrace.CheckpointView{Store: "s", Bytes: int64(1 + rnd.IntN(120))}
			}
			v.Tasks = append(v.Tasks, t)
		}
		orders, notes := Explain(v, Config{Policy: Cost})
		ahead := Ahead(&v, orders, notes)
		named += len(ahead)
		sum := int64(0)
		ordered := map[headrace.TaskID]bool{}
		for _, o := range orders {
			ordered[o.Task] = o.Verb != headrace.OrderPreempt && o.Verb != headrace.OrderPageOut
		}
		for i := range v.Tasks {
			x := &v.Tasks[i]
			switch {
			case slices.Contains(ahead, x.ID):
				if x.State != headrace.Checkpointed || ordered[x.ID] {
					t.Fatalf("seed %d: %s is named, which is %v", seed, x.ID, x.State)
				}
				sum += x.Checkpoint.Bytes + max(x.MemoryRequest, min(x.Checkpoint.Bytes, v.Nodes[0].Memory))
			case x.State == headrace.Running:
				sum += max(x.MemoryRequest, x.Resident)
			case ordered[x.ID] && x.State == headrace.Checkpointed:
				sum += max(x.MemoryRequest, min(x.Checkpoint.Bytes, v.Nodes[0].Memory))
			case ordered[x.ID]:
				sum += max(x.MemoryRequest, x.Resident)
			case x.State == headrace.Suspended:
				sum += x.Resident
			}
		}
		if len(ahead) > 0 && sum > v.Nodes[0].Memory {
			t.Fatalf("seed %d: %v take, with what is there, %d of %d", seed, ahead, sum, v.Nodes[0].Memory)
		}
	}
	if named < 300 {
		t.Errorf("only %d were named at all", named)
	}
}
