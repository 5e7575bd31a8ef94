package policy

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"headrace"
)

// dayView returns a moment of a day on a cluster that is full: so many nodes of 110
// CPUs with 40 tasks each, and queued tasks in jobs of 1 to 200 that are less urgent
// than most of what runs or as urgent. Every tenth of those that wait has been
// suspended or checkpointed, unless the policy leaves nothing of the kind.
func dayView(nodes, queued int, name Name) headrace.View {
	r := rand.New(rand.NewPCG(7, 8))
	var v headrace.View
	cpus, mem := make([]float64, nodes), make([]int64, nodes) // free
	for i := range nodes {
		cpus[i], mem[i] = 110, 256<<30
		v.Nodes = append(v.Nodes, headrace.NodeView{
			ID: headrace.NodeID(fmt.Sprintf("node%04d", i)), CPUs: cpus[i], Memory: mem[i], SwapFree: 48 << 30,
			SwapOut: 400 * mb, SwapIn: 500 * mb, Net: 1000 * mb,
			Stores: []headrace.StoreView{{
				Name: "ssd", Write: 400 * mb, Read: 500 * mb, DumpOverhead: 300 * time.Millisecond,
				RestoreOverhead: 200 * time.Millisecond, Free: 1 << 40,
			}},
		})
	}
	for i := range nodes * 40 {
		t := dayTask(r, i)
		n := &v.Nodes[i%nodes]
		ran := time.Duration(1+r.IntN(7200)) * time.Second
		t.State, t.Node, t.Running = headrace.Running, n.ID, ran
		t.Progress = headrace.Progress{CPU: ran, Wall: ran, TotalWall: ran, Share: -1}
		t.Resident = int64(float64(t.MemoryRequest) * (0.3 + 0.7*r.Float64()))
		t.Dirty = t.Resident / 2
		if r.IntN(4) == 0 {
			t.Preemptions, t.Waited = 1, time.Duration(r.IntN(3000))*time.Second
		}
		if t.CPUs <= cpus[i%nodes] && t.MemoryRequest <= mem[i%nodes] {
			cpus[i%nodes] -= t.CPUs
			mem[i%nodes] -= t.MemoryRequest
			v.Tasks = append(v.Tasks, t)
		}
	}
	for job := 0; queued > 0; job++ {
		t := dayTask(r, job)
		t.Priority = headrace.Priority(r.IntN(2))
		t.Job, t.Waiting = headrace.JobID(fmt.Sprintf("job%d", job)), time.Duration(r.IntN(2000))*time.Second
		t.CPUs = max(t.CPUs, 2.5)
		for i := range min(queued, 1+r.IntN(200)) {
			queued--
			t.ID = headrace.TaskID(fmt.Sprintf("%s.%d", t.Job, i))
			u := t
			if i%10 == 0 {
				home := v.Nodes[r.IntN(nodes)].ID
				switch name {
				case Suspend, Cost:
					u.State, u.Node, u.Swapped = headrace.Suspended, home, u.MemoryRequest/2
				case Checkpoint, Adaptive:
					u.State, u.Node = headrace.Checkpointed, home
					u.Checkpoint = &headrace.CheckpointView{Store: "ssd", Bytes: int64(float64(u.MemoryRequest) * r.Float64())}
				}
			}
			v.Tasks = append(v.Tasks, u)
		}
	}
	return v
}

// dayTask returns a task as a trace has them: what one asks for is a few round figures,
// most are of the free and middle bands.
func dayTask(r *rand.Rand, i int) headrace.TaskView {
	return headrace.TaskView{
		ID: headrace.TaskID(fmt.Sprintf("task%06d", i)), Priority: pick[headrace.Priority](r, 0, 0, 0, 1, 2, 4, 4, 6, 9),
		CPUs: pick(r, 0.5, 1.25, 2.5, 2.5, 3.125, 6.25), MemoryRequest: int64(pick(r, 1, 2, 4, 4, 8)) << 30,
		Progress: headrace.Progress{Share: -1},
	}
}

// burst returns an urgent job of so many tasks that just came.
func burst(v headrace.View, tasks int, cpus float64) headrace.View {
	v.Tasks = append([]headrace.TaskView(nil), v.Tasks...)
	for i := range tasks {
		v.Tasks = append(v.Tasks, headrace.TaskView{
			ID: headrace.TaskID(fmt.Sprintf("urgent.%d", i)), Job: "urgent", Priority: 9, CPUs: cpus, MemoryRequest: 4 << 30,
			Progress: headrace.Progress{Share: -1},
		})
	}
	return v
}

// freed is v when a share of the nodes has just become empty.
func freed(v headrace.View, every int) headrace.View {
	gone := map[headrace.NodeID]bool{}
	for i := 0; i < len(v.Nodes); i += every {
		gone[v.Nodes[i].ID] = true
	}
	var left []headrace.TaskView
	for _, t := range v.Tasks {
		if t.State != headrace.Running || !gone[t.Node] {
			left = append(left, t)
		}
	}
	v.Tasks = left
	return v
}

// BenchmarkDay is the decisions that a simulated day is made of: nothing can be
// done for anybody; a tenth of the nodes is free; an urgent job of 40 tasks comes
// for each of which one victim is enough, or several are needed.
func BenchmarkDay(b *testing.B) {
	for _, size := range []struct{ nodes, queued int }{{200, 3000}, {2000, 10000}} {
		for _, name := range Names() {
			v := dayView(size.nodes, size.queued, name)
			full := v
			for range 20 { // until there is no room left
				full = carriedOut(full, Decide(full, Config{Policy: name}))
			}
			for _, k := range []struct {
				what string
				v    headrace.View
			}{
				{"nothing", full},
				{"starts", freed(full, 10)},
				{"burst", burst(full, 40, 2.5)},
				{"wide", burst(full, 40, 12.5)},
			} {
				b.Run(fmt.Sprintf("%d/%s/%s", size.nodes, name, k.what), func(b *testing.B) {
					benchDecisions(b, k.v, name)
				})
			}
		}
	}
}

// cpuTime returns the processor time of this process, which says more than the clock on
// a machine that does other things as well.
func cpuTime(b testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchDecisions(b *testing.B, v headrace.View, name Name) {
	p := NewPlanner(Config{Policy: name})
	var orders []headrace.Order
	b.ReportAllocs()
	p.Decide(&v) // the memory is there from now on
	before := cpuTime(b)
	for b.Loop() {
		orders = p.Decide(&v)
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
	preempts, starts := 0, 0
	for _, o := range orders {
		switch o.Verb {
		case headrace.OrderPreempt:
			preempts++
		case headrace.OrderStart, headrace.OrderResume, headrace.OrderRestore:
			starts++
		}
	}
	b.ReportMetric(float64(preempts), "preempts")
	b.ReportMetric(float64(starts), "starts")
}

// carriedOut is v after orders have been carried out, all at once.
func carriedOut(v headrace.View, orders []headrace.Order) headrace.View {
	by := map[headrace.TaskID]headrace.Order{}
	for _, o := range orders {
		by[o.Task] = o
	}
	tasks := make([]headrace.TaskView, 0, len(v.Tasks))
	for _, t := range v.Tasks {
		o, ok := by[t.ID]
		switch {
		case !ok:
		case o.Verb == headrace.OrderPageOut:
			t.Resident, t.Swapped = t.Resident-o.PageOut, t.Swapped+o.PageOut
		case o.Verb != headrace.OrderPreempt:
			t.State, t.Node, t.Waiting, t.Running = headrace.Running, o.Node, 0, 20*time.Minute
			t.Resident, t.Swapped = max(t.Resident+t.Swapped, t.MemoryRequest/2), 0
		case o.Mechanism == headrace.Suspend:
			t.State, t.Resident, t.Swapped = headrace.Suspended, t.Resident-o.PageOut, t.Swapped+o.PageOut
		case o.Mechanism == headrace.Checkpoint:
			t.Checkpoint = &headrace.CheckpointView{Store: o.Store, Bytes: t.Resident}
			t.State, t.Resident, t.Dirty = headrace.Checkpointed, 0, 0
		default:
			t.State, t.Node, t.Resident, t.Dirty = headrace.Pending, "", 0, 0
		}
		tasks = append(tasks, t)
	}
	v.Tasks = tasks
	return v
}
