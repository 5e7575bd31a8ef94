package sim

import (
	"cmp"
	"slices"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/trace"
)

// tally counts where the time of CPUs goes, and what becomes of tasks and jobs.
type tally struct {
	clock *clock
	c     *Config
	// r has what needs no more than to be added up.
	r            *Result
	swapOnMedium bool

	ended int // tasks
	// held is how many CPUs are held now, spent their time in core-seconds, for the
	// check that none is missing; busy the processor time used, for the energy.
	held, spent, busy float64
	// stores is what checkpoints take on all nodes.
	stores int64
	// jobs are the names of jobs, left, first and jobBand for each job how many of its tasks have not
	// ended, when the first was submitted, and the band of that one.
	jobs    []string
	left    []int32
	first   []time.Duration
	jobBand []uint8
	bands   [len(bandNames)]bandTally
	users   users
	series  series
}

var bandNames = [...]string{"free", "middle", "production"}

func band(p headrace.Priority) uint8 { return uint8(slices.Index(bandNames[:], p.Band())) }

// bandTally is a band under way. Times are seconds.
type bandTally struct {
	tasks, jobs                 int
	response, perTask, slowdown []float32
	wasted                      float64
	worst                       []Worst
}

// mostWorst is how many of the worst-off tasks of a band are kept.
const mostWorst = 5

// mark keeps t if it is among the worst-off.
func (b *bandTally) mark(jobs []string, t *task, response float64) {
	if len(b.worst) == mostWorst && response <= b.worst[mostWorst-1].Response {
		return
	}
	w := Worst{
		Job: jobs[t.spec.Job], Task: int(t.spec.Index), Priority: uint8(t.spec.Priority), Run: t.spec.Run.Seconds(),
		Response: response, Preemptions: t.v.Preemptions, Lost: t.v.Progress.Lost.Seconds(),
	}
	at, _ := slices.BinarySearchFunc(b.worst, response, func(w Worst, r float64) int { return cmp.Compare(r, w.Response) })
	for at < len(b.worst) && b.worst[at].Response == response {
		at++ // of equal ones the first to end
	}
	b.worst = slices.Insert(b.worst, at, w)
	b.worst = b.worst[:min(len(b.worst), mostWorst)]
}

// newTally prepares the counting of w.
func newTally(at *clock, c *Config, w *trace.Workload, swapOnMedium bool) *tally {
	y := &tally{
		clock: at, c: c, swapOnMedium: swapOnMedium,
		r:    &Result{Workload: w.Name, Policy: c.Policy.Policy, Medium: c.Medium.Name, Config: *c, Jobs: len(w.Jobs), Tasks: len(w.Tasks)},
		jobs: w.Jobs, left: make([]int32, len(w.Jobs)), first: make([]time.Duration, len(w.Jobs)), jobBand: make([]uint8, len(w.Jobs)),
		users:  newUsers(w.Users),
		series: series{step: firstStep},
	}
	y.r.Outcome = trace.Outcome{
		ByPriority: make([]trace.Preempted, headrace.MaxPriority+1),
		ByClass:    make([]trace.Preempted, 4),
		Times:      make([]int, trace.OftenTimes+1),
	}
	for i := len(w.Tasks) - 1; i >= 0; i-- {
		t := &w.Tasks[i]
		y.left[t.Job]++
		y.first[t.Job], y.jobBand[t.Job] = t.Submit, band(t.Priority)
	}
	return y
}

// turn begins another phase of t: what passed in the old one is counted.
func (y *tally) turn(t *task, to phase) {
	y.spend(t)
	if (t.phase == idle) != (to == idle) {
		y.hold(t, to != idle)
	}
	t.phase, t.since = to, y.clock.now
}

// spend counts the time that t has held its CPUs in the phase that ends now.
func (y *tally) spend(t *task) {
	took := y.clock.now - t.since
	if t.phase == idle || took == 0 {
		return
	}
	time := t.spent(took)
	y.spent += time
	work := &y.r.Work
	switch t.phase {
	case running:
		t.done += took
		y.busy += time
		return // useful, unless it is lost
	case reading:
		t.in.took += took
		work.Reading += time
		y.busy += time
		return
	case stopping, stalled:
		work.Stop += time
	case dumping:
		work.Dump += time
	case restoring:
		work.Restore += time
	case pagingIn:
		work.PageIn += time
	}
	y.bands[t.band].wasted += time
}

// hold enters that t holds its CPUs from now on, or no more.
func (y *tally) hold(t *task, holds bool) {
	cpus, one := float64(t.spec.CPUs), 1
	if !holds {
		cpus, one = -cpus, -1
	}
	t.node.tasks += one
	t.node.held += cpus
	if t.node.tasks == 0 {
		t.node.held = 0 // so that roundings do not add up
	}
	y.held += cpus
}

// lose throws away what t has done since its last checkpoint, and so long that it has
// read in vain.
func (y *tally) lose(t *task, reading time.Duration) {
	running := t.done - t.saved
	y.r.Work.Reading -= t.spent(reading)
	t.done = t.saved
	for _, lost := range []time.Duration{running, reading} {
		y.r.Work.Killed += t.spent(lost)
		y.bands[t.band].wasted += t.spent(lost)
		t.v.Progress.Lost += lost
	}
}

// keep enters bytes of checkpoints on n; negative: they are gone.
func (y *tally) keep(n *node, bytes int64) {
	n.store.used += bytes
	y.stores += bytes
	y.r.IO.StorePeak = max(y.r.IO.StorePeak, y.stores)
}

// preempted counts that t, which is still in the state that it was in, has left as it was ordered
// to. One that waited has done so before.
func (y *tally) preempted(t *task) {
	switch c := &y.r.Counts; t.v.LeavingBy {
	case headrace.Kill:
		c.Kills++
	case headrace.Suspend:
		c.Suspends++
	case headrace.Checkpoint:
		c.Checkpoints++
	}
	if t.v.State != headrace.Running {
		return
	}
	t.v.Preemptions++
	y.hour().Preemptions++
	y.r.Outcome.ByPriority[t.spec.Priority].Preemptions++
	y.r.Outcome.ByClass[t.spec.Class&3].Preemptions++
}

func (y *tally) hour() *trace.Hour {
	h := int(y.clock.now / time.Hour)
	for len(y.r.Outcome.Hourly) <= h {
		y.r.Outcome.Hourly = append(y.r.Outcome.Hourly, trace.Hour{})
	}
	return &y.r.Outcome.Hourly[h]
}

// leastRun is what a run counts as at least, in seconds, where responses are compared with it:
// tasks that hardly run say nothing of the others (bounded slowdown).
const leastRun = 10

// complete counts t, which has ended, and the response of its job if that has too.
func (y *tally) complete(t *task) (response float64, jobEnded bool) {
	spec := t.spec
	y.ended++
	y.r.Work.Useful += t.spent(spec.Run)
	b := &y.bands[t.band]
	response = (y.clock.now - t.queued).Seconds()
	b.tasks++
	b.mark(y.jobs, t, response)
	y.users.complete(t, response)
	b.perTask = append(b.perTask, float32(response))
	b.slowdown = append(b.slowdown, float32(max(1, response/max(spec.Run.Seconds(), leastRun))))
	for _, p := range []*trace.Preempted{&y.r.Outcome.ByPriority[spec.Priority], &y.r.Outcome.ByClass[spec.Class&3]} {
		p.Tasks++
		if t.v.Preemptions > 0 {
			p.Preempted++
		}
	}
	y.r.Outcome.Often(t.v.Preemptions)
	if y.left[spec.Job]--; y.left[spec.Job] > 0 {
		return 0, false
	}
	b = &y.bands[y.jobBand[spec.Job]]
	b.jobs++
	response = (y.clock.now - y.first[spec.Job]).Seconds()
	b.response = append(b.response, float32(response))
	return response, true
}

// usesMedium reports whether the run could have gone otherwise on another medium. A
// policy that weighs checkpoints depends on it even where it made none.
func (y *tally) usesMedium() bool {
	switch y.c.Policy.Policy {
	case policy.Kill, policy.Wait:
		return false
	case policy.Suspend:
		// What is suspended goes on elsewhere, by way of the medium, if that is sooner.
		moves := y.c.Nodes > 1 && y.c.Node.Net > 0 && y.r.Counts.Suspends > 0
		return moves || y.r.Counts.Checkpoints > 0 || y.swapOnMedium && y.r.IO.PagedOut > 0
	}
	return true
}

// result completes the result, of stores that were busy for so long in all.
func (y *tally) result(stores time.Duration) {
	r, c := y.r, y.c
	nodes := float64(c.Nodes)
	y.busy += stores.Seconds() * c.Costs.Moving
	if r.Makespan > 0 {
		r.Energy.Utilisation = y.busy / (c.CPUs() * r.Makespan)
		r.IO.StoreBusy = stores.Seconds() / (r.Makespan * nodes)
	}
	r.Energy.Idle = c.Power.Idle * nodes * r.Makespan
	r.Energy.Joules = r.Energy.Idle + (c.Power.Peak-c.Power.Idle)*r.Energy.Utilisation*nodes*r.Makespan
	r.UsesMedium = y.usesMedium()
	r.Users = y.users.worst()
	for i := range y.bands {
		b := &y.bands[i]
		r.Bands = append(r.Bands, Band{
			Name: bandNames[i], Jobs: b.jobs, Tasks: b.tasks, Wasted: b.wasted,
			Response: spread(b.response), TaskResponse: spread(b.perTask), Slowdown: spread(b.slowdown), Worst: b.worst,
		})
	}
	r.Step, r.Load, r.Waiting = y.series.result(c.CPUs())
}
