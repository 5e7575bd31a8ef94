package lab

import (
	"fmt"
	"slices"

	"headrace/report"
	"headrace/sim"
)

// YarnResults is everything that `bench yarn` has measured. Times are seconds, sizes
// bytes, energy joules.
type YarnResults struct {
	Circumstances
	Pair     *PairPlan     `json:"pair,omitempty"`
	Workload *WorkloadPlan `json:"workload,omitempty"`
	Stores   []StoreFact   `json:"stores,omitempty"`
	Runs     []YarnRun     `json:"runs,omitempty"`
}

// YarnRun is one pair of jobs, or one workload, under one policy.
type YarnRun struct {
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
	Makespan float64   `json:"makespan"`
	Jobs     []YarnJob `json:"jobs,omitempty"`

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

	Dumped   int64      `json:"dumped"`
	Restored int64      `json:"restored"`
	Counts   YarnCounts `json:"counts"`
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

// In is the repeat, and why the run does not count.
func (r YarnRun) In() (repeat int, failure string) { return r.Repeat, r.Failure }

// YarnCounts is how often containers gave way, by what was done with them.
type YarnCounts struct {
	Killed       int `json:"killed"`
	Suspended    int `json:"suspended"`
	Checkpointed int `json:"checkpointed"`
	// Unstarted are those that were killed before they did anything: YARN had chosen
	// them before their processes were there.
	Unstarted int `json:"unstarted,omitempty"`
}

func (c YarnCounts) String() string {
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

// YarnJob is a job of a run. Submitted counts from the start of the run.
type YarnJob struct {
	Name      string  `json:"name"`
	High      bool    `json:"high"`
	Tasks     int     `json:"tasks"`
	Submitted float64 `json:"submitted"`
	Response  float64 `json:"response"`
	// Started is when the first of its containers was.
	Started float64 `json:"started"`
}

// wasted is the processor time that preemption has cost (checkpoint-preemption,
// figure 8a).
func (r YarnRun) wasted() float64 { return r.LostCPU + r.OverheadCPU }

// wasteShare is wasted as a part of what tasks and preemption have used.
func (r YarnRun) wasteShare() float64 { return r.wasted() / (r.TaskCPU + r.OverheadCPU) }

// wastedTime is the time of containers that preemption has cost.
func (r YarnRun) wastedTime() float64 { return r.LostTime + r.IdleTime }

// response is the mean response of the jobs of a priority.
func (r YarnRun) response(high bool) float64 {
	var all []float64
	for _, j := range r.Jobs {
		if j.High == high {
			all = append(all, j.Response)
		}
	}
	return Mean(all)
}

// sojourn is the response of the urgent job of a pair.
func (r YarnRun) sojourn() float64 { return r.response(true) }

// called is the policy, and the store where it is compared with others.
func (r YarnRun) called() string {
	if r.Store == "" || r.Case != "" {
		return r.Policy
	}
	return r.Policy + " " + r.Store
}

func (r *YarnResults) circumstances() *Circumstances { return &r.Circumstances }
func (r *YarnResults) any() bool                     { return len(r.Runs) > 0 }

// yarnRuns is a selection of runs that count.
type yarnRuns []YarnRun

func (r *YarnResults) good(experiment string) yarnRuns {
	return Good(Where(yarnRuns(r.Runs), func(x YarnRun) bool { return x.Experiment == experiment }))
}

func (rs yarnRuns) where(keep func(YarnRun) bool) yarnRuns { return Where(rs, keep) }

func (rs yarnRuns) in(kind string) yarnRuns {
	return rs.where(func(r YarnRun) bool { return r.Case == kind })
}

func (rs yarnRuns) by(name string) yarnRuns {
	return rs.where(func(r YarnRun) bool { return r.called() == name })
}

// names are what was compared, in the order of policies and stores.
func (rs yarnRuns) names() []string {
	var out []string
	for _, policy := range YarnPolicies {
		for _, store := range append([]string{""}, yarnStores...) {
			name := YarnRun{Policy: policy, Store: store}.called()
			if len(rs.by(name)) > 0 {
				out = append(out, name)
			}
		}
	}
	return out
}

// cases are the kinds of pairs that occur.
func (rs yarnRuns) cases() []string {
	out := Distinct(rs, func(r YarnRun) string { return r.Case })
	slices.Sort(out)
	return out
}

type yarnMetric func(YarnRun) float64

func (rs yarnRuns) of(m yarnMetric) Spread { return Of(rs, m) }

// against are the ratios of a measure under two policies. Without a measure of the
// other there is none.
func (rs yarnRuns) against(name, other string, m yarnMetric) Spread {
	return Over(rs.by(name), rs.by(other).where(func(r YarnRun) bool { return m(r) != 0 }), m)
}

// stops are those of all runs.
func (rs yarnRuns) stops() []float64 {
	var all []float64
	for _, r := range rs {
		all = append(all, r.Stops...)
	}
	return all
}

// responses are those of the jobs of a priority over all runs, sorted.
func (rs yarnRuns) responses(high bool) []float64 {
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

// summed are the counts of all runs together.
func (rs yarnRuns) summed() YarnCounts {
	var sum YarnCounts
	for _, r := range rs {
		sum.Killed += r.Counts.Killed
		sum.Suspended += r.Counts.Suspended
		sum.Checkpointed += r.Counts.Checkpointed
		sum.Unstarted += r.Counts.Unstarted
	}
	return sum
}
