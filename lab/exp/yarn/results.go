package yarn

import (
	"fmt"
	"slices"

	"headrace/lab/rig"
	"headrace/lab/sample"
	"headrace/lab/trial"
	"headrace/report"
	"headrace/sim"
)

// Results is everything that `bench yarn` has measured. Times are seconds, sizes
// bytes, energy joules.
type Results struct {
	trial.Circumstances
	Pair     *PairPlan       `json:"pair,omitempty"`
	Workload *WorkloadPlan   `json:"workload,omitempty"`
	Stores   []rig.StoreFact `json:"stores,omitempty"`
	Runs     []Run           `json:"runs,omitempty"`

	// calibrate has the report show what the simulator makes of the workload.
	calibrate bool
}

// Run is one pair of jobs, or one workload, under one policy.
type Run struct {
	Experiment string `json:"experiment"`
	// Case is the kind of pair.
	Case string `json:"case,omitempty"`
	// Repeat counts from 0; Order is the place within the repeat.
	Repeat int    `json:"repeat"`
	Order  int    `json:"order"`
	Policy string `json:"policy"`
	// Store is empty for policies that use none.
	Store string `json:"store,omitempty"`

	// Makespan is from the first submission to the last end.
	Makespan float64 `json:"makespan"`
	Jobs     []Job   `json:"jobs,omitempty"`

	// TaskCPU is all that tasks have used, LostCPU the part of attempts that were
	// killed; OverheadCPU what dumps and restores used, TotalCPU everything, with
	// the daemons of YARN and Headrace and the application masters.
	TaskCPU     float64 `json:"task_cpu"`
	LostCPU     float64 `json:"lost_cpu"`
	OverheadCPU float64 `json:"overhead_cpu"`
	TotalCPU    float64 `json:"total_cpu"`
	// HeldTime is how long containers ran in YARN's eyes, LostTime the part of those
	// that were killed, IdleTime the part in which others were stopped, dumped or
	// restored.
	HeldTime float64    `json:"held_time"`
	LostTime float64    `json:"lost_time"`
	IdleTime float64    `json:"idle_time"`
	Energy   sim.Energy `json:"energy"`

	Dumped   int64  `json:"dumped"`
	Restored int64  `json:"restored"`
	Counts   Counts `json:"counts"`
	// Stops are, for each container that was suspended, the time from its choice by
	// the ResourceManager until all its processes were seen to be stopped.
	Stops []float64 `json:"stops,omitempty"`
	// Lanes are what the tasks of a pair did, from the low-priority job's submission;
	// Arrived is when the urgent one was submitted.
	Lanes   []report.Lane `json:"lanes,omitempty"`
	Arrived float64       `json:"arrived,omitempty"`

	// Failure says why the run does not count.
	Failure string `json:"failure,omitempty"`
}

// In returns the repeat, and why the run does not count.
func (r Run) In() (repeat int, failure string) { return r.Repeat, r.Failure }

// Counts is how often containers gave way, by what was done with them.
type Counts struct {
	Killed       int `json:"killed"`
	Suspended    int `json:"suspended"`
	Checkpointed int `json:"checkpointed"`
	// Unstarted are those that were killed before they did anything: YARN had chosen
	// them before their processes were there.
	Unstarted int `json:"unstarted,omitempty"`
}

func (c Counts) String() string {
	s := ""
	for _, x := range []struct {
		n    int
		what string
	}{{c.Killed, "killed"}, {c.Suspended, "suspended"}, {c.Checkpointed, "checkpointed"}, {c.Unstarted, "taken before they began"}} {
		if x.n == 0 {
			continue
		}
		if s != "" {
			s += ", "
		}
		s += fmt.Sprintf("%d %s", x.n, x.what)
	}
	if s == "" {
		return "nobody gave way"
	}
	return s
}

// Job is a job of a run. Submitted counts from the start of the run.
type Job struct {
	Name      string  `json:"name"`
	High      bool    `json:"high"`
	Tasks     int     `json:"tasks"`
	Submitted float64 `json:"submitted"`
	Response  float64 `json:"response"`
	// Started is when the first of its containers was.
	Started float64 `json:"started"`
}

// wasted returns the processor time that preemption has cost (checkpoint-preemption,
// figure 8a).
func (r Run) wasted() float64 { return r.LostCPU + r.OverheadCPU }

// wasteShare is wasted as a part of what tasks and preemption have used.
func (r Run) wasteShare() float64 { return r.wasted() / (r.TaskCPU + r.OverheadCPU) }

// wastedTime returns the time of containers that preemption has cost.
func (r Run) wastedTime() float64 { return r.LostTime + r.IdleTime }

// response returns the mean response of the jobs of a priority.
func (r Run) response(high bool) float64 {
	var all []float64
	for _, j := range r.Jobs {
		if j.High == high {
			all = append(all, j.Response)
		}
	}
	return sample.Mean(all)
}

// sojourn returns the response of the urgent job of a pair.
func (r Run) sojourn() float64 { return r.response(true) }

// called returns the policy, and the store where it is compared with others.
func (r Run) called() string {
	if r.Store == "" || r.Case != "" {
		return r.Policy
	}
	return r.Policy + " " + r.Store
}

func (r *Results) Any() bool { return len(r.Runs) > 0 }

// runs is a selection of runs that count.
type runs []Run

func (r *Results) good(experiment string) runs {
	return sample.Good(sample.Where(runs(r.Runs), func(x Run) bool { return x.Experiment == experiment }))
}

func (rs runs) where(keep func(Run) bool) runs { return sample.Where(rs, keep) }

func (rs runs) in(kind string) runs {
	return rs.where(func(r Run) bool { return r.Case == kind })
}

func (rs runs) by(name string) runs {
	return rs.where(func(r Run) bool { return r.called() == name })
}

// names returns what was compared, in the order of policies and stores.
func (rs runs) names() []string {
	var out []string
	for _, policy := range Policies {
		for _, store := range append([]string{""}, yarnStores...) {
			name := Run{Policy: policy, Store: store}.called()
			if len(rs.by(name)) > 0 {
				out = append(out, name)
			}
		}
	}
	return out
}

// cases returns the kinds of pairs that occur.
func (rs runs) cases() []string {
	out := sample.Distinct(rs, func(r Run) string { return r.Case })
	slices.Sort(out)
	return out
}

type metric func(Run) float64

func (rs runs) of(m metric) sample.Spread { return sample.Of(rs, m) }

// against returns the ratios of a measure under two policies. Without a measure of the
// other there is none.
func (rs runs) against(name, other string, m metric) sample.Spread {
	return sample.Over(rs.by(name), rs.by(other).where(func(r Run) bool { return m(r) != 0 }), m)
}

// stops returns those of all runs.
func (rs runs) stops() []float64 {
	var all []float64
	for _, r := range rs {
		all = append(all, r.Stops...)
	}
	return all
}

// responses returns those of the jobs of a priority over all runs, sorted.
func (rs runs) responses(high bool) []float64 {
	var all []float64
	for _, r := range rs {
		for _, j := range r.Jobs {
			if j.High == high {
				all = append(all, j.Response)
			}
		}
	}
	slices.Sort(all)
	return all
}

// summed returns the counts of all runs together.
func (rs runs) summed() Counts {
	var sum Counts
	for _, r := range rs {
		sum.Killed += r.Counts.Killed
		sum.Suspended += r.Counts.Suspended
		sum.Checkpointed += r.Counts.Checkpointed
		sum.Unstarted += r.Counts.Unstarted
	}
	return sum
}
