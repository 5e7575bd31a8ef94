package cgroup

import (
	"os/exec"
	"testing"
	"time"
)

// BenchmarkMake is what a task's cgroup costs: a short process in a group that is made,
// limited, joined and removed, and the same process without. With "rested" each comes
// after a pause: then the kernel has to wait for all processors before it moves a
// process. The parts are reported in milliseconds each.
func BenchmarkMake(b *testing.B) {
	run := func(b *testing.B, join func(pid int)) {
		cmd := exec.Command("sleep", "0.001")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		join(cmd.Process.Pid)
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("without", func(b *testing.B) {
		for b.Loop() {
			run(b, func(int) {})
		}
	})
	b.Run("with", func(b *testing.B) { benchmarkGroup(b, 0, run) })
	b.Run("rested", func(b *testing.B) { benchmarkGroup(b, 200*time.Millisecond, run) })
}

func benchmarkGroup(b *testing.B, pause time.Duration, run func(b *testing.B, join func(pid int))) {
	base := realBase(b)
	var made, joined, removed time.Duration
	for b.Loop() {
		if pause > 0 {
			b.StopTimer()
			time.Sleep(pause)
			b.StartTimer()
		}
		begin := time.Now()
		g, err := base.Make("t1", Limits{Memory: 1 << 30, CPUs: 2, PIDs: 100}, nil)
		if err != nil {
			b.Fatal(err)
		}
		made += time.Since(begin)
		run(b, func(pid int) {
			begin := time.Now()
			for _, dir := range g.Dirs() {
				if err := Add(dir, pid); err != nil {
					b.Fatal(err)
				}
			}
			joined += time.Since(begin)
		})
		begin = time.Now()
		if err := g.Remove(); err != nil {
			b.Fatal(err)
		}
		removed += time.Since(begin)
	}
	for name, d := range map[string]time.Duration{"make": made, "join": joined, "remove": removed} {
		b.ReportMetric(d.Seconds()*1e3/float64(b.N), name+"-ms/op")
	}
}
