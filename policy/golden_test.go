package policy

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"headrace"
	"headrace/policy/internal/books"
)

// goldenFile holds one hash of four bytes for each case of goldenCase: of the
// orders that were decided before anything was made faster. It is written anew
// with -rewrite, which is right only when decisions are meant to change.
const goldenFile = "testdata/orders.golden"

const goldenCases = 12000

// goldenCase returns a view and a configuration, of another kind for each remainder.
func goldenCase(seed uint64) (headrace.View, Config) {
	r := rand.New(rand.NewPCG(seed, 21))
	c := randomConfig(r)
	switch {
	case seed%250 == 249:
		return randomCrowd(r, 60+r.IntN(100), 8+r.IntN(20)), c
	case seed%7 == 6:
		return randomCrowd(r, 2+r.IntN(10), 2+r.IntN(10)), c
	case seed%7 > 3:
		return randomCrowd(r, 1+r.IntN(4), 1+r.IntN(8)), c
	}
	v := randomView(r)
	rooms(r, &v)
	return v, c
}

// rooms says for some waiting tasks that room was made for them before.
func rooms(r *rand.Rand, v *headrace.View) {
	for i := range v.Tasks {
		if t := &v.Tasks[i]; books.Waiting(t) && r.IntN(8) == 0 {
			t.Room = v.Nodes[r.IntN(len(v.Nodes))].ID
		}
	}
}

// randomCrowd is nodes that are alike and nearly full, each with about so many
// tasks, and a queue of jobs whose tasks are equal.
func randomCrowd(r *rand.Rand, nodes, each int) headrace.View {
	var v headrace.View
	like := randomNode(r, 0)
	like.CPUs = float64(each) * pick(r, 0.7, 1, 1.5)
	like.Memory = int64(float64(each)*pick(r, 0.4, 0.8, 1.5)) * 1024 * mb
	for i := range nodes {
		n := like
		n.ID = headrace.NodeID(fmt.Sprintf("n%d", i))
		n.Stores = slices.Clone(like.Stores)
		for j := range n.Stores {
			n.Stores[j].Free = int64(r.IntN(20)) * 512 * mb
			n.Stores[j].Queue = time.Duration(r.IntN(3)*r.IntN(20)) * time.Second
		}
		if r.IntN(4) == 0 {
			n.SwapFree, n.Net = int64(r.IntN(9))*512*mb, pick(r, 0, 50.0*mb)
		}
		if r.IntN(8) == 0 {
			n.Memory += 700 * mb
		}
		v.Nodes = append(v.Nodes, n)
	}
	states := pick(r,
		[]headrace.TaskState{headrace.Running},
		[]headrace.TaskState{headrace.Running, headrace.Running, headrace.Running, headrace.Suspended},
		[]headrace.TaskState{headrace.Running, headrace.Running, headrace.Checkpointed, headrace.Suspended},
	)
	for i := range nodes * each {
		t := randomTask(r, i, &v)
		t.State = states[r.IntN(len(states))]
		t.CPUs = pick(r, 0.1, 0.3, 0.5, 1, 1, 2)
		settle(r, &t, v.Nodes[i%nodes].ID)
		if fitsRaw(&v, t) {
			v.Tasks = append(v.Tasks, t)
		}
	}
	for range r.IntN(12) {
		queueJob(r, &v)
	}
	rooms(r, &v)
	if r.IntN(2) == 0 {
		r.Shuffle(len(v.Tasks), func(i, j int) { v.Tasks[i], v.Tasks[j] = v.Tasks[j], v.Tasks[i] })
	}
	return v
}

// settle makes a task of randomTask one of a new state on a node.
func settle(r *rand.Rand, t *headrace.TaskView, n headrace.NodeID) {
	t.Node, t.Starting, t.Leaving, t.Held, t.PagingOut = n, false, false, r.IntN(30) == 0, 0
	t.Resident = int64(r.IntN(6)) * 256 * mb
	t.Dirty = t.Resident / int64(1+r.IntN(4))
	wall := time.Duration(r.IntN(600)) * time.Second
	t.Progress.Wall, t.Progress.TotalWall = wall, wall*2
	switch t.State {
	case headrace.Running:
		t.Held = false
		t.Waiting, t.Waited, t.Running = 0, time.Duration(r.IntN(3000))*time.Second, wall
		if t.Leaving = r.IntN(15) == 0; t.Leaving {
			t.LeavingBy = headrace.Mechanism(r.IntN(4))
		}
	case headrace.Suspended:
		t.Swapped = int64(r.IntN(3)) * 256 * mb
		if r.IntN(4) == 0 {
			t.PagingOut = t.Resident / 2
		}
	case headrace.Checkpointed:
		t.Resident, t.Dirty = 0, 0
		t.Checkpoint = &headrace.CheckpointView{Store: pick(r, "s0", "s1"), Bytes: int64(1+r.IntN(4)) * 256 * mb}
	}
}

// queueJob adds the waiting tasks of one job.
func queueJob(r *rand.Rand, v *headrace.View) {
	t := headrace.TaskView{
		Job:      headrace.JobID(fmt.Sprintf("job%d", r.IntN(1000))),
		Priority: headrace.Priority(r.IntN(int(headrace.MaxPriority) + 1)),
		CPUs:     pick(r, 0.1, 0.3, 0.5, 1, 2, 4), MemoryRequest: int64(r.IntN(7)) * 300 * mb,
		Waiting:  time.Duration(r.IntN(3000)) * time.Second,
		Progress: headrace.Progress{Share: -1},
	}
	inputs := r.IntN(4) == 0
	for i := range 1 + r.IntN(30) {
		t.ID = headrace.TaskID(fmt.Sprintf("%s.%d.%d", t.Job, len(v.Tasks), i))
		if inputs {
			t.Input.Bytes, t.Input.Resident = 64*mb, int64(r.IntN(3))*32*mb
		}
		v.Tasks = append(v.Tasks, t)
	}
}

// sign returns the hash of orders with all that they say.
func sign(orders []headrace.Order) uint32 {
	h := fnv.New32a()
	for _, o := range orders {
		fmt.Fprintf(h, "%d %s %s %d %s %d %s %s %d %d %s\n",
			o.Verb, o.Task, o.Node, o.Mechanism, o.Store, o.PageOut, o.For, o.To, o.Delay, o.Waste, o.Reason)
	}
	return h.Sum32()
}

// TestGolden decides about thousands of random views what was decided before. The
// planners are used again and again, and must not remember anything.
func TestGolden(t *testing.T) {
	if *rewrite {
		var out []byte
		for seed := range uint64(goldenCases) {
			out = binary.LittleEndian.AppendUint32(out, sign(Decide(goldenCase(seed))))
		}
		if err := os.WriteFile(goldenFile, out, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenFile)
	if err != nil || len(want) != 4*goldenCases {
		t.Fatalf("%s: %d bytes: %v", goldenFile, len(want), err)
	}
	preempted, wrong := 0, 0
	for seed := range uint64(goldenCases) {
		v, c := goldenCase(seed)
		orders := Decide(v, c)
		for _, o := range orders {
			if o.Verb == headrace.OrderPreempt {
				preempted++
			}
		}
		if sign(orders) != binary.LittleEndian.Uint32(want[4*seed:]) {
			t.Errorf("seed %d, %+v: decided differently than before:\n%s", seed, c, showAll(orders))
			if wrong++; wrong > 3 {
				t.FailNow()
			}
		}
	}
	if preempted < goldenCases {
		t.Errorf("the cases are too easy: %d preemptions in %d", preempted, goldenCases)
	}
}

func sameTask(a, b headrace.TaskView) bool { return reflect.DeepEqual(a, b) }

func showAll(orders []headrace.Order) string {
	s := ""
	for _, o := range orders {
		s += fmt.Sprintf("%+v\n", o)
	}
	return s
}

// TestPlannerForgets uses planners for one view after the other, of any size and
// kind, and compares them with Decide.
func TestPlannerForgets(t *testing.T) {
	for k := range uint64(40) {
		r := rand.New(rand.NewPCG(k, 22))
		_, c := goldenCase(r.Uint64N(goldenCases))
		p := NewPlanner(c)
		var v headrace.View
		for range 50 {
			if len(v.Nodes) == 0 || r.IntN(3) == 0 {
				v, _ = goldenCase(r.Uint64N(goldenCases))
			} else {
				alter(r, &v)
			}
			before := clone(v)
			want, got := Decide(v, c), p.Decide(&v)
			if !slices.Equal(want, got) {
				t.Fatalf("sequence %d, %+v:\n got %s\nwant %s", k, c, showAll(got), showAll(want))
			}
			if !slices.EqualFunc(v.Tasks, before.Tasks, sameTask) {
				t.Fatalf("sequence %d: the view was changed", k)
			}
		}
	}
}

// alter changes a view in place as time does: tasks end, come and go on, nodes
// come and go.
func alter(r *rand.Rand, v *headrace.View) {
	for range r.IntN(5) {
		if len(v.Tasks) > 1 {
			i := r.IntN(len(v.Tasks))
			v.Tasks = slices.Delete(v.Tasks, i, i+1)
		}
	}
	for i := range v.Tasks {
		t := &v.Tasks[i]
		if r.IntN(4) == 0 {
			t.Waiting += time.Duration(r.IntN(100)) * time.Second
			t.Progress.Wall += time.Duration(r.IntN(100)) * time.Second
			t.Priority = headrace.Priority(r.IntN(12))
		}
		if t.Input.Bytes > 0 && r.IntN(4) == 0 {
			n := &v.Nodes[r.IntN(len(v.Nodes))]
			t.Input.At = append(t.Input.At, headrace.InputAt{Node: n.ID, Local: t.Input.Bytes, Resident: r.Int64N(t.Input.Bytes + 1)})
		}
	}
	switch r.IntN(8) {
	case 0:
		v.Nodes = v.Nodes[:max(1, len(v.Nodes)-1)]
	case 1:
		i, j := r.IntN(len(v.Nodes)), r.IntN(len(v.Nodes))
		v.Nodes[i], v.Nodes[j] = v.Nodes[j], v.Nodes[i]
	case 2:
		v.Nodes[0].Memory, v.Nodes[0].CPUs = v.Nodes[0].Memory/2+1, v.Nodes[0].CPUs+1
	}
	if r.IntN(3) == 0 {
		queueJob(r, v)
	}
}
