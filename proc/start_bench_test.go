package proc_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"headrace"
	"headrace/internal/linux/cgroup"
	"headrace/internal/testkit"
	"headrace/proc"
)

// BenchmarkStart is what a cgroup of its own costs a task in time: tasks with and
// without take turns, each after a pause in which the kernel gets out of the way of
// moving processes. Medians in milliseconds, from the request until the command runs
// (start), and until its end is known (end).
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	base, err := cgroup.Open(dir)
	if base == nil {
		b.Skip(err)
	}
	b.Cleanup(base.Close)
	var start, end [2][]time.Duration
	for n := 0; b.Loop(); n++ {
		for turn := range 2 {
			b.StopTimer()
			time.Sleep(100 * time.Millisecond)
			with := (n + turn) % 2
			rt := &proc.Runtime{Shim: testkit.Shim(b), Dir: dir}
			if with == 1 {
				rt.Cgroups = base
			}
			spec := proc.Spec{
				ID: headrace.TaskID(fmt.Sprintf("t%d-%d", n, turn)), Argv: []string{"true"}, Cwd: "/", Memory: 1 << 30, CPUs: 2, PIDs: 100,
				Env: []string{"PATH=" + os.Getenv("PATH")}, UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
			}
			b.StartTimer()
			begin := time.Now()
			task, err := rt.Start(b.Context(), spec)
			if err != nil {
				b.Fatal(err)
			}
			start[with] = append(start[with], time.Since(begin))
			<-task.Exited()
			end[with] = append(end[with], time.Since(begin))
		}
	}
	for with, name := range []string{"without", "with"} {
		for what, all := range map[string][]time.Duration{"start": start[with], "end": end[with]} {
			slices.Sort(all)
			b.ReportMetric(all[len(all)/2].Seconds()*1e3, what+"-"+name+"-ms")
		}
	}
}
