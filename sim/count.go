package sim

import (
	"fmt"
	"math"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/trace"
)

// tally is what is counted during a run beside what goes straight into the result.
type tally struct {
	ended int
	// held is how many CPUs are held now, spent their time in core-seconds, for the
	// check that none is missing; busy the processor time used, for the energy.
	held, spent, busy float64
	// stores is what checkpoints take on all nodes.
	stores int64
	// left and first are for each job how many of its tasks have not ended and when
	// the first was submitted.
	left  []int32
	first []time.Duration
	bands [len(bandNames)]bandTally
	series
}

var bandNames = [...]string{"free", "middle", "production"}

func band(p headrace.Priority) uint8 {
	name := p.Band()
	for i, n := range bandNames {
		if n == name {
			return uint8(i)
		}
	}
	panic("sim: no band " + name)
}

// bandTally is a band under way. Times are seconds.
type bandTally struct {
	tasks, jobs                 int
	response, perTask, slowdown []float32
	wasted                      float64
}

// begin prepares the counting of w.
func (e *engine) begin(w *trace.Workload) {
	e.r = &Result{Workload: w.Name, Policy: e.c.Policy.Policy, Medium: e.c.Medium.Name, Config: e.c, Jobs: len(w.Jobs), Tasks: len(w.Tasks)}
	e.r.Outcome = trace.Outcome{
		ByPriority: make([]trace.Preempted, headrace.MaxPriority+1),
		ByClass:    make([]trace.Preempted, 4),
		Times:      make([]int, trace.OftenTimes+1),
	}
	e.left = make([]int32, len(w.Jobs))
	e.first = make([]time.Duration, len(w.Jobs))
	for i := len(w.Tasks) - 1; i >= 0; i-- {
		t := &w.Tasks[i]
		e.left[t.Job]++
		e.first[t.Job] = t.Submit
	}
	e.step = firstStep
}

// spend counts the time that t has held its CPUs in the phase that ends now.
func (e *engine) spend(t *task) {
	took := e.now - t.since
	if t.phase == idle || took == 0 {
		return
	}
	time := float64(took.Seconds() * float64(t.spec.CPUs))
	e.spent += time
	work := &e.r.Work
	switch t.phase {
	case running:
		t.done += took
		e.busy += time
		return // useful, unless it is lost
	case reading:
		t.in.took += took
		work.Reading += time
		e.busy += time
		return
	case stopping:
		work.Stop += time
	case dumping:
		work.Dump += time
	case restoring:
		work.Restore += time
	case pagingIn:
		work.PageIn += time
	}
	e.bands[t.band].wasted += time
}

// hold enters that t holds its CPUs from now on, or no more.
func (e *engine) hold(t *task, holds bool) {
	cpus := float64(t.spec.CPUs)
	if holds {
		t.node.tasks++
		t.node.held += cpus
		e.held += cpus
		return
	}
	t.node.tasks--
	t.node.held -= cpus
	if t.node.tasks == 0 {
		t.node.held = 0 // so that roundings do not add up
	}
	e.held -= cpus
}

// lose throws away what t has done since its last checkpoint.
func (e *engine) lose(t *task) {
	lost := t.done - t.saved
	time := float64(lost.Seconds() * float64(t.spec.CPUs))
	e.r.Work.Killed += time
	e.bands[t.band].wasted += time
	t.v.Progress.Lost += lost
	t.done = t.saved
	if t.in == nil {
		return
	}
	lost = e.files.loseReading(t)
	time = float64(lost.Seconds() * float64(t.spec.CPUs))
	e.r.Work.Reading -= time
	e.r.Work.Killed += time
	e.bands[t.band].wasted += time
	t.v.Progress.Lost += lost
}

// scheduled counts that a task came to run, preempted that t had to leave.
func (e *engine) scheduled() { e.hour().Scheduled++ }

func (e *engine) preempted(t *task) {
	t.v.Preemptions++
	e.hour().Preemptions++
	e.r.Outcome.ByPriority[t.spec.Priority].Preemptions++
	e.r.Outcome.ByClass[t.spec.Class&3].Preemptions++
}

func (e *engine) hour() *trace.Hour {
	h := int(e.now / time.Hour)
	for len(e.r.Outcome.Hourly) <= h {
		e.r.Outcome.Hourly = append(e.r.Outcome.Hourly, trace.Hour{})
	}
	return &e.r.Outcome.Hourly[h]
}

// complete counts t, which has ended.
func (e *engine) complete(t *task) {
	spec := t.spec
	e.ended++
	e.r.Work.Useful += float64(spec.Run.Seconds() * float64(spec.CPUs))
	b := &e.bands[t.band]
	response := (e.now - spec.Submit).Seconds()
	b.tasks++
	b.perTask = append(b.perTask, float32(response))
	b.slowdown = append(b.slowdown, float32(response/max(spec.Run.Seconds(), 1e-3)))
	for _, p := range []*trace.Preempted{&e.r.Outcome.ByPriority[spec.Priority], &e.r.Outcome.ByClass[spec.Class&3]} {
		p.Tasks++
		if t.v.Preemptions > 0 {
			p.Preempted++
		}
	}
	e.r.Outcome.Times[min(t.v.Preemptions, trace.OftenTimes)]++
	if e.left[spec.Job]--; e.left[spec.Job] == 0 {
		b.jobs++
		response := (e.now - e.first[spec.Job]).Seconds()
		b.response = append(b.response, float32(response))
		if e.files != nil {
			e.files.countJob(spec.Job, response)
		}
	}
	if t.in != nil {
		e.files.taskEnded(t)
	}
}

// conserved verifies that no time of CPUs is missing.
func (e *engine) conserved() error {
	w := e.r.Work
	if used := w.Used(); math.Abs(used-e.spent) > 1e-6*(1+e.spent) {
		return fmt.Errorf("sim: %v core-seconds were held, %v are useful or wasted: work is not conserved", e.spent, used)
	}
	if e.stores != 0 {
		return fmt.Errorf("sim: all tasks have ended, and %d bytes of checkpoints are left", e.stores)
	}
	for i := range e.nodes {
		n := &e.nodes[i]
		if n.tasks != 0 || n.swapped != 0 || n.stored != 0 || len(n.moves) != 0 || len(n.paging) != 0 {
			return fmt.Errorf("sim: all tasks have ended, and %s still holds %d tasks, %d bytes of swap and %d of checkpoints", n.v.ID, n.tasks, n.swapped, n.stored)
		}
	}
	if e.files != nil {
		return e.files.conserved()
	}
	return nil
}

// usesMedium reports whether the run could have gone otherwise on another medium. A
// policy that weighs checkpoints depends on it even where it made none.
func (e *engine) usesMedium() bool {
	switch e.c.Policy.Policy {
	case policy.Kill, policy.Wait:
		return false
	case policy.Suspend:
		return e.r.Counts.Checkpoints > 0 || e.swapOnMedium && e.r.IO.PagedOut > 0
	}
	return true
}

// result is the whole.
func (e *engine) result() *Result {
	r := e.r
	start := e.w.Tasks[0].Submit
	r.Makespan = (e.now - start).Seconds()
	cores := float64(e.c.Nodes) * e.c.Node.CPUs * r.Makespan
	var busy time.Duration
	for i := range e.nodes {
		busy += e.nodes[i].busy
	}
	e.busy += busy.Seconds() * e.c.Costs.Moving
	if r.Makespan > 0 {
		r.Energy.Utilisation = e.busy / cores
		r.IO.StoreBusy = busy.Seconds() / (r.Makespan * float64(e.c.Nodes))
	}
	r.Energy.Idle = e.c.Power.Idle * float64(e.c.Nodes) * r.Makespan
	r.Energy.Joules = r.Energy.Idle + (e.c.Power.Peak-e.c.Power.Idle)*r.Energy.Utilisation*float64(e.c.Nodes)*r.Makespan
	if e.files != nil {
		r.Reading = e.files.result(r.Makespan)
	}
	r.UsesMedium = e.usesMedium()
	for i := range e.bands {
		b := &e.bands[i]
		r.Bands = append(r.Bands, Band{
			Name: bandNames[i], Jobs: b.jobs, Tasks: b.tasks, Wasted: b.wasted,
			Response: spread(b.response), TaskResponse: spread(b.perTask), Slowdown: spread(b.slowdown),
		})
	}
	r.Step, r.Load, r.Waiting = e.series.result(float64(e.c.Nodes) * e.c.Node.CPUs)
	return r
}
