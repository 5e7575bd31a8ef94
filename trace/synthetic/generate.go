package synthetic

import (
	_ "embed" // the parameters of GoogleDay
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"headrace/trace/workload"
)

// Day is a day of a cluster that never was: the parameters of a generator of
// workloads. See GoogleDay for one that resembles a published day.
//
// # How the published numbers are read
//
// checkpoint-preemption publishes few numbers of its day (section 3.3.2): 15,000
// jobs, 600,000 tasks, "requiring over 22,000 cores", and that killing wastes 3,400
// core-hours, which is 35 % of what was used. So about 9,700 core-hours were used
// under kill, and 6,300 were useful: 262 cores on average, and 404 with what was
// wasted. The 22,000 cores then cannot be what runs at one time. They are the sum of
// what all tasks ask for, 0.037 of a core each, which is what tasks of the public
// trace ask for of a machine. It follows that a core that is asked for is needed
// for 17 minutes on average. The average task runs for less, about 13, because those
// that run longer ask for more.
//
// A Day says how many cores and core-hours each band has, and the generator meets
// these sums: what it draws is scaled until they are right. The shape of the
// distributions, when jobs arrive and how large the cluster is are not published.
// They are chosen so that simulated killing preempts and wastes about as much as
// the paper says.
type Day struct {
	// Name is that of the workload. Note says where the numbers come from.
	Name string `json:"name"`
	Note string `json:"note,omitempty"`
	// Jobs and Tasks are how many there are, Hours the time in which they are
	// submitted.
	Jobs  int     `json:"jobs"`
	Tasks int     `json:"tasks"`
	Hours float64 `json:"hours"`
	// Bands are free, middle and production, in this order.
	Bands   []DayBand  `json:"bands"`
	Cluster DayCluster `json:"cluster"`
}

// DayCluster is the cluster that a Day is meant for.
type DayCluster struct {
	Note string `json:"note,omitempty"`
	workload.Cluster
}

// DayBand is the jobs of one band of priorities. Shares are from 0 to 1.
type DayBand struct {
	// Name is free, middle or production.
	Name string `json:"name"`
	Note string `json:"note,omitempty"`
	// Tasks and Jobs are the band's shares of all tasks and of all jobs.
	Tasks float64 `json:"tasks"`
	Jobs  float64 `json:"jobs"`
	// Priorities are the shares of the band's tasks that have the band's first
	// priority, its second and so on.
	Priorities []float64 `json:"priorities"`
	// Classes are the shares of the band's tasks in each class of sensitivity to
	// latency. Neither depends on anything else.
	Classes []float64 `json:"classes"`
	// Cores is the sum of the CPUs that the band's tasks ask for, CoreHours that of
	// CPUs times running time.
	Cores     float64 `json:"cores"`
	CoreHours float64 `json:"core_hours"`

	Size    DaySize    `json:"size"`
	Arrival DayArrival `json:"arrival"`
	Run     DayRun     `json:"run"`
	CPUs    DayCPUs    `json:"cpus"`
	Memory  DayMemory  `json:"memory"`
}

// DaySize is how many tasks jobs have. The share Single has one task, the others
// have up to Most, by a bounded Pareto distribution whose exponent follows from
// how many jobs and tasks there are.
type DaySize struct {
	Note   string  `json:"note,omitempty"`
	Single float64 `json:"single"`
	Most   int     `json:"most"`
}

// DayArrival is when jobs are submitted, with all of their tasks at once.
type DayArrival struct {
	Note string `json:"note,omitempty"`
	// Rates are relative rates of arrival in equal parts of the time.
	Rates []float64 `json:"rates"`
	// Jobs of Large tasks and more come in waves, Waves of them, about as often as
	// Rates says; 0 waves: they come like the others. The gaps between waves are
	// equal when Jitter is 0 and vary by up to themselves when it is 1. The work
	// of a wave varies lognormally by WaveSigma, and its jobs come within
	// WaveSeconds.
	Large       int     `json:"large"`
	Waves       int     `json:"waves"`
	Jitter      float64 `json:"jitter"`
	WaveSigma   float64 `json:"wave_sigma"`
	WaveSeconds float64 `json:"wave_seconds"`
}

// DayRun is how long tasks run: lognormally distributed between Least and Most
// seconds, with JobSigma between jobs and TaskSigma between the tasks of a job.
// The median follows from DayBand.CoreHours.
type DayRun struct {
	Note      string  `json:"note,omitempty"`
	JobSigma  float64 `json:"job_sigma"`
	TaskSigma float64 `json:"task_sigma"`
	Least     float64 `json:"least"`
	Most      float64 `json:"most"`
}

// DayCPUs is what tasks ask for, the same for all tasks of a job: lognormally
// distributed between Least and Most. The median follows from DayBand.Cores. WithRun
// is the correlation of its logarithm with that of the job's running time.
type DayCPUs struct {
	Note    string  `json:"note,omitempty"`
	Sigma   float64 `json:"sigma"`
	Least   float64 `json:"least"`
	Most    float64 `json:"most"`
	WithRun float64 `json:"with_run"`
}

// DayMemory is the memory of tasks, the same for all tasks of a job: lognormally
// distributed between Least and Most bytes, with the given mean over tasks. WithCPUs
// is the correlation of its logarithm with that of the CPUs.
type DayMemory struct {
	Note     string  `json:"note,omitempty"`
	Mean     float64 `json:"mean"`
	Sigma    float64 `json:"sigma"`
	Least    float64 `json:"least"`
	Most     float64 `json:"most"`
	WithCPUs float64 `json:"with_cpus"`
	// GrowSeconds is the median time until a task holds all of it, with GrowSigma
	// between jobs; a task of which that is more than it runs never does.
	GrowSeconds float64 `json:"grow_seconds"`
	GrowSigma   float64 `json:"grow_sigma"`
	// DirtyShare is the median share of its memory that a task changes in a second,
	// with DirtySigma between jobs.
	DirtyShare float64 `json:"dirty_share"`
	DirtySigma float64 `json:"dirty_sigma"`
}

// GoogleDayName is the name of GoogleDay.
const GoogleDayName = "google-day"

//go:embed googleday.json
var googleDay string

// GoogleDayFile returns the parameters of GoogleDay, with the notes on what is
// published and what is fitted: a file to begin with for a day of one's own.
func GoogleDayFile() string { return googleDay }

// GoogleDay returns parameters that are calibrated to the day of Google's cluster that
// checkpoint-preemption simulates (section 3.3.2, tables 1 and 2, figure 1); see
// Published for its numbers.
func GoogleDay() Day {
	d, err := ReadDay(strings.NewReader(googleDay))
	if err != nil {
		panic(err) // a test reads it
	}
	return d
}

// maxGenerated bounds the tasks of a workload: of more, their names alone would
// not fit.
const maxGenerated = 100_000_000

// Generate makes a workload. Scale 10 is ten times the jobs and tasks in the same
// time, and ten times the nodes; below 1 the largest jobs shrink with the cluster.
// The same parameters, seed and scale give the same workload on every machine. The
// numbers of jobs and tasks, in all and in each band, and those of tasks of each
// priority and class are met exactly, as far as jobs can be divided; sums of CPUs,
// memory and core-hours within rounding, as long as Least and Most allow.
//
// Times are rounded to a millisecond, CPUs to 1/10000, memory to 1 MiB. It takes
// 88 bytes for each task.
func (d Day) Generate(seed uint64, scale float64) (*workload.Workload, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if !(scale > 0) || float64(d.Tasks)*scale > maxGenerated {
		return nil, fmt.Errorf("scale %v: want more than 0 and at most %v, which is %d tasks", scale, float64(maxGenerated)/float64(d.Tasks), maxGenerated)
	}
	jobs, tasks := int(math.Round(float64(d.Jobs)*scale)), int(math.Round(float64(d.Tasks)*scale))
	bandJobs := apportion(jobs, d.shares(func(b *DayBand) float64 { return b.Jobs }))
	bandTasks := apportion(tasks, d.shares(func(b *DayBand) float64 { return b.Tasks }))
	var all []dayJob
	for i := range d.Bands {
		b := &d.Bands[i]
		if bandJobs[i] < 1 || bandTasks[i] < bandJobs[i] {
			return nil, fmt.Errorf("scale %v: it leaves %d jobs and %d tasks to the band %s: want at least one job, and a task for each; take a larger scale", scale, bandJobs[i], bandTasks[i], b.Name)
		}
		g := bandGenerator{band: b, index: i, seed: seed, scale: scale, length: d.Hours * 3600}
		all = append(all, g.jobs(bandJobs[i], bandTasks[i])...)
	}
	w := d.assemble(all, seed, scale)
	w.Name = d.Name
	if scale != 1 {
		w.Name = fmt.Sprintf("%s x %v", d.Name, scale)
	}
	w.Cluster = d.Cluster.Cluster
	w.Cluster.Nodes = max(1, int(math.Round(float64(w.Cluster.Nodes)*scale)))
	return w, nil
}

func (d Day) shares(of func(b *DayBand) float64) []float64 {
	s := make([]float64, len(d.Bands))
	for i := range d.Bands {
		s[i] = of(&d.Bands[i])
	}
	return s
}

// apportion divides n by shares, whose sum is about 1, into whole numbers whose
// sum is n: what is left after rounding down goes to the largest remainders.
func apportion(n int, shares []float64) []int {
	parts := make([]int, len(shares))
	sum, total := 0, 0.0
	for _, s := range shares {
		total += s
	}
	for i, s := range shares {
		parts[i] = int(float64(n) * s / total)
		sum += parts[i]
	}
	given := make([]bool, len(shares))
	for ; sum < n; sum++ {
		best, most := 0, math.Inf(-1)
		for i, s := range shares {
			if rest := float64(n)*s/total - float64(parts[i]); !given[i] && rest > most {
				best, most = i, rest
			}
		}
		parts[best]++
		given[best] = true
	}
	return parts
}

// What random numbers are for. Each purpose has its own sequence in each band, so
// that a change to one parameter leaves what does not depend on it as it was.
const (
	forSizes = iota
	forPriorities
	forClasses
	forShapes
	forArrivals
	forWaves
	forRuns
)

// random returns the sequence for one purpose in one band.
func random(seed uint64, band, purpose int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(band)<<32|uint64(purpose)))
}

// millisecond rounds seconds.
func millisecond(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds*1000)) * time.Millisecond
}
