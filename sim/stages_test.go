package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"headrace/policy"
	"headrace/trace"
)

// staged has the tasks of each job of w wait for each other at random.
func staged(w *trace.Workload, seed uint64) *trace.Workload {
	r := rand.New(rand.NewPCG(seed, 12))
	of := map[int32][]int32{} // the stages of a job
	for i := range w.Tasks {
		t := &w.Tasks[i]
		mine := of[t.Job]
		if len(mine) > 0 && r.IntN(2) == 0 {
			t.Stage = mine[r.IntN(len(mine))] + 1
			continue
		}
		var s trace.Stage
		for _, before := range mine {
			if r.IntN(3) == 0 {
				s.After = append(s.After, before)
			}
		}
		of[t.Job] = append(mine, int32(len(w.Stages)))
		w.Stages = append(w.Stages, s)
		t.Stage = int32(len(w.Stages))
	}
	return w
}

// TestStages: where there is room for all, a task runs as soon as those that it waits for
// have ended, and its response counts from then; that of a job from its submission.
func TestStages(t *testing.T) {
	for seed := range uint64(50) {
		w := random(seed, 100)
		staged(w, seed)
		for i := range w.Tasks {
			w.Tasks[i].Submit += time.Duration(i) * time.Second // tasks of a job come one after the other
		}
		c := easy(1, policy.Wait)
		c.Node.CPUs, c.Node.Memory = 1000, 1<<50
		r := run(t, w, c)

		over := make([]time.Duration, len(w.Stages)) // when the last task of each has ended
		first, last := map[int32]time.Duration{}, map[int32]time.Duration{}
		var makespan time.Duration
		var waited, tasks float64
		for k := range w.Stages { // those that it comes after have lower numbers
			for i := range w.Tasks {
				if one := &w.Tasks[i]; one.Stage == int32(k+1) {
					at := one.Submit
					for _, a := range w.Stages[k].After {
						at = max(at, over[a])
					}
					end := at + c.Costs.Start + one.Run
					over[k] = max(over[k], end)
					if was, ok := first[one.Job]; !ok || one.Submit < was {
						first[one.Job] = one.Submit
					}
					last[one.Job] = max(last[one.Job], end)
					makespan = max(makespan, end)
					waited, tasks = waited+(end-at).Seconds(), tasks+1
				}
			}
		}
		var jobs float64
		for job, at := range first {
			jobs += (last[job] - at).Seconds()
		}
		var gotTasks, gotJobs float64
		for _, b := range r.Bands {
			gotTasks += b.TaskResponse.Mean * float64(b.Tasks)
			gotJobs += b.Response.Mean * float64(b.Jobs)
		}
		near(t, "makespan", r.Makespan, (makespan - w.Tasks[0].Submit).Seconds())
		near(t, "responses of tasks", gotTasks/tasks, waited/tasks)
		near(t, "responses of jobs", gotJobs, jobs)
	}
}
