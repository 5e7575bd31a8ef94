package policy

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"headrace"
)

// crowd is 200 nodes that are full, and altogether n tasks. Of those that wait a
// share is urgent and may preempt.
func crowd(n int, urgent float64) headrace.View {
	r := rand.New(rand.NewPCG(5, 6))
	var v headrace.View
	for i := range 200 {
		v.Nodes = append(v.Nodes, headrace.NodeView{
			ID: headrace.NodeID(fmt.Sprintf("n%d", i)), CPUs: 16, Memory: 64 << 30, SwapFree: 16 << 30,
			SwapOut: 200 * mb, SwapIn: 200 * mb, Net: 100 * mb,
			Stores: []headrace.StoreView{
				{Name: "nvm", Write: 2000 * mb, Read: 2000 * mb, Free: 32 << 30},
				{Name: "disk", Write: 150 * mb, Read: 150 * mb, Free: 1 << 40},
			},
		})
	}
	for i := range n {
		t := headrace.TaskView{
			ID: headrace.TaskID(fmt.Sprintf("t%d", i)), Priority: headrace.Priority(r.IntN(5)), CPUs: float64(1 + r.IntN(2)),
			MemoryRequest: int64(1+r.IntN(4)) << 30, Progress: headrace.Progress{Share: -1},
		}
		ran := time.Duration(r.IntN(3600)) * time.Second
		switch {
		case i < 200*10:
			t.State, t.Node = headrace.Running, v.Nodes[i%200].ID
			t.Resident, t.Dirty, t.Running = t.MemoryRequest, t.MemoryRequest/2, ran
			t.Progress.Wall, t.Progress.TotalWall = ran, ran
			if r.IntN(2) == 0 {
				t.Progress.Share = r.Float64()
			}
		case r.IntN(10) == 0:
			t.State, t.Node = headrace.Suspended, v.Nodes[r.IntN(200)].ID
			t.Swapped = 128 * mb
		case r.IntN(10) == 0:
			t.State, t.Node = headrace.Checkpointed, v.Nodes[r.IntN(200)].ID
			t.Checkpoint = &headrace.CheckpointView{Store: "disk", Bytes: t.MemoryRequest}
		case r.Float64() < urgent:
			t.Priority = headrace.Priority(8 + r.IntN(3))
		}
		v.Tasks = append(v.Tasks, t)
	}
	return v
}

func BenchmarkDecide(b *testing.B) {
	for _, urgent := range []float64{0, 0.01, 0.2} {
		v := crowd(10000, urgent)
		for _, name := range Names() {
			b.Run(fmt.Sprintf("%s/urgent=%v", name, urgent), func(b *testing.B) {
				c := Config{Policy: name, Ageing: None}
				orders := 0
				for b.Loop() {
					orders = len(Decide(v, c))
				}
				b.ReportMetric(float64(orders), "orders")
			})
		}
	}
}

// smallVictims is a node full of so many small tasks, and one that needs all of it.
func smallVictims(n int) headrace.View {
	r := rand.New(rand.NewPCG(9, 9))
	v := headrace.View{Nodes: []headrace.NodeView{{
		ID: "n", CPUs: float64(n), Memory: int64(n) << 30, SwapFree: 64 << 30, SwapOut: 200 * mb, SwapIn: 200 * mb,
		Stores: []headrace.StoreView{{Name: "disk", Write: 100 * mb, Read: 100 * mb, Free: 1 << 40}},
	}}}
	for i := range n {
		ran := time.Duration(1+r.IntN(10000)) * time.Second
		mem := int64(1+r.IntN(1000)) * mb
		v.Tasks = append(v.Tasks, headrace.TaskView{
			ID: headrace.TaskID(fmt.Sprintf("t%d", i)), Node: "n", State: headrace.Running, CPUs: 1, Resident: mem, Dirty: mem, Running: ran,
			Progress: headrace.Progress{Wall: ran, TotalWall: ran, Share: -1},
		})
	}
	v.Tasks = append(v.Tasks, headrace.TaskView{ID: "u", Priority: 8, CPUs: float64(n), Progress: headrace.Progress{Share: -1}})
	return v
}

// TestSmallVictims: of many victims each takes about as much time as of few.
func TestSmallVictims(t *testing.T) {
	each := func(n int) time.Duration {
		v, least := smallVictims(n), time.Hour
		for range 3 {
			before, decisions := cpuTime(t), max(1, 3200/n)
			for range decisions {
				if orders := Decide(v, Config{}); len(orders) < n {
					t.Fatalf("%d orders, want one for each of %d", len(orders), n)
				}
			}
			least = min(least, (cpuTime(t)-before)/time.Duration(decisions*n))
		}
		return least
	}
	few, many := each(100), each(3200)
	if many > 8*few {
		t.Errorf("%v for each of 100, %v for each of 3200", few, many)
	}
}

func BenchmarkDecideManyVictims(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		v := smallVictims(n)
		for _, name := range []Name{Cost, Suspend, Checkpoint, Kill} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					Decide(v, Config{Policy: name})
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "us/victim")
			})
		}
	}
}

func BenchmarkDecideOneNode(b *testing.B) {
	v := crowd(10000, 0)
	v.Nodes = v.Nodes[:1]
	var here []headrace.TaskView
	for _, t := range v.Tasks {
		if t.Node == "n0" && t.State != headrace.Checkpointed {
			here = append(here, t)
		}
	}
	v.Tasks = append(here, headrace.TaskView{ID: "u", Priority: 10, CPUs: 4, MemoryRequest: 8 << 30})
	for b.Loop() {
		Decide(v, Config{})
	}
}
