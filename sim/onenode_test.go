package sim

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/trace"
)

// BenchmarkOneNode simulates so many tasks on one node of 128 processors, which are asked for in powers of two, at a load
// of 50 %; and a part of a day like Google's, of which each job asks for something else, on one node as large as that part
// of its cluster. Tasks in a second are those of processor time, whatever else the machine does.
func BenchmarkOneNode(b *testing.B) {
	for _, n := range []int{60_000, 600_000} {
		benchmarkOneNode(b, fmt.Sprintf("even/%d", n), 1, func() *trace.Workload { return onOneNode(n) })
	}
	for _, scale := range []float64{0.03, 0.1} {
		benchmarkOneNode(b, fmt.Sprintf("google-day/%g", scale), scale, func() *trace.Workload {
			w, err := trace.Open(b.Context(), "synthetic:google-day", trace.OpenOptions{Seed: 7, Scale: scale})
			if err != nil {
				b.Fatal(err)
			}
			return w
		})
	}
}

func benchmarkOneNode(b *testing.B, name string, scale float64, open func() *trace.Workload) {
	var w *trace.Workload
	for _, p := range policy.Names() {
		b.Run(name+"/"+string(p), func(b *testing.B) {
			if w == nil {
				w = open()
			}
			c := DefaultConfig()
			nodes := float64(w.Cluster.Nodes) * scale
			c.Node.CPUs, c.Node.Memory = w.Cluster.CPUs*nodes, int64(float64(w.Cluster.Memory)*nodes)
			c.Node.Swap, c.Policy.Policy = c.Node.Memory, p
			m := DefaultMeasurements()
			if err := m.Apply(&c, "ssd"); err != nil {
				b.Fatal(err)
			}
			before := processorTime(b)
			for b.Loop() {
				if _, err := Run(b.Context(), w, c, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(w.Tasks)*b.N)/(processorTime(b)-before).Seconds(), "tasks/s")
		})
	}
}

// onOneNode makes up n tasks for a node of 128 processors.
func onOneNode(n int) *trace.Workload {
	r := rand.New(rand.NewPCG(7, 11))
	w := &trace.Workload{Name: "one node", Cluster: trace.Cluster{Nodes: 1, CPUs: 128, Memory: 512 << 30}, Tasks: make([]trace.Task, n), Jobs: make([]string, n)}
	const run, cpus, load = 300 * time.Second, 127. / 7, 0.5 // the means
	var at time.Duration
	for i := range w.Tasks {
		size := 1 << r.IntN(7)
		w.Jobs[i] = fmt.Sprintf("j%d", i)
		w.Tasks[i] = trace.Task{
			Job: int32(i), Submit: at, Run: time.Duration(r.ExpFloat64() * float64(run)), Priority: []headrace.Priority{0, 1, 4, 9}[r.IntN(4)],
			CPUs: float32(size), Memory: int64(size) << 28, Dirty: 1 << 20,
		}
		at += time.Duration(r.ExpFloat64() * float64(run) * cpus / 128 / load)
	}
	return w
}

func processorTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
