package page

import (
	"math"
	"time"

	"headrace/policy"
	"headrace/report"
	"headrace/sim"
	"headrace/trace"
)

// A made-up policy: what it does to the numbers of a made-up day.
type made struct {
	policy                                 policy.Name
	medium                                 string
	killed, dump, restore, pageIn, stop    float64 // core-hours
	free, middle, production               float64 // response, to kill
	kills, suspends, checkpoints, restore2 int
}

var inventedRuns = []made{
	{policy.Wait, "", 0, 0, 0, 0, 4, 0.31, 0.9, 3.6, 0, 0, 0, 0},
	{policy.Kill, "", 3010, 0, 0, 0, 390, 1, 1, 1, 182_000, 0, 0, 0},
	{policy.Suspend, "", 0, 0, 0, 130, 22, 0.27, 0.71, 1.01, 0, 91_000, 0, 0},
	{policy.Checkpoint, "hdd", 0, 620, 410, 0, 60, 0.62, 1.44, 1.9, 0, 0, 88_000, 87_000},
	{policy.Adaptive, "hdd", 240, 190, 120, 0, 80, 0.44, 0.8, 1.2, 41_000, 0, 31_000, 30_500},
	{policy.Cost, "hdd", 12, 3, 2, 118, 26, 0.28, 0.72, 1.01, 900, 90_100, 400, 380},
	{policy.Checkpoint, "nvm", 0, 21, 18, 0, 55, 0.29, 0.74, 1.02, 0, 0, 90_000, 89_000},
	{policy.Adaptive, "nvm", 19, 20, 17, 0, 56, 0.28, 0.72, 1.01, 2100, 0, 88_500, 87_000},
	{policy.Cost, "nvm", 6, 11, 8, 11, 40, 0.26, 0.7, 1, 400, 40_100, 42_400, 41_000},
}

var inventedMedia = map[string]sim.Medium{
	"hdd": {Name: "hdd", Write: 30e6, Read: 29e6, DumpOverhead: 77 * time.Millisecond, RestoreOverhead: 48 * time.Millisecond},
	"nvm": {Name: "nvm", Write: 1.9e9, Read: 1.7e9, DumpOverhead: 77 * time.Millisecond, RestoreOverhead: 48 * time.Millisecond},
}

func invented() []*sim.Result {
	results := make([]*sim.Result, len(inventedRuns))
	for i, m := range inventedRuns {
		results[i] = m.result()
	}
	return results
}

func (m made) result() *sim.Result {
	name := m.medium
	if name == "" {
		name = "hdd"
	}
	r := &sim.Result{
		Workload: trace.GoogleDayName, Policy: m.policy, Medium: name, UsesMedium: m.medium != "",
		Jobs: 15_000, Tasks: 600_000, Makespan: 86_400 * (1 + m.killed/60_000), Step: 1800,
		Config: sim.Config{
			Nodes: 200, Node: sim.Node{CPUs: 2.3, Memory: 96 << 30, Swap: 48 << 30, SwapOut: 190e6, SwapIn: 210e6, Net: 1.25e9, Store: 1 << 40},
			Medium: inventedMedia[name], Power: sim.Power{Idle: 100, Peak: 250}, Interval: time.Second, Seed: 7,
			Costs: sim.Costs{Start: 50 * time.Millisecond, Kill: 20 * time.Millisecond, Stop: 30 * time.Millisecond, Resume: 2 * time.Millisecond, Moving: 0.14},
		},
		Work: sim.Work{Useful: 6300 * 3600, Killed: m.killed * 3600, Dump: m.dump * 3600, Restore: m.restore * 3600, PageIn: m.pageIn * 3600, Stop: m.stop * 3600},
		Counts: sim.Counts{Decisions: 80_000, Starts: 600_000 + m.kills, Kills: m.kills, Suspends: m.suspends, Resumes: m.suspends,
			Checkpoints: m.checkpoints, Incremental: m.checkpoints / 3, NoRoom: m.checkpoints / 40_000, Withdrawn: m.checkpoints / 7, Restores: m.restore2, Remote: m.restore2 / 20},
		IO: sim.IO{Dumped: int64(m.checkpoints) * 310e6, Restored: int64(m.restore2) * 330e6, Moved: int64(m.restore2) * 16e6,
			PagedOut: int64(m.suspends) * 21e6, PagedIn: int64(m.suspends) * 20e6, StoreBusy: (m.dump + m.restore) / 1400, StorePeak: int64(m.checkpoints) * 9e6},
	}
	held := r.Work.Used() / (200 * 2.3 * r.Makespan)
	r.Energy = sim.Energy{Utilisation: held, Idle: 200 * 100 * r.Makespan, Joules: 200 * (100 + 150*held) * r.Makespan}
	r.Bands = []sim.Band{
		inventedBand("free", 6750, 359_500, 9300*m.free, 1.3), inventedBand("middle", 6900, 219_000, 2600*m.middle, 0.9),
		inventedBand("production", 1350, 21_500, 700*m.production, 0.7),
	}
	r.Bands[0].Wasted, r.Bands[1].Wasted = 0.97*r.Work.Wasted(), 0.03*r.Work.Wasted()
	r.Outcome = inventedOutcome(r.Counts.Preemptions())
	for i := range int(r.Makespan/r.Step) + 1 {
		wave := math.Sin(float64(i)/8) + 0.4*math.Sin(float64(i)/2)
		r.Load = append(r.Load, min(1, held*(1+0.35*wave)))
		r.Waiting = append(r.Waiting, math.Round(max(0, 900*m.free*(1+wave))))
	}
	return r
}

// inventedBand has responses whose logarithms are spread evenly about the mean.
func inventedBand(name string, jobs, tasks int, mean, sigma float64) sim.Band {
	spread := func(n int, mean float64) sim.Spread {
		s := sim.Spread{N: n, Mean: mean}
		for i := range 51 {
			q := float64(i)/50 - 0.5
			s.At = append(s.At, math.Round(mean*0.6*math.Exp(sigma*(4*q+9*q*q*q))*100)/100)
		}
		return s
	}
	return sim.Band{Name: name, Jobs: jobs, Tasks: tasks, Response: spread(jobs, mean), TaskResponse: spread(tasks, mean/2), Slowdown: spread(tasks, 1+mean/900)}
}

func inventedOutcome(preemptions int) trace.Outcome {
	o := trace.Outcome{ByPriority: make([]trace.Preempted, 12), ByClass: make([]trace.Preempted, 4), Times: make([]int, trace.OftenTimes+1)}
	some := preemptions / 3
	o.Times[0] = 600_000 - some
	left := some
	for i := 1; i < trace.OftenTimes; i++ {
		o.Times[i] = left * 45 / 100
		left -= o.Times[i]
	}
	o.Times[trace.OftenTimes] = left
	o.ByPriority[0] = trace.Preempted{Tasks: 233_000, Preempted: some * 6 / 10, Preemptions: preemptions * 6 / 10, Scheduled: 233_000 + preemptions*6/10}
	o.ByPriority[1] = trace.Preempted{Tasks: 126_500, Preempted: some * 3 / 10, Preemptions: preemptions * 3 / 10, Scheduled: 126_500 + preemptions*3/10}
	o.ByPriority[4] = trace.Preempted{Tasks: 219_000, Preempted: some / 10, Preemptions: preemptions / 10, Scheduled: 219_000 + preemptions/10}
	o.ByPriority[9] = trace.Preempted{Tasks: 21_500, Scheduled: 21_500}
	for i, n := range []int{470_000, 80_000, 46_000, 4_000} {
		o.ByClass[i] = trace.Preempted{Tasks: n, Preempted: some * n / 600_000, Preemptions: preemptions * n / 600_000, Scheduled: n + preemptions*n/600_000}
	}
	for i := range 24 {
		o.Hourly = append(o.Hourly, trace.Hour{Scheduled: 25_000 + 300*i, Preemptions: preemptions / 24 * (i%5 + 1) / 3})
	}
	return o
}

// inventedReading returns a smaller workload that reads, under one policy with and
// without warming.
func inventedReading() []*sim.Result {
	var results []*sim.Result
	for i := range 2 {
		r := made{policy: policy.Cost, free: 1 - 0.2*float64(i), middle: 1, production: 1, suspends: 10}.result()
		r.Workload, r.Jobs, r.Tasks = "FB-2009_samples_24_times_1hr_0", 5894, 40_000
		r.Bands[0] = sim.Band{Name: "free"}
		r.Config.Reading = sim.Reading{Disk: 130e6, Shared: 60e6, Memory: 3e9, Block: 128 << 20, Replicas: 3, Cache: 64 << 30, Buffer: int64(i) * 16 << 30, Lead: 8 * time.Second}
		r.Reading = &sim.ReadingResult{Bytes: 7e12, FromMemory: int64(1+4*i) * 1e12, Warmed: int64(3*i) * 1e12, Remote: 4e11, Time: 2.1 - 0.9*float64(i)}
		r.Outcome = trace.Outcome{}
		results = append(results, r)
	}
	return results
}

func inventedAbout() About {
	return About{
		Measured: "`headrace-lab bench preempt` on 2 CPUs, Linux 6.12",
		Sources:  map[string]string{"hdd": "storage throttled to 30 MB/s, medians of 5", "nvm": "memory (tmpfs), medians of 30"},
		Facts:    []report.Fact{{Name: "Command", Value: "`headrace sim --trace synthetic:google-day --seed 7`"}, {Name: "Date", Value: "2026-03-14 15:09 UTC"}},
	}
}
