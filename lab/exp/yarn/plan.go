package yarn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"headrace/trace/swim"
)

// The cases of a pair.
const (
	caseLight  = "light, one task"
	caseMemory = "memory, all slots"
)

// PairPlan is a low-priority job and an urgent one that arrives when a share of it is
// done.
type PairPlan struct {
	Cases []PairCase `json:"cases"`
	// Share of the low-priority job's first task when the urgent one arrives.
	Share float64 `json:"share"`
}

// PairCase is a kind of pair. Low and Urgent are the processor time of a task of each.
type PairCase struct {
	Name   string  `json:"name"`
	Tasks  int     `json:"tasks"` // of each job; together they fill the cluster
	Bytes  int64   `json:"bytes"` // of each task
	Low    float64 `json:"low"`
	Urgent float64 `json:"urgent"`
}

func (o *Options) pairPlan() *PairPlan {
	low, urgent, bytes, share := 8*o.Scale, 2*o.Scale, int64(1<<30), 0.5
	if o.Quick {
		// On a busy machine YARN may take seconds to choose, and there must be somebody left.
		low, urgent, bytes, share = 5*o.Scale, 1*o.Scale, 128<<20, 0.2
	}
	return &PairPlan{Share: share, Cases: []PairCase{
		{Name: caseLight, Tasks: 1, Bytes: 4 << 20, Low: low, Urgent: urgent},
		{Name: caseMemory, Tasks: 2, Bytes: bytes, Low: low, Urgent: urgent},
	}}
}

// WorkloadPlan is jobs of two priorities, made from a part of a day of Facebook's
// cluster (checkpoint-preemption, section 5.3).
type WorkloadPlan struct {
	Trace string `json:"trace"`
	// From is the first job of the trace that was taken, Block how many bytes of a
	// job became a task.
	From  int   `json:"from"`
	Block int64 `json:"block"`
	// Slots are how many containers run at a time, Bytes the memory of a task, Low
	// and High the processor time of a task, Span from the first submission to the
	// last.
	Slots int     `json:"slots"`
	Bytes int64   `json:"bytes"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Span  float64 `json:"span"`
	// Jobs are in order of submission.
	Jobs []PlannedJob `json:"jobs"`
}

// PlannedJob is a job of the workload. At counts from the first submission.
type PlannedJob struct {
	Name  string  `json:"name"`
	High  bool    `json:"high"`
	Tasks int     `json:"tasks"`
	At    float64 `json:"at"`
}

// work returns the time of all tasks of a priority.
func (p *WorkloadPlan) work(high bool) float64 {
	sum := 0.0
	for _, j := range p.Jobs {
		switch {
		case j.High && high:
			sum += float64(j.Tasks) * p.High
		case !j.High && !high:
			sum += float64(j.Tasks) * p.Low
		}
	}
	return sum
}

// tasks returns how many all jobs have.
func (p *WorkloadPlan) tasks() int {
	n := 0
	for _, j := range p.Jobs {
		n += j.Tasks
	}
	return n
}

// workloadShape is how the jobs are made.
type workloadShape struct {
	jobs, tasks, most int     // jobs, tasks of all, most tasks of one
	highs             int     // jobs of high priority
	span              float64 // seconds
}

// workloadFrom is the first job of the day that is taken.
const workloadFrom = 500

func (o *Options) workloadPlan() (*WorkloadPlan, error) {
	p := &WorkloadPlan{Trace: swim.FacebookDayName, From: workloadFrom, Slots: workloadSlots, Bytes: 300 << 20,
		Low: 6 * o.Scale, High: 1 * o.Scale}
	shape := workloadShape{jobs: 40, tasks: 46, most: 3, highs: 30, span: 100 * o.Scale}
	if o.Quick {
		p.Bytes, p.Low, p.High = 32<<20, 2*o.Scale, 0.7*o.Scale
		shape = workloadShape{jobs: 10, tasks: 13, most: 3, highs: 6, span: 12 * o.Scale}
	}
	return p, p.fill(shape, o.Seed)
}

// workloadSlots are one container on each of two NodeManagers.
const workloadSlots = 2

// fill takes the jobs: their gaps and sizes are the trace's, made smaller so that all
// have the given span and number of tasks. Which jobs are of high priority is drawn.
func (p *WorkloadPlan) fill(shape workloadShape, seed uint64) error {
	all, err := swim.Collect(swim.FacebookDay())
	if err != nil {
		return err
	}
	if len(all) < p.From+shape.jobs {
		return fmt.Errorf("%s has %d jobs: want %d", p.Trace, len(all), p.From+shape.jobs)
	}
	taken := all[p.From : p.From+shape.jobs]
	p.Block = blockFor(taken, shape)
	first, last := taken[0].Submit, taken[len(taken)-1].Submit
	order := rand.New(rand.NewPCG(seed, 0)).Perm(len(taken))
	for i, j := range taken {
		p.Jobs = append(p.Jobs, PlannedJob{Name: j.ID, High: slices.Index(order, i) < shape.highs, Tasks: tasksOf(j, p.Block, shape.most),
			At: shape.span * float64(j.Submit-first) / float64(max(last-first, time.Nanosecond))})
	}
	p.Span = shape.span
	return nil
}

func tasksOf(j swim.Job, block int64, most int) int {
	bytes := j.Input + j.Shuffle + j.Output
	return int(min(int64(most), max(1, (bytes+block-1)/block)))
}

// blockFor returns the size with which there are just not more tasks than wanted.
func blockFor(jobs []swim.Job, shape workloadShape) int64 {
	low, high := int64(1), int64(1)<<50
	for low < high {
		mid := low + (high-low)/2
		n := 0
		for _, j := range jobs {
			n += tasksOf(j, mid, shape.most)
		}
		if n > shape.tasks {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
