package sim

import (
	"fmt"
	"strings"

	"headrace/lab/sample"
	"headrace/lab/trial"
	"headrace/policy"
	"headrace/report"
	"headrace/sim"
	"headrace/trace"
)

// Results is everything that `bench sim` has found. Times are seconds, sizes
// bytes.
type Results struct {
	trial.Circumstances
	// Day and Swim are the workloads and the clusters that they were run on; nil when
	// they were not.
	Day  *Setup `json:"day,omitempty"`
	Swim *Setup `json:"swim,omitempty"`

	Runs        []Run            `json:"runs,omitempty"`
	Shapes      []Shape          `json:"shapes,omitempty"`
	Calibration *CalibrationPlan `json:"calibration,omitempty"`
	Calibrated  []CalibrationRun `json:"calibrated,omitempty"`
}

// The experiments as they are named in Run.
const (
	expDay  = "day"
	expSwim = "swim"
)

// Setup is a workload and a cluster.
type Setup struct {
	Workload string     `json:"workload"`
	Jobs     int        `json:"jobs"`
	Tasks    int        `json:"tasks"`
	Config   sim.Config `json:"config"`
}

func setupOf(w *trace.Workload, c sim.Config) *Setup {
	return &Setup{Workload: w.Name, Jobs: len(w.Jobs), Tasks: len(w.Tasks), Config: c}
}

// String says what it is in a line.
func (s *Setup) String() string {
	n := s.Config.Node
	text := fmt.Sprintf("%s: %d jobs, %d tasks on %d nodes with %g CPUs and %s each", s.Workload, s.Jobs, s.Tasks, s.Config.Nodes, n.CPUs, report.Capacity(n.Memory))
	if n.Swap > 0 {
		text += fmt.Sprintf(", %s of swap", report.Capacity(n.Swap))
	}
	return text
}

// Run is one simulation.
type Run struct {
	Experiment string `json:"experiment"`
	Seed       uint64 `json:"seed"`
	Point      Point  `json:"point"`
	// Took is how long the simulation took.
	Took float64 `json:"took"`
	// Result is what it found. Medium is empty for policies that use none.
	sim.Result
	// Fault is what the check of the simulator's invariants found; the numbers are those of
	// a run without.
	Fault string `json:"fault,omitempty"`
	// Failure says why there are no numbers.
	Failure string `json:"failure,omitempty"`

	atLoad float64 // of a shape
	moved  int     // ShapeRun.Moved
}

// meanResponse returns that of all jobs.
func (r *Run) meanResponse() float64 {
	sum, jobs := 0.0, 0
	for _, b := range r.Bands {
		sum += b.Response.Mean * float64(b.Jobs)
		jobs += b.Jobs
	}
	if jobs == 0 {
		return 0
	}
	return sum / float64(jobs)
}

// Any reports whether there is something to show.
func (r *Results) Any() bool { return len(r.Runs)+len(r.Shapes)+len(r.Calibrated) > 0 }

// media notes what is used.
func (r *Results) media(m sim.Measurements) {
	var words []string
	for _, x := range m.Media {
		words = append(words, fmt.Sprintf("%s %s/s out, %s/s in, %s and %s besides", x.Name, report.Bytes(int64(x.Write)), report.Bytes(int64(x.Read)),
			report.Duration(x.DumpOverhead), report.Duration(x.RestoreOverhead)))
	}
	r.More = append(r.More, report.Fact{Name: "Storage", Value: strings.Join(words, "; ")}, report.Fact{Name: "Measured", Value: m.From})
}

// seeds returns those of the day, in the order in which they were run.
func (r *Results) seeds() []uint64 {
	return sample.Distinct(r.in(expDay), func(x Run) uint64 { return x.Seed })
}

// in returns the runs of an experiment, those that have failed too.
func (r *Results) in(experiment string) []Run {
	return sample.Where(r.Runs, func(x Run) bool { return x.Experiment == experiment })
}

// aDay is the runs of one seed.
type aDay []Run

// day returns the runs of one seed that have numbers.
func (r *Results) day(seed uint64) aDay {
	return sample.Where(aDay(r.Runs), func(x Run) bool { return x.Experiment == expDay && x.Seed == seed && x.Failure == "" })
}

// results returns those of all runs.
func (d aDay) results() []*sim.Result {
	out := make([]*sim.Result, len(d))
	for i := range d {
		out[i] = &d[i].Result
	}
	return out
}

// run returns that of a policy on a medium, nil if there is none.
func (d aDay) run(name policy.Name, medium string) *Run {
	for i := range d {
		if d[i].Policy == name && (d[i].Medium == medium || d[i].Medium == "") {
			return &d[i]
		}
	}
	return nil
}
