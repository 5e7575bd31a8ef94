package yarn

import (
	"context"
	"fmt"
	"math"
	"time"

	"headrace"
	"headrace/lab/rig"
	"headrace/lab/sample"
	"headrace/lab/view"
	"headrace/lab/yarn"
	"headrace/policy"
	"headrace/report"
	"headrace/sim"
	"headrace/sim/capacity"
	"headrace/trace"
)

// pollHere is the heartbeat of our application masters.
const pollHere = 100 * time.Millisecond

// overhead is what YARN adds to a task, in seconds: until its job's wants are known to the
// ResourceManager, from when a container is given out until its command runs, and from
// the end of that until the job has ended. stretch is how many times as long as alone
// the command takes, because YARN runs on the same processors.
type overhead struct{ admission, launch, tell, stretch float64 }

// overhead is measured with the urgent jobs that found room for all of their tasks, which
// nobody disturbs, and with the time of all containers without what was lost and without
// standing still: medians over all runs. Of what lies between two heartbeats half of
// one is taken to have passed.
func (rs runs) overhead(p *WorkloadPlan) overhead {
	var before, after, longer []float64
	for _, r := range rs {
		for _, j := range r.Jobs {
			if j.High && r.busy(j.Submitted)+j.Tasks <= p.Slots {
				waited := j.Started - j.Submitted
				before = append(before, waited)
				after = append(after, j.Response-waited)
			}
		}
	}
	if len(before) == 0 {
		return overhead{stretch: 1}
	}
	high, lows := sample.SpreadOf(after).Median, p.work(false)/p.Low
	for _, r := range rs {
		low := (r.HeldTime - r.wastedTime() - high*p.work(true)/p.High) / lows
		longer = append(longer, (low-high)/(p.Low-p.High))
	}
	o := overhead{stretch: max(1, sample.SpreadOf(longer).Median)}
	poll, beat := pollHere.Seconds()/2, heartbeatHere.Seconds()/2
	o.admission, o.tell = max(0, sample.SpreadOf(before).Median-beat-poll), beat+poll
	o.launch = max(0, high-o.stretch*p.High-beat)
	return o
}

// busy returns how many tasks the jobs have that were submitted before, and have not
// ended.
func (r Run) busy(at float64) int {
	n := 0
	for _, j := range r.Jobs {
		if j.Submitted < at && j.Submitted+j.Response > at {
			n += j.Tasks
		}
	}
	return n
}

// simulated is what the simulator makes of the workload. Times are seconds.
type simulated struct {
	low, high, makespan, waste float64
	counts                     Counts
	err                        error
}

// mediumLike is the simulator's medium that is like a store of ours.
var mediumLike = map[string]string{storeHDD: "ssd", rig.StoreDisk: "disk", storeTmp: "nvm"}

// simulate runs the workload on a YARN that does not exist, set up as the one here.
func (r *Results) simulate(x Run, o overhead) simulated {
	c, err := r.simConfig(x, o)
	if err != nil {
		return simulated{err: err}
	}
	got, err := sim.Run(context.Background(), r.Workload.trace(o), c, nil)
	if err != nil {
		return simulated{err: err}
	}
	out := simulated{makespan: got.Makespan + o.admission + o.tell, counts: Counts{Killed: got.Counts.Kills, Suspended: got.Counts.Suspends, Checkpointed: got.Counts.Checkpoints}}
	// What starting takes is wasted only where it was in vain.
	out.waste = got.Work.Wasted() - o.launch*float64(got.Counts.Starts-got.Counts.Kills)
	for _, b := range got.Bands {
		switch b.Name {
		case headrace.Free.Band():
			out.low = b.Response.Mean + o.admission + o.tell
		case headrace.Production.Band():
			out.high = b.Response.Mean + o.admission + o.tell
		}
	}
	return out
}

func (r *Results) simConfig(x Run, o overhead) (sim.Config, error) {
	c := sim.DefaultConfig()
	c.Nodes, c.Interval, c.KnowShare, c.Check = r.Workload.Slots, 0, true, true
	c.Node = sim.Node{CPUs: 1, Memory: r.Machine.Memory, Store: 1 << 50}
	minRun, err := time.ParseDuration(minRunHere)
	if err != nil {
		return c, err
	}
	c.Policy = policy.Config{Policy: policy.Name(x.Policy), MinRun: minRun}
	medium := mediumLike[x.Store]
	if medium == "" {
		medium = mediumLike[rig.StoreDisk]
	}
	if err := sim.DefaultMeasurements().Apply(&c, medium); err != nil {
		return c, err
	}
	c.Costs.Start = seconds(o.launch)
	scheduler := capacity.DefaultConfig()
	scheduler.Heartbeat = heartbeatHere
	for i, q := range yarn.LowAndHigh() {
		scheduler.Queues[i].Name, scheduler.Queues[i].Capacity, scheduler.Queues[i].Priority = q.Name, float64(q.Capacity), i
	}
	for name, value := range yarn.Preemption {
		if err := scheduler.Set(name, value); err != nil {
			return c, err
		}
	}
	scheduler.Ignored = ignoredHere
	c.Capacity = &scheduler
	return c, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// lightTask is what a checkpoint of a task has beside the memory that it fills, as it was
// measured.
const lightTask = 3.3e6

// trace returns the workload as the simulator takes it. A task of k-means goes through
// all of its memory again and again.
func (p *WorkloadPlan) trace(o overhead) *trace.Workload {
	w := &trace.Workload{Name: expWorkload}
	for i, j := range p.Jobs {
		one := trace.Task{Job: int32(i), Submit: seconds(j.At + o.admission), Run: seconds(p.Low * o.stretch), Priority: headrace.Free,
			CPUs: 1, Memory: p.Bytes + lightTask, Dirty: float32(p.Bytes)}
		if j.High {
			one.Run, one.Priority = seconds(p.High*o.stretch), headrace.Production
		}
		w.Jobs = append(w.Jobs, j.Name)
		for k := range j.Tasks {
			one.Index = int32(k)
			w.Tasks = append(w.Tasks, one)
		}
	}
	return w
}

// A likeness is one measure of a run that the simulator foretells.
type likeness struct {
	what string
	live metric
	sim  func(simulated) float64
	// least is what it must be at least, to be compared.
	least float64
}

// likenessBound is the aim: no measure further off than that.
const likenessBound = 0.15

// leastWaste is the part of the work below which waste is too little to compare.
const leastWaste = 0.02

func (r *Results) likenesses() []likeness {
	work := r.Workload.work(false) + r.Workload.work(true)
	return []likeness{
		{"high: response", Run.sojourn, func(s simulated) float64 { return s.high }, 0},
		{"low: response", lowMean, func(s simulated) float64 { return s.low }, 0},
		{"makespan", lasted, func(s simulated) float64 { return s.makespan }, 0},
		{"time wasted", Run.wastedTime, func(s simulated) float64 { return s.waste }, leastWaste * work},
	}
}

// off returns how far the simulator is off, as a part of what was measured.
func (l likeness) off(live runs, s simulated) sample.Spread {
	return live.of(func(x Run) float64 {
		if s.err != nil || max(l.live(x), l.sim(s)) < l.least {
			return math.NaN()
		}
		return math.Abs(l.sim(s)-l.live(x)) / max(l.live(x), l.least)
	})
}

// likenessTable returns the workload as it was measured, and as the simulator has it.
func (r *Results) likenessTable() *report.Table {
	t := &report.Table{Title: "The workload, live and simulated", Columns: []report.Column{{Title: "policy"}}}
	all, measures := r.good(expWorkload), r.likenesses()
	var aims []sample.Aim
	for _, l := range measures {
		t.Columns = append(t.Columns, report.Column{Title: l.what + ": live", Align: report.Right}, report.Column{Title: "simulated", Align: report.Right}, report.Column{Title: "off", Align: report.Right})
		aims = append(aims, sample.Aim{What: l.what + ", simulated, off the live one", Unit: report.UnitPercent, Bound: likenessBound, Value: sample.Unmeasured()})
	}
	t.Columns = append(t.Columns, report.Column{Title: "live did"}, report.Column{Title: "simulated did", Flex: true})
	o := all.overhead(r.Workload)
	for _, name := range all.names() {
		live := all.by(name)
		s := r.simulate(live[0], o)
		row := []report.Cell{report.Str(name)}
		for i, l := range measures {
			off := l.off(live, s)
			aims[i].Worst(off, name)
			row = append(row, view.Figure(live.of(l.live), report.UnitTenths), report.Num(l.sim(s), report.UnitTenths), offCell(off))
		}
		did := s.counts.String()
		if s.err != nil {
			did = s.err.Error()
		}
		t.Add(append(row, report.Str(live.summed().String()), report.Str(did))...)
	}
	t.Note = fmt.Sprintf("The simulator runs the same jobs under YARN's CapacityScheduler (headrace sim --scheduler capacity), set up as here. Fitted is only what YARN adds to a task, measured in the same runs: "+
		"%s until a job's wants are known, %s until a command runs, %s until its end is; a command takes %.3g times as long as alone. Responses are means of jobs. Wasted is time of containers; below %s of the work it is not compared. ",
		report.Seconds(o.admission), report.Seconds(o.launch), report.Seconds(o.tell), o.stretch, report.Percent(leastWaste)) + view.AimNote(aims)
	return t
}

func offCell(s sample.Spread) report.Cell {
	if math.IsNaN(s.Median) {
		return report.Str("")
	}
	return view.Figure(s, report.UnitPercent)
}
