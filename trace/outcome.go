package trace

// Outcome is what became of the tasks of a workload, recorded or simulated, in the
// form in which the papers publish it.
type Outcome struct {
	// ByPriority and ByClass have one entry for each priority and each class.
	ByPriority []Preempted `json:"by_priority"`
	ByClass    []Preempted `json:"by_class"`
	// Times[i] is how many tasks were preempted i times; the last entry, of
	// OftenTimes, counts those that were as often or more often.
	Times []int `json:"times"`
	// Hourly is, for each hour of the trace, how often tasks came to run and how often
	// they had to leave.
	Hourly []Hour `json:"hourly,omitempty"`
}

// OftenTimes is the last entry of Outcome.Times.
const OftenTimes = 10

// Preempted is how many of some tasks were preempted.
type Preempted struct {
	Tasks     int `json:"tasks"`
	Preempted int `json:"preempted"`
	// Preemptions counts a task each time.
	Preemptions int `json:"preemptions"`
}

// Hour is one hour of a trace.
type Hour struct {
	Scheduled   int `json:"scheduled"`
	Preemptions int `json:"preemptions"`
}
