package sim

import (
	"slices"

	"headrace"
	"headrace/lab/labtest"
	"headrace/lab/rig"
	"headrace/lab/trial"
	"headrace/policy"
	"headrace/sim"
)

// modelDay returns a day of 1000 core-seconds of work in which a run wastes a share of
// the time, draws some energy, and has these responses in the three bands.
func modelDay(seed uint64, name policy.Name, medium string, waste, energy float64, responses [3]float64) Run {
	r := Run{Experiment: expDay, Seed: seed, Took: 1, Result: sim.Result{Policy: name, Medium: medium, UsesMedium: medium != "", Jobs: 30, Tasks: 600, Makespan: 90000,
		Energy: sim.Energy{Joules: energy * 1e9}, Work: sim.Work{Useful: 3.6e6}}}
	lost := r.Work.Useful * waste / (1 - waste)
	if name == policy.Kill {
		r.Work.Killed, r.Counts.Kills = lost, 70
	} else {
		r.Work.Dump, r.Work.Restore, r.Counts.Checkpoints = lost/2, lost/2, 60
		r.IO.Dumped, r.IO.Restored = 3e12, 2e12
	}
	for i, b := range simBands {
		r.Bands = append(r.Bands, modelBand(b, 10, 200, responses[i]))
	}
	return r
}

// modelBand has this mean response.
func modelBand(name string, jobs, tasks int, mean float64) sim.Band {
	return sim.Band{Name: name, Jobs: jobs, Tasks: tasks, Response: sim.Spread{N: jobs, Mean: mean, At: []float64{mean / 2, mean, mean * 3}}}
}

// publishedDay returns a day as the paper has it; cost is as we want it.
func publishedDay(seed uint64, scale float64) []Run {
	low, middle, high := 1000*scale, 500*scale, 100*scale
	day := func(name policy.Name, medium string, waste, energy, l, m, h float64) Run {
		return modelDay(seed, name, medium, waste, energy, [3]float64{low * l, middle * m, high * h})
	}
	return []Run{
		day("kill", "", 0.35, 1, 1, 1, 1),
		day("checkpoint", "hdd", 0.146, 1.01, 0.7, 2, 1.4), day("checkpoint", "ssd", 0.111, 1, 0.5, 1.1, 1.02), day("checkpoint", "nvm", 0.085, 0.95, 0.26, 0.77, 1),
		day("adaptive", "hdd", 0.12, 1, 0.7*0.64, 2*0.45, 1.4*0.71), day("adaptive", "ssd", 0.1, 1, 0.5*0.88, 1.1*0.83, 1.02*0.92), day("adaptive", "nvm", 0.08, 0.95, 0.26*0.97, 0.77*0.92, 1),
		day("suspend", "hdd", 0.03, 0.94, 0.3, 0.8, 1), day("suspend", "ssd", 0.02, 0.94, 0.3, 0.8, 1), day("suspend", "nvm", 0.01, 0.94, 0.3, 0.8, 1),
		day("cost", "hdd", 0.04, 0.94, 0.3, 0.7, 1.01), day("cost", "ssd", 0.03*scale, 0.94, 0.3, 0.7, 1.01), day("cost", "nvm", 0.02, 0.94, 0.3, 0.7, 1),
	}
}

// modelSim is invented results of all experiments.
func modelSim() *Results {
	config := sim.DefaultConfig()
	config.Nodes = 7
	r := &Results{
		Circumstances: trial.Circumstances{Version: trial.ResultsVersion, Experiment: experimentName, Command: "headrace-lab bench sim", Started: labtest.ModelStart,
			Took: 300, Complete: true, Machine: rig.Machine{Processor: "Model", Processors: 2, Memory: 8e9, Kernel: "6.18", System: "Linux", Go: "go1.26", Headrace: "model"},
			Seed: 1, Repeats: 3},
		Day:  &Setup{Workload: "a day of a model", Jobs: 30, Tasks: 600, Config: config},
		Swim: &Setup{Workload: "another day", Jobs: 5, Tasks: 50, Config: config},
	}
	for i, scale := range []float64{1, 1.1, 2} {
		r.Runs = append(r.Runs, publishedDay(uint64(i+1), scale)...)
	}
	failed := Run{Experiment: expDay, Seed: 3, Result: sim.Result{Policy: policy.Wait}, Failure: "the model has a hole\nand more"}
	r.Runs = append(r.Runs, failed)
	r.Failed("seed 3, wait: %s", failed.Failure)
	r.media(sim.Measurements{From: "a model", Media: []sim.MeasuredMedium{{Medium: sim.Medium{Name: "ssd", Write: 1e8, Read: 9e7, DumpOverhead: 77e6, RestoreOverhead: 48e6}}}})
	r.modelSwim()
	r.modelCalibration()
	return r
}

// modelSwim has jobs that gain from every second ahead and from every byte.
func (r *Results) modelSwim() {
	for _, p := range slices.Concat([]Point{{}}, warmPoints(false), residencyPoints(false)) {
		gain := 0.0
		switch {
		case p.InMemory:
			gain = 0.4
		case p.Buffer > 0:
			gain = min(0.4, p.Lead/100*float64(p.Buffer)/1e9/4)
		case p.ByResidency:
			gain = float64(p.Cache) / 1e9 / 200
		}
		r.Runs = append(r.Runs, Run{Experiment: expSwim, Seed: 1, Point: p, Result: sim.Result{Policy: policy.Wait, Jobs: 5, Tasks: 50, Bands: []sim.Band{modelBand("middle", 5, 50, 100*(1-gain/2))},
			Reading: &sim.ReadingResult{Bytes: 1000, FromMemory: int64(1000 * gain), Warmed: int64(500 * gain), Remote: 100, Time: 10 * (1 - gain)}}})
	}
}

// modelCalibration has a simulator that is 4 % off with the sojourns, and 20 % with
// the waste of kill.
func (r *Results) modelCalibration() {
	r.Calibration = &CalibrationPlan{Slots: 2, Store: rig.StoreFact{Name: rig.StoreName(100e6), Write: 1e8, Read: 1e8}, Medium: "ssd", Tasks: []CalibrationTask{
		{Name: "low1", Priority: headrace.Low, Bytes: 1 << 20, Alone: 14}, {Name: "low2", Priority: headrace.Low, Submit: 1, Bytes: 1 << 20, Alone: 10},
		{Name: "urgent3", Priority: headrace.Production, Submit: 3, Bytes: 1 << 20, Alone: 5}}}
	for repeat := range 3 {
		for order, p := range calibrationPolicies {
			wobble := 1 + 0.01*float64(repeat)
			x := CalibrationRun{Repeat: repeat, Order: order, Policy: string(p)}
			x.Live = Calibrated{Sojourns: []float64{20 * wobble, 12, 5.1}, Makespan: 21 * wobble}
			x.Sim = Calibrated{Sojourns: []float64{12 * 1.04, 20 * 0.96, 5.1}, Makespan: 21}
			switch p {
			case "kill":
				x.Live.Waste, x.Live.Kills, x.Sim.Waste, x.Sim.Kills = 5, 1, 4, 1
			case "checkpoint":
				x.Live.Waste, x.Live.Checkpoints, x.Sim.Waste, x.Sim.Checkpoints = 3, 1, 3.1, 1
			default:
				x.Live.Waste, x.Live.Suspends, x.Sim.Suspends = 0.01, 1, 1
			}
			r.Calibrated = append(r.Calibrated, x)
		}
	}
	r.Calibrated = append(r.Calibrated, CalibrationRun{Repeat: 2, Policy: "cost", Failure: "no"})
}
