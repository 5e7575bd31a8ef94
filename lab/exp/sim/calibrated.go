package sim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"headrace"
	"headrace/lab/sample"
	"headrace/lab/view"
	"headrace/lab/work"
	"headrace/policy"
	"headrace/report"
	"headrace/sim"
	"headrace/trace"
)

// lightTask is what a checkpoint of a task has beside the memory that it fills, as
// it was measured.
const lightTask = 3.3e6

// workload returns the plan as a trace. Each task is a job of its own.
func (p *CalibrationPlan) workload() *trace.Workload {
	w := &trace.Workload{Name: "calibration"}
	for i, t := range p.Tasks {
		w.Jobs = append(w.Jobs, t.Name)
		w.Tasks = append(w.Tasks, trace.Task{Job: int32(i), Submit: time.Duration(t.Submit * float64(time.Second)), Run: time.Duration(t.Alone * float64(time.Second)),
			Priority: t.Priority, CPUs: 1, Memory: t.Bytes + lightTask, Grow: float32(float64(t.Bytes) / work.FillPerSecond)})
	}
	return w
}

// simulateCalibration runs the plan without the daemon. The simulator tells sojourns
// by band and not by task: they are given to the tasks of a band in the order in which
// the live ones have them, and compared that way.
func (c *calibrator) simulateCalibration(ctx context.Context, name policy.Name) (Calibrated, error) {
	config := sim.DefaultConfig()
	config.Nodes = 1
	config.Node = sim.Node{CPUs: float64(c.plan.Slots), Memory: c.res.Machine.Memory, Store: 1 << 50}
	config.Policy = policy.Config{Policy: name, MinRun: policy.None}
	config.Interval = time.Millisecond
	config.KnowShare, config.Check = true, true
	if err := c.media.Apply(&config, c.plan.Medium); err != nil {
		return Calibrated{}, err
	}
	result, err := sim.Run(ctx, c.plan.workload(), config, nil)
	if err != nil {
		return Calibrated{}, err
	}
	return c.plan.simulated(result), nil
}

func (p *CalibrationPlan) simulated(x *sim.Result) Calibrated {
	out := Calibrated{Makespan: x.Makespan, Waste: x.Work.Killed + x.Work.Dump + x.Work.Restore,
		Kills: x.Counts.Kills, Suspends: x.Counts.Suspends, Checkpoints: x.Counts.Checkpoints, Sojourns: make([]float64, len(p.Tasks))}
	for _, b := range x.Bands {
		sorted := sampled(b.TaskResponse)
		for i, t := range p.Tasks {
			if t.Priority.Band() == b.Name && len(sorted) > 0 {
				out.Sojourns[i], sorted = sorted[0], sorted[1:]
			}
		}
	}
	return out
}

// sampled returns the values that a distribution was made from, in order, if there are
// not more of them than it has points.
func sampled(s sim.Spread) []float64 {
	var out []float64
	steps := len(s.At) - 1
	for k := range s.N {
		if s.N > 1 && s.N <= steps {
			out = append(out, s.At[(k*steps+s.N-2)/(s.N-1)])
		} else if s.N == 1 {
			out = append(out, s.At[0])
		}
	}
	return out
}

// offs returns how far the simulated sojourns are from the live ones, as parts of
// those: one for each task, those of a priority compared in the order of their length.
func (p *CalibrationPlan) offs(r CalibrationRun) []float64 {
	var out []float64
	for _, of := range []headrace.Priority{headrace.Low, headrace.Production} {
		live, simulated := p.bySojourn(of, r.Live.Sojourns), p.bySojourn(of, r.Sim.Sojourns)
		for i := range min(len(live), len(simulated)) {
			out = append(out, off(live[i], simulated[i]))
		}
	}
	return out
}

func off(live, simulated float64) float64 { return math.Abs(simulated-live) / live }

// leastWaste is the part of the work below which waste is too little to compare.
const leastWaste = 0.02

// work returns all that the tasks have to do.
func (p *CalibrationPlan) work() float64 {
	sum := 0.0
	for _, t := range p.Tasks {
		sum += t.Alone
	}
	return sum
}

// A calibrationError is one measure of how far off a run is; NaN: it does not apply.
type calibrationError func(*CalibrationPlan, CalibrationRun) float64

func medianOff(p *CalibrationPlan, r CalibrationRun) float64 {
	return sample.SpreadOf(p.offs(r)).Median
}
func mostOff(p *CalibrationPlan, r CalibrationRun) float64 { return sample.SpreadOf(p.offs(r)).Max }
func makespanOff(_ *CalibrationPlan, r CalibrationRun) float64 {
	return off(r.Live.Makespan, r.Sim.Makespan)
}
func wasteOff(p *CalibrationPlan, r CalibrationRun) float64 {
	if max(r.Live.Waste, r.Sim.Waste) < leastWaste*p.work() {
		return math.NaN()
	}
	return math.Abs(r.Sim.Waste-r.Live.Waste) / max(r.Live.Waste, leastWaste*p.work())
}

// calibrated returns the runs of a policy that have numbers.
func (r *Results) calibrated(name string) []CalibrationRun {
	return sample.Good(sample.Where(r.Calibrated, func(x CalibrationRun) bool { return x.Policy == name }))
}

func (r *Results) spreadOfRuns(name string, of func(CalibrationRun) float64) sample.Spread {
	return sample.Of(r.calibrated(name), of)
}

func (r *Results) off(name string, e calibrationError) sample.Spread {
	return r.spreadOfRuns(name, func(x CalibrationRun) float64 { return e(r.Calibration, x) })
}

// calibrationBound is the aim: no measure further off than that.
const calibrationBound = 0.1

// calibrationAims returns those of the policy that is furthest off.
func (r *Results) calibrationAims() []sample.Aim {
	var out []sample.Aim
	for _, m := range []struct {
		what string
		e    calibrationError
	}{{"simulated sojourn off the live one, median of the tasks", medianOff}, {"simulated makespan off the live one", makespanOff}, {"simulated waste off the live one", wasteOff}} {
		a := sample.Aim{What: m.what, Unit: report.UnitPercent, Bound: calibrationBound, Value: sample.Unmeasured()}
		for _, name := range calibrationPolicies {
			a.Worst(r.off(string(name), m.e), string(name))
		}
		out = append(out, a)
	}
	return out
}

func (r *Results) calibrationTable() *report.Table {
	p := r.Calibration
	t := &report.Table{
		Title: "The same small workload, live and simulated",
		Note: fmt.Sprintf("%d tasks with %s of work on %d slots, checkpoints on %s (%s for the simulator). Sojourns are compared task by task, those of a priority in the order of their length. "+
			"Waste: work killed, and slots held by dumps and restores; below %s of the work it is not compared. Medians over the repeats, in brackets from the least to the greatest. ",
			len(p.Tasks), report.Seconds(p.work()), p.Slots, p.Store.Name, p.Medium, report.Percent(leastWaste)) + view.AimNote(r.calibrationAims()),
		Columns: []report.Column{{Title: "policy"}, {Title: "sojourn: off, median", Align: report.Right}, {Title: "off, most", Align: report.Right},
			{Title: "makespan: live", Align: report.Right}, {Title: "simulated", Align: report.Right}, {Title: "off", Align: report.Right},
			{Title: "waste: live", Align: report.Right}, {Title: "simulated", Align: report.Right}, {Title: "off", Align: report.Right}, {Title: "live did"}, {Title: "simulated did"}},
	}
	for _, name := range calibrationPolicies {
		runs := r.calibrated(string(name))
		if len(runs) == 0 {
			continue
		}
		of := func(f func(CalibrationRun) float64) report.Cell {
			return view.Figure(r.spreadOfRuns(string(name), f), report.UnitTenths)
		}
		last := runs[len(runs)-1]
		t.Add(report.Str(string(name)), view.Figure(r.off(string(name), medianOff), report.UnitPercent), view.Figure(r.off(string(name), mostOff), report.UnitPercent),
			of(func(x CalibrationRun) float64 { return x.Live.Makespan }), of(func(x CalibrationRun) float64 { return x.Sim.Makespan }), view.Figure(r.off(string(name), makespanOff), report.UnitPercent),
			of(func(x CalibrationRun) float64 { return x.Live.Waste }), of(func(x CalibrationRun) float64 { return x.Sim.Waste }), wasteCell(r.off(string(name), wasteOff)),
			report.Str(last.Live.did()), report.Str(last.Sim.did()))
	}
	return t
}

func wasteCell(s sample.Spread) report.Cell {
	if math.IsNaN(s.Median) {
		return report.Str("")
	}
	return view.Figure(s, report.UnitPercent)
}

// did returns how often each mechanism was used.
func (c Calibrated) did() string {
	s := ""
	for _, m := range []struct {
		n    int
		name string
	}{{c.Kills, "kill"}, {c.Suspends, "suspend"}, {c.Checkpoints, "checkpoint"}} {
		if m.n == 0 {
			continue
		}
		if s != "" {
			s += ", "
		}
		s += fmt.Sprintf("%s %d×", m.name, m.n)
	}
	return s
}

// calibratedTaskTable has the sojourns of every task, medians over the repeats.
func (r *Results) calibratedTaskTable() *report.Table {
	t := &report.Table{
		Title:   "Sojourns, live and simulated",
		Note:    "Medians over the repeats; the tasks of a priority in the order of their sojourns, which may differ between the policies.",
		Columns: []report.Column{{Title: "priority"}, {Title: "", Align: report.Right}},
	}
	var shown []string
	for _, name := range calibrationPolicies {
		if len(r.calibrated(string(name))) > 0 {
			shown = append(shown, string(name))
			t.Columns = append(t.Columns, report.Column{Title: string(name) + ": live", Align: report.Right}, report.Column{Title: "simulated", Align: report.Right}, report.Column{Title: "off", Align: report.Right})
		}
	}
	for _, of := range []headrace.Priority{headrace.Low, headrace.Production} {
		for k := range r.Calibration.ofPriority(of) {
			row := []report.Cell{report.Str(of.String()), count(k + 1)}
			for _, name := range shown {
				at := func(pick func(CalibrationRun) []float64) sample.Spread {
					return r.spreadOfRuns(name, func(x CalibrationRun) float64 {
						if sorted := r.Calibration.bySojourn(of, pick(x)); k < len(sorted) {
							return sorted[k]
						}
						return math.NaN()
					})
				}
				live, simulated := at(func(x CalibrationRun) []float64 { return x.Live.Sojourns }), at(func(x CalibrationRun) []float64 { return x.Sim.Sojourns })
				row = append(row, report.Num(live.Median, report.UnitTenths), report.Num(simulated.Median, report.UnitTenths), report.Num(off(live.Median, simulated.Median), report.UnitPercent))
			}
			t.Add(row...)
		}
	}
	return t
}

func (p *CalibrationPlan) ofPriority(of headrace.Priority) int {
	return len(slices.DeleteFunc(slices.Clone(p.Tasks), func(t CalibrationTask) bool { return t.Priority != of }))
}

// calibrationBars returns the errors beside each other.
func (r *Results) calibrationBars() *report.Bars {
	var rows []string
	for _, name := range calibrationPolicies {
		if len(r.calibrated(string(name))) > 0 {
			rows = append(rows, string(name))
		}
	}
	measure := func(title string, e calibrationError) view.Measure {
		return view.Measure{Title: title, Unit: report.UnitPercent, Better: report.Lower, Line: calibrationBound, Of: func(name string) sample.Spread { return r.off(name, e) }}
	}
	return view.Bars("How far the simulator is off", rows, measure("Sojourn, median of the tasks", medianOff), measure("Sojourn, most", mostOff),
		measure("Makespan", makespanOff), measure("Waste", wasteOff))
}
