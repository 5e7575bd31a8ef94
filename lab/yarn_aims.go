package lab

import (
	"fmt"
	"math"

	"headrace/report"
)

// aims are the figures to be reached of the experiments that were run.
func (r *YarnResults) aims() []readingAim {
	out := []readingAim{r.lostAim()}
	if len(r.good(expPair)) > 0 {
		out = append(out, r.stopAim())
	}
	workload := r.good(expWorkload)
	if len(workload) == 0 {
		return out
	}
	for _, name := range []string{"suspend", "cost " + storeDisk, "checkpoint " + storeTmp} {
		if len(workload.by(name)) == 0 {
			continue
		}
		late := workload.against(name, "kill", YarnRun.sojourn)
		out = append(out,
			readingAim{what: name + ": waste, less than kill", paper: "50 to 67 %", unit: report.UnitPercent, bound: 0.9, atLeast: true,
				value: workload.lessThan("kill", name, YarnRun.wasted), where: expWorkload},
			readingAim{what: name + ": mean response of low jobs, less than kill", paper: "18 to 61 %", unit: report.UnitPercent, bound: 0.5, atLeast: true,
				value: workload.lessThan("kill", name, lowMean), where: expWorkload},
			readingAim{what: name + ": mean response of high jobs, more than kill", paper: "more; on NVM alike", unit: report.UnitPercent, bound: 0.05,
				value: spread{late.Median - 1, late.Min - 1, late.Max - 1}, where: expWorkload})
	}
	return out
}

// lostAim is the most that any run has lost with suspend.
func (r *YarnResults) lostAim() readingAim {
	a := readingAim{what: "suspend: work lost to preemption, the most of all runs", unit: report.UnitSeconds, value: spreadOf(nil)}
	for _, x := range r.Runs {
		if x.Policy == "suspend" && x.Failure == "" && !(x.LostCPU <= a.value.Median) {
			a.value = spread{x.LostCPU, x.LostCPU, x.LostCPU}
			a.where = x.Experiment
			if x.Case != "" {
				a.where += ", " + x.Case
			}
		}
	}
	return a
}

// stopAim is the longest that any stop took.
func (r *YarnResults) stopAim() readingAim {
	stops := r.good(expPair).stops()
	worst := spreadOf(stops).Max
	return readingAim{what: "from the choice of a container to its stopped processes, the longest", unit: report.UnitSeconds,
		bound: heartbeatHere.Seconds() + 0.1, value: spread{worst, worst, worst}, where: fmt.Sprintf("%d containers", len(stops))}
}

// note adds what a reader must know of the cluster.
func (r *YarnResults) note(o *YarnOptions) {
	r.More = append(r.More,
		report.Fact{Name: "YARN", Value: fmt.Sprintf("real ResourceManager and NodeManagers of Hadoop on this machine, heartbeat %v; the preemption monitor runs every 0.5 s, stock preemption kills 1 s after its choice", heartbeatHere)},
		report.Fact{Name: "Scale", Value: fmt.Sprintf("%.3g; containers that came back run at least %s", o.Scale, minRunHere)})
}

// load is the share of the slots' time that the tasks of the workload need at least.
func (p *WorkloadPlan) load() float64 {
	if p.Span <= 0 {
		return math.NaN()
	}
	return (p.work(false) + p.work(true)) / (p.Span * float64(p.Slots))
}
