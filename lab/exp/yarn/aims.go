package yarn

import (
	"fmt"
	"math"

	"headrace/lab/rig"
	"headrace/lab/sample"
	"headrace/report"
)

// aims returns the figures to be reached of the experiments that were run.
func (r *Results) aims() []sample.Aim {
	out := []sample.Aim{r.lostAim()}
	if len(r.good(expPair)) > 0 {
		out = append(out, r.stopAim())
	}
	workload := r.good(expWorkload)
	if len(workload) == 0 {
		return out
	}
	for _, name := range []string{"suspend", "cost " + rig.StoreDisk, "checkpoint " + storeTmp} {
		if len(workload.by(name)) == 0 {
			continue
		}
		late := workload.against(name, "kill", Run.sojourn)
		out = append(out,
			sample.Aim{What: name + ": waste, less than kill", Paper: "50 to 67 %", Unit: report.UnitPercent, Bound: 0.9, AtLeast: true,
				Value: workload.lessThan("kill", name, Run.wasted), Where: expWorkload},
			sample.Aim{What: name + ": mean response of low jobs, less than kill", Paper: "18 to 61 %", Unit: report.UnitPercent, Bound: 0.5, AtLeast: true,
				Value: workload.lessThan("kill", name, lowMean), Where: expWorkload},
			sample.Aim{What: name + ": mean response of high jobs, more than kill", Paper: "more; on NVM alike", Unit: report.UnitPercent, Bound: 0.05,
				Value: late.Plus(-1), Where: expWorkload})
	}
	return out
}

// lostAim returns the most that any run has lost with suspend.
func (r *Results) lostAim() sample.Aim {
	a := sample.Aim{What: "suspend: work lost to preemption, the most of all runs", Unit: report.UnitSeconds, Value: sample.Unmeasured()}
	for _, x := range r.Runs {
		if x.Policy == "suspend" && x.Failure == "" && !(x.LostCPU <= a.Value.Median) {
			a.Value = sample.SpreadOf([]float64{x.LostCPU})
			a.Where = x.Experiment
			if x.Case != "" {
				a.Where += ", " + x.Case
			}
		}
	}
	return a
}

// stopAim returns the longest that any stop took.
func (r *Results) stopAim() sample.Aim {
	stops := r.good(expPair).stops()
	worst := sample.SpreadOf(stops).Max
	return sample.Aim{What: "from the choice of a container to its stopped processes, the longest", Unit: report.UnitSeconds,
		Bound: heartbeatHere.Seconds() + 0.1, Value: sample.SpreadOf([]float64{worst}), Where: fmt.Sprintf("%d containers", len(stops))}
}

// note adds what a reader must know of the cluster.
func (r *Results) note(o *Options) {
	r.More = append(r.More,
		report.Fact{Name: "YARN", Value: fmt.Sprintf("real ResourceManager and NodeManagers of Hadoop on this machine, heartbeat %v; the preemption monitor runs every 0.5 s, stock preemption kills 1 s after its choice", heartbeatHere)},
		report.Fact{Name: "Scale", Value: fmt.Sprintf("%.3g; containers that came back run at least %s", o.Scale, minRunHere)})
}

// load returns the share of the slots' time that the tasks of the workload need at
// least.
func (p *WorkloadPlan) load() float64 {
	if p.Span <= 0 {
		return math.NaN()
	}
	return (p.work(false) + p.work(true)) / (p.Span * float64(p.Slots))
}
