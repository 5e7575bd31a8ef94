package workload

import (
	"time"

	"headrace"
)

// Outcome is what became of the tasks of a workload, recorded or simulated, in the
// form in which the papers publish it.
type Outcome struct {
	// ByPriority and ByClass have one entry for each priority and each class.
	ByPriority []Preempted `json:"by_priority"`
	ByClass    []Preempted `json:"by_class"`
	// Times[i] is how many tasks were preempted i times, up to OftenTimes at least.
	Times []int `json:"times"`
	// Hourly is, for each hour of the trace, how often tasks came to run and how often
	// they had to leave.
	Hourly []Hour `json:"hourly,omitempty"`
}

// OftenTimes is how often tasks had to leave that the papers count together with all that
// had to more often.
const OftenTimes = 10

// mostTimes bounds Outcome.Times: what was preempted more often counts there.
const mostTimes = 100_000

// Often counts a task that was preempted so many times.
func (o *Outcome) Often(times int) {
	times = min(max(times, 0), mostTimes)
	o.Times = Grown(o.Times, times+1)
	o.Times[times]++
}

// Preempted is how many of some tasks were preempted.
//
// There are two rates. Preempted/Tasks is the share of tasks that ever had to leave.
// Preemptions/Scheduled is the share of runs that ended that way; this is what
// checkpoint-preemption, tables 1 and 2, call the share of scheduled tasks: their
// 47 million tasks are the events of scheduling in the trace, which has 25 million
// tasks.
type Preempted struct {
	Tasks     int `json:"tasks"`
	Preempted int `json:"preempted"`
	// Preemptions counts a task each time.
	Preemptions int `json:"preemptions"`
	// Scheduled is how often they came to run; 0 when it is not known.
	Scheduled int `json:"scheduled,omitempty"`
}

// Rate returns the share of the schedulings that ended with a preemption, 0 to 1; 0
// when they are not known.
func (p Preempted) Rate() float64 { return share(p.Preemptions, p.Scheduled) }

func share(part, all int) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}

func (p *Preempted) add(q Preempted) {
	p.Tasks += q.Tasks
	p.Preempted += q.Preempted
	p.Preemptions += q.Preemptions
	p.Scheduled += q.Scheduled
}

// Hour is one hour of a trace.
type Hour struct {
	Scheduled   int `json:"scheduled"`
	Preemptions int `json:"preemptions"`
}

// maxHours is a bound for what is kept hour by hour; what is later is in the last
// one.
const maxHours = 10 * 366 * 24

// HourOf returns the hour that a time since the start is in.
func HourOf(at time.Duration) int {
	return int(min(max(at, 0)/time.Hour, maxHours-1))
}

// Grown returns s with at least n elements.
func Grown[T any](s []T, n int) []T {
	if n > len(s) {
		s = append(s, make([]T, n-len(s))...)
	}
	return s
}

// NewOutcome returns the outcome of no tasks.
func NewOutcome() *Outcome {
	return &Outcome{
		ByPriority: make([]Preempted, Priorities),
		ByClass:    make([]Preempted, Classes),
		Times:      make([]int, OftenTimes+1),
	}
}

// Add counts a task that came to run so many times.
func (o *Outcome) Add(t *Task, scheduled int) {
	p := Preempted{Tasks: 1, Preemptions: int(t.Preempted), Scheduled: scheduled}
	if t.Preempted > 0 {
		p.Preempted = 1
	}
	o.ByPriority[t.Priority].add(p)
	o.ByClass[t.Class].add(p)
	o.Often(int(t.Preempted))
}

// BandNames are the bands of priorities from the least urgent on.
var BandNames = [...]string{"free", "middle", "production"}

func BandOf(p headrace.Priority) int {
	for i, name := range BandNames {
		if p.Band() == name {
			return i
		}
	}
	return len(BandNames) - 1
}

// Bands returns the sums of ByPriority over the bands free, middle and production
// (checkpoint-preemption, table 1).
func (o *Outcome) Bands() []Preempted {
	bands := make([]Preempted, len(BandNames))
	for p, v := range o.ByPriority {
		bands[BandOf(headrace.Priority(p))].add(v)
	}
	return bands
}
