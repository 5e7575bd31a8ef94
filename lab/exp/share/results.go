package share

import (
	"math"

	"headrace/lab/sample"
	"headrace/lab/trial"
)

// Results is everything that `bench share` has measured.
type Results struct {
	trial.Circumstances
	Plan Plan  `json:"plan"`
	Runs []Run `json:"runs,omitempty"`
}

// Any reports whether anything has been measured.
func (r *Results) Any() bool { return len(r.Runs) > 0 }

// Run is a pair of jobs in one mode. Times are seconds, sizes bytes.
type Run struct {
	Part string `json:"part"`
	Mode string `json:"mode"`
	// Factor is the data as a part of all page caches, Gap the time between the starts of the
	// jobs in the part that has one, in the paper's time.
	Factor float64 `json:"factor"`
	Gap    float64 `json:"gap,omitempty"`
	// Repeat counts from 0; Order is the place within the repeat.
	Repeat int `json:"repeat"`
	Order  int `json:"order"`

	// Bytes is what each job reads.
	Bytes  int64 `json:"bytes"`
	First  Job   `json:"first"`
	Second Job   `json:"second"`
	// Took is how long both took, Read what the disks delivered to both and to whoever warms,
	// FirstRead until the end of the first, and Resident what was in memory then. The last two
	// are of jobs one after the other.
	Took      float64 `json:"took"`
	Read      int64   `json:"read"`
	FirstRead int64   `json:"first_read,omitempty"`
	Resident  int64   `json:"resident,omitempty"`
	// Cached is what HDFS's own cache held after both.
	Cached int64 `json:"cached,omitempty"`
	// Use is what Headrace's daemons have used.
	Use Use `json:"use"`

	// Failure says why there are no numbers.
	Failure string `json:"failure,omitempty"`
}

// In returns the repeat, and why there are no numbers.
func (x Run) In() (repeat int, failure string) { return x.Repeat, x.Failure }

// Job is one of the two. Began counts from the beginning of the run.
type Job struct {
	Framework string  `json:"framework"`
	Began     float64 `json:"began"`
	Duration  float64 `json:"duration"`
	// Metrics are what the plug-in has counted.
	Metrics map[string]int64 `json:"metrics,omitempty"`
}

// Use is processor time in seconds, of the manager and of the node daemon that has used most,
// and bytes that went between manager and node daemons.
type Use struct {
	Manager float64 `json:"manager"`
	Node    float64 `json:"node"`
	Traffic int64   `json:"traffic"`
}

func (u Use) since(before Use) Use {
	return Use{u.Manager - before.Manager, u.Node - before.Node, u.Traffic - before.Traffic}
}

// place is what is compared over the modes.
type place struct {
	part        string
	factor, gap float64
}

func (x Run) place() place { return place{x.Part, x.Factor, x.Gap} }

// places returns those of a part that occur, small data first.
func (r *Results) places(part string) (all []place) {
	for _, e := range entries(part, Modes[:1], false) {
		p := place{part, e.factor, e.gap.Seconds()}
		for _, x := range r.Runs {
			if x.place() == p {
				all = append(all, p)
				break
			}
		}
	}
	return all
}

// at returns the runs at a place in a mode that have numbers.
func (r *Results) at(p place, mode string) []Run {
	return sample.Good(sample.Where(r.Runs, func(x Run) bool { return x.place() == p && x.Mode == mode }))
}

// modes returns those that a place has runs in.
func (r *Results) modes(p place) (all []string) {
	for _, m := range Modes {
		if len(r.at(p, m)) > 0 {
			all = append(all, m)
		}
	}
	return all
}

// A measure is a figure of a run; NaN: it has none.
type measure func(Run) float64

// over returns a measure in a mode over that of stock.
func (r *Results) over(p place, mode string, f measure) sample.Spread {
	return sample.Over(r.at(p, mode), r.at(p, modeStock), f)
}

// hits returns what the second job did not have from disks, of jobs one after the other.
func (x Run) hits() float64 { return math.Max(0, float64(x.Bytes-(x.Read-x.FirstRead))) }

func hitRate(x Run) float64        { return x.hits() / float64(x.Bytes) }
func residentShare(x Run) float64  { return float64(x.Resident) / float64(x.Bytes) }
func hitsOfResident(x Run) float64 { return x.hits() / float64(x.Resident) }
func firstTime(x Run) float64      { return x.First.Duration }
func secondTime(x Run) float64     { return x.Second.Duration }
func secondOverFirst(x Run) float64 {
	return x.Second.Duration / x.First.Duration
}

// bothTime is from the start of the first job to the end of the last.
func bothTime(x Run) float64 {
	return math.Max(x.First.Began+x.First.Duration, x.Second.Began+x.Second.Duration)
}

// readOfBoth is what the disks delivered, of what both jobs read.
func readOfBoth(x Run) float64 { return float64(x.Read) / float64(2*x.Bytes) }

func managerCPU(x Run) float64 { return x.Use.Manager / x.Took }
func nodeCPU(x Run) float64    { return x.Use.Node / x.Took }

// applications that follow what is in memory.
func (x Run) applications() float64 {
	if x.Part == partFrameworks {
		return 1
	}
	return 2
}

// traffic is in bytes a second and application.
func traffic(x Run) float64 { return float64(x.Use.Traffic) / x.Took / x.applications() }

// longestOffer is that of the scheduler's callbacks in which tasks are put into order, in
// seconds.
func longestOffer(x Run) float64 {
	longest := math.NaN()
	for _, j := range []Job{x.First, x.Second} {
		if us, ok := j.Metrics["locality.longest.micros"]; ok && !(float64(us)/1e6 <= longest) {
			longest = float64(us) / 1e6
		}
	}
	return longest
}

// allOffers is the time of all these callbacks of both jobs, in seconds; not a number where nobody has measured it.
func allOffers(x Run) float64 {
	micros, measured := int64(0), false
	for _, j := range []Job{x.First, x.Second} {
		us, ok := j.Metrics["locality.micros"]
		micros, measured = micros+us, measured || ok
	}
	if !measured {
		return math.NaN()
	}
	return float64(micros) / 1e6
}

// doubts counts what the plug-in has left in Spark's order because something failed.
func doubts(x Run) float64 {
	return float64(x.First.Metrics["locality.doubts"] + x.Second.Metrics["locality.doubts"] + x.First.Metrics["locality.failed"] + x.Second.Metrics["locality.failed"])
}
