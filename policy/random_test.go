package policy

import (
	"fmt"
	"math/rand/v2"
	"time"

	"headrace"
)

const mb = 1 << 20

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func randomConfig(r *rand.Rand) Config {
	return Config{
		Policy:      Names()[r.IntN(len(Names()))],
		VictimOrder: pick(r, append(VictimOrders(), "")...),
		MinRun:      pick(r, 0, None, 20*time.Second),
		Ageing:      pick(r, 0, None, time.Minute),
		reserve:     pick(r, 0, -1, 0.3),
		overlap:     pick(r, 0, -1, 1.0),
		Doubling:    pick(r, 0, -1, 2.0),

		NoResidencyOrder: r.IntN(4) == 0,
	}
}

func randomNode(r *rand.Rand, i int) headrace.NodeView {
	n := headrace.NodeView{
		ID:       headrace.NodeID(fmt.Sprintf("n%d", i)),
		CPUs:     float64(1 + r.IntN(6)),
		Memory:   int64(1+r.IntN(8)) * 1024 * mb,
		SwapFree: int64(r.IntN(5)) * 1024 * mb,
		SwapOut:  pick(r, 0, 50.0*mb, 1000*mb),
		SwapIn:   200 * mb,
		Net:      pick(r, 0, 100.0*mb, 1000*mb),
	}
	for s := range r.IntN(3) {
		n.Stores = append(n.Stores, headrace.StoreView{
			Name: fmt.Sprintf("s%d", s), Write: pick(r, 10.0*mb, 100*mb, 2000*mb), Read: pick(r, 0, 100.0*mb, 2000*mb),
			DumpOverhead: 100 * time.Millisecond, RestoreOverhead: 50 * time.Millisecond,
			Free: int64(r.IntN(20)) * 512 * mb, Queue: time.Duration(r.IntN(3)) * 5 * time.Second,
		})
	}
	return n
}

// randomView has nodes that are not oversubscribed, as the daemon keeps them, and
// tasks in all states and transitions.
func randomView(r *rand.Rand) headrace.View {
	var v headrace.View
	for i := range 1 + r.IntN(4) {
		v.Nodes = append(v.Nodes, randomNode(r, i))
	}
	for i := range r.IntN(24) {
		t := randomTask(r, i, &v)
		if fitsRaw(&v, t) {
			v.Tasks = append(v.Tasks, t)
		}
	}
	return v
}

func randomTask(r *rand.Rand, i int, v *headrace.View) headrace.TaskView {
	n := v.Nodes[r.IntN(len(v.Nodes))]
	t := headrace.TaskView{
		ID:       headrace.TaskID(fmt.Sprintf("t%d", i)),
		Priority: headrace.Priority(r.IntN(int(headrace.MaxPriority) + 1)),
		State:    pick(r, headrace.Pending, headrace.Running, headrace.Running, headrace.Suspended, headrace.Checkpointed),
		CPUs:     pick(r, 0.5, 1, 1, 2, 3), MemoryRequest: int64(r.IntN(5)) * 512 * mb,
		Progress:    headrace.Progress{Share: pick(r, -1, r.Float64())},
		Preemptions: r.IntN(3), Held: r.IntN(10) == 0,
		NoSuspend: pick(r, "", "", "", "no"), NoCheckpoint: pick(r, "", "", "", "no"),
	}
	wall := time.Duration(r.IntN(600)) * time.Second
	if t.State != headrace.Pending {
		t.Node = n.ID
		t.Resident = int64(r.IntN(8)) * 256 * mb
		t.Dirty = int64(float64(t.Resident) * r.Float64())
		t.Progress.Wall, t.Progress.TotalWall = wall, wall*2
	}
	if t.State == headrace.Checkpointed || t.State == headrace.Running && r.IntN(4) == 0 {
		t.Checkpoint = &headrace.CheckpointView{Store: "s0", Bytes: int64(1+r.IntN(4)) * 512 * mb}
	}
	if t.State == headrace.Running {
		t.Held = false
		t.Running, t.Waited = min(wall, time.Duration(r.IntN(60))*time.Second), time.Duration(r.IntN(3000))*time.Second
		if t.Leaving = r.IntN(5) == 0; t.Leaving {
			t.LeavingBy = headrace.Mechanism(r.IntN(4))
		}
	} else {
		t.Waiting = time.Duration(r.IntN(3000)) * time.Second
		t.Starting = r.IntN(6) == 0 && !t.Held
		if t.Starting {
			t.Node = n.ID
		}
	}
	switch t.State {
	case headrace.Suspended:
		t.Swapped = int64(r.IntN(3)) * 256 * mb
		if r.IntN(4) == 0 && !t.Starting {
			t.PagingOut = t.Resident / 2
		}
	case headrace.Checkpointed:
		t.Resident, t.Dirty = 0, 0
	}
	t.Job = pick[headrace.JobID](r, "", "j", "k")
	if r.IntN(4) > 0 {
		t.Input.Bytes = int64(r.IntN(4)) * 64 * mb
		t.Input.Resident = int64(r.IntN(5)) * 32 * mb // sometimes more than there is
	}
	return t
}

// fitsRaw reports whether t fits beside the tasks of v on its node.
func fitsRaw(v *headrace.View, t headrace.TaskView) bool {
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.ID != t.Node {
			continue
		}
		cpus, mem := use(t, n)
		for j := range v.Tasks {
			if v.Tasks[j].Node == n.ID {
				c, m := use(v.Tasks[j], n)
				cpus, mem = cpus+c, mem+m
			}
		}
		return cpus <= n.CPUs && mem <= n.Memory
	}
	return true
}

// use returns what t takes of n now, said a second time and independently of account.
func use(t headrace.TaskView, n *headrace.NodeView) (cpus float64, mem int64) {
	switch {
	case t.State == headrace.Running:
		return t.CPUs, max(t.MemoryRequest, t.Resident)
	case t.Starting:
		mem = t.Resident + t.Swapped
		if t.State != headrace.Suspended && t.Checkpoint != nil && mem == 0 {
			mem = t.Checkpoint.Bytes
		}
		return t.CPUs, max(t.MemoryRequest, min(mem, n.Memory))
	case t.State == headrace.Suspended:
		return 0, t.Resident
	}
	return 0, 0
}
