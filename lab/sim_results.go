package lab

import (
	"fmt"
	"strings"

	"headrace/report"
	"headrace/sim"
	"headrace/trace"
)

// SimResults is everything that `bench sim` has found. Times are seconds, sizes
// bytes.
type SimResults struct {
	Circumstances
	// Day and Swim are the workloads and the clusters that they were run on; nil when
	// they were not.
	Day  *SimSetup `json:"day,omitempty"`
	Swim *SimSetup `json:"swim,omitempty"`

	Runs        []SimRun         `json:"runs,omitempty"`
	Calibration *CalibrationPlan `json:"calibration,omitempty"`
	Calibrated  []CalibrationRun `json:"calibrated,omitempty"`
}

// The experiments as they are named in SimRun.
const (
	expDay  = "day"
	expSwim = "swim"
)

// SimSetup is a workload and a cluster.
type SimSetup struct {
	Workload string     `json:"workload"`
	Jobs     int        `json:"jobs"`
	Tasks    int        `json:"tasks"`
	Config   sim.Config `json:"config"`
}

func setupOf(w *trace.Workload, c sim.Config) *SimSetup {
	return &SimSetup{Workload: w.Name, Jobs: len(w.Jobs), Tasks: len(w.Tasks), Config: c}
}

// String says what it is in a line.
func (s *SimSetup) String() string {
	n := s.Config.Node
	text := fmt.Sprintf("%s: %d jobs, %d tasks on %d nodes with %g CPUs and %s each", s.Workload, s.Jobs, s.Tasks, s.Config.Nodes, n.CPUs, report.Bytes(n.Memory))
	if n.Swap > 0 {
		text += fmt.Sprintf(", %s of swap", report.Bytes(n.Swap))
	}
	return text
}

// SimRun is one simulation.
type SimRun struct {
	Experiment string `json:"experiment"`
	Seed       uint64 `json:"seed"`
	Policy     string `json:"policy"`
	// Medium is empty for policies that use none.
	Medium string   `json:"medium,omitempty"`
	Point  SimPoint `json:"point"`

	// Took is how long the simulation took.
	Took     float64 `json:"took"`
	Jobs     int     `json:"jobs"`
	Tasks    int     `json:"tasks"`
	Makespan float64 `json:"makespan"`

	Work    sim.Work           `json:"work"`
	Energy  sim.Energy         `json:"energy"`
	IO      sim.IO             `json:"io"`
	Counts  sim.Counts         `json:"counts"`
	Bands   []SimBand          `json:"bands"`
	Reading *sim.ReadingResult `json:"reading,omitempty"`

	// Failure says why there are no numbers.
	Failure string `json:"failure,omitempty"`
}

// SimBand is the jobs of a band: means, except Median and P95, which are of the
// jobs' response too.
type SimBand struct {
	Name         string  `json:"name"`
	Jobs         int     `json:"jobs"`
	Tasks        int     `json:"tasks"`
	Response     float64 `json:"response"`
	Median       float64 `json:"median"`
	P95          float64 `json:"p95"`
	TaskResponse float64 `json:"task_response"`
	Wasted       float64 `json:"wasted"`
}

// fill takes over what a run has found.
func (r *SimRun) fill(x *sim.Result) {
	r.Jobs, r.Tasks, r.Makespan = x.Jobs, x.Tasks, x.Makespan
	r.Work, r.Energy, r.IO, r.Counts, r.Reading = x.Work, x.Energy, x.IO, x.Counts, x.Reading
	for _, b := range x.Bands {
		r.Bands = append(r.Bands, SimBand{Name: b.Name, Jobs: b.Jobs, Tasks: b.Tasks, Response: b.Response.Mean,
			Median: b.Response.Quantile(0.5), P95: b.Response.Quantile(0.95), TaskResponse: b.TaskResponse.Mean, Wasted: b.Wasted})
	}
}

// response is the mean response of the jobs of a band, 0 when there are none.
func (r *SimRun) response(band string) float64 {
	for _, b := range r.Bands {
		if b.Name == band {
			return b.Response
		}
	}
	return 0
}

// meanResponse is that of all jobs.
func (r *SimRun) meanResponse() float64 {
	sum, jobs := 0.0, 0
	for _, b := range r.Bands {
		sum += b.Response * float64(b.Jobs)
		jobs += b.Jobs
	}
	if jobs == 0 {
		return 0
	}
	return sum / float64(jobs)
}

func (r *SimResults) circumstances() *Circumstances { return &r.Circumstances }

// any reports whether there is something to show.
func (r *SimResults) any() bool { return len(r.Runs)+len(r.Calibrated) > 0 }

// media notes what is used.
func (r *SimResults) media(m sim.Measurements) {
	var words []string
	for _, x := range m.Media {
		words = append(words, fmt.Sprintf("%s %s/s out, %s/s in, %s and %s besides", x.Name, report.Bytes(int64(x.Write)), report.Bytes(int64(x.Read)),
			report.Duration(x.DumpOverhead), report.Duration(x.RestoreOverhead)))
	}
	r.More = append(r.More, report.Fact{Name: "Storage", Value: strings.Join(words, "; ")}, report.Fact{Name: "Measured", Value: m.From})
}

// seeds are those of the day, in the order in which they were run.
func (r *SimResults) seeds() []uint64 {
	return Distinct(r.in(expDay), func(x SimRun) uint64 { return x.Seed })
}

// in are the runs of an experiment, those that have failed too.
func (r *SimResults) in(experiment string) []SimRun {
	return Where(r.Runs, func(x SimRun) bool { return x.Experiment == experiment })
}

// aDay is the runs of one seed.
type aDay []SimRun

// day is the runs of one seed that have numbers.
func (r *SimResults) day(seed uint64) aDay {
	return Where(aDay(r.in(expDay)), func(x SimRun) bool { return x.Seed == seed && x.Failure == "" })
}

// run is that of a policy on a medium, nil if there is none.
func (d aDay) run(policy, medium string) *SimRun {
	for i := range d {
		if d[i].Policy == policy && (d[i].Medium == medium || d[i].Medium == "") {
			return &d[i]
		}
	}
	return nil
}
