package synthetic

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"headrace/trace/workload"
)

// assemble makes the tasks of all jobs, in order of submission, and scales the
// running times of each band to its core-hours.
func (d Day) assemble(jobs []dayJob, seed uint64, scale float64) *workload.Workload {
	slices.SortStableFunc(jobs, func(a, b dayJob) int { return cmp.Compare(a.submit, b.submit) })
	tasks := 0
	for i := range jobs {
		tasks += jobs[i].tasks
	}
	w := &workload.Workload{Jobs: make([]string, len(jobs)), Tasks: make([]workload.Task, 0, tasks)}
	var runs []*rand.Rand
	for i := range d.Bands {
		runs = append(runs, random(seed, i, forRuns))
	}
	for i := range jobs {
		w.Jobs[i] = fmt.Sprintf("job-%05d", i+1)
		w.Tasks = jobs[i].appendTasks(w.Tasks, int32(i), d.Bands[jobs[i].band].Run.TaskSigma, runs[jobs[i].band])
	}
	factors := make([]float64, len(d.Bands))
	for i := range d.Bands {
		factors[i] = d.runFactor(i, jobs, w.Tasks, scale)
	}
	at := 0
	for i := range jobs {
		b := jobs[i].band
		for range jobs[i].tasks {
			t := &w.Tasks[at]
			t.Run = millisecond(d.Bands[b].Run.bounded(t.Run.Seconds() * factors[b]))
			at++
		}
	}
	return w
}

// appendTasks adds the job's tasks, with running times that are not yet scaled.
func (j *dayJob) appendTasks(tasks []workload.Task, job int32, sigma float64, r *rand.Rand) []workload.Task {
	t := workload.Task{Job: job, Submit: j.submit, Priority: j.priority, Class: j.class, CPUs: float32(j.cpus),
		Memory: int64(j.memory), Grow: float32(math.Round(j.grow*10) / 10), Dirty: float32(math.Round(j.dirty * j.memory))}
	for i := range j.tasks {
		t.Index = int32(i)
		t.Run = unscaledRun(j.run * math.Exp(sigma*r.NormFloat64()))
		tasks = append(tasks, t)
	}
	return tasks
}

// unscaledRun keeps a factor about 1 in the place of a running time, as if it were
// kiloseconds, so that no more memory is needed.
func unscaledRun(v float64) time.Duration { return time.Duration(min(v*1e12, 1e18)) }

func (r *DayRun) bounded(seconds float64) float64 { return min(max(seconds, r.Least), r.Most) }

// runFactor returns what the running times of a band have to be multiplied by before
// they are bounded.
func (d Day) runFactor(band int, jobs []dayJob, tasks []workload.Task, scale float64) float64 {
	b := &d.Bands[band]
	want := b.CoreHours * 3600 * scale
	factor := 1.0
	for range 30 {
		sum, at := 0.0, 0
		for i := range jobs {
			n := jobs[i].tasks
			if jobs[i].band == band {
				seconds := 0.0
				for k := at; k < at+n; k++ {
					seconds += b.Run.bounded(tasks[k].Run.Seconds() * factor)
				}
				sum += seconds * jobs[i].cpus
			}
			at += n
		}
		if math.Abs(sum-want) < 1e-4*want {
			break
		}
		factor *= want / sum
	}
	return factor
}
