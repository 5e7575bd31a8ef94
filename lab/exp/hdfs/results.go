package hdfs

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"headrace/lab/sample"
	"headrace/lab/slowdisk"
	"headrace/lab/trial"
)

// Results is everything that `bench hdfs` has measured.
type Results struct {
	trial.Circumstances
	Plan Plan  `json:"plan"`
	Runs []Run `json:"runs,omitempty"`
}

// Any reports whether anything has been measured.
func (r *Results) Any() bool { return len(r.Runs) > 0 }

// Run is the jobs of a part once, in one mode. Times are seconds, sizes bytes.
type Run struct {
	Part string `json:"part"`
	// Name is that of the job, and Input what it reads, where a part has one at a time.
	Name  string `json:"name"`
	Input int64  `json:"input"`
	Mode  string `json:"mode"`
	// Repeat counts from 0; Order is the place within the repeat.
	Repeat int   `json:"repeat"`
	Order  int   `json:"order"`
	Jobs   []Job `json:"jobs,omitempty"`
	// Memory is what was kept for jobs.
	Memory []Memory  `json:"memory,omitempty"`
	Disk   DiskCount `json:"disk"`
	// Failure says why there are no numbers.
	Failure string `json:"failure,omitempty"`
}

// In returns the repeat, and why there are no numbers.
func (x Run) In() (repeat int, failure string) { return x.Repeat, x.Failure }

// Job is one job of a run. Submitted counts from the beginning of the run.
type Job struct {
	Name  string `json:"name"`
	Class string `json:"class,omitempty"`
	Input int64  `json:"input"`
	// On is how much of the input each machine has: the first replica of each block.
	On        []int64 `json:"on,omitempty"`
	Submitted float64 `json:"submitted"`
	Duration  float64 `json:"duration"`
	Uber      bool    `json:"uber,omitempty"`
	// Reads are how long each block took to be read.
	Reads []float64 `json:"reads,omitempty"`
}

// Memory is what was kept at a moment, on each machine.
type Memory struct {
	At    float64 `json:"at"`
	Bytes []int64 `json:"bytes"`
}

// DiskCount is what all disks have done together.
type DiskCount struct {
	Read    int64   `json:"read"`
	Written int64   `json:"written"`
	Seeks   int64   `json:"seeks"`
	Busy    float64 `json:"busy"`
}

func countOf(s slowdisk.Stats) DiskCount {
	return DiskCount{s.Read, s.Written, s.Seeks, s.Busy.Seconds()}
}

// of returns the runs of a part in a mode that have numbers.
func (r *Results) of(part, mode string) []Run { return r.at(part, mode, "") }

// A measure is a figure of a run.
type measure func(Run) float64

// at returns those of a job, or of all if none is named.
func (r *Results) at(part, mode, name string) []Run {
	return sample.Good(sample.Where(r.Runs, func(x Run) bool { return x.Part == part && x.Mode == mode && (name == "" || x.Name == name) }))
}

// less returns how much less a measure is in a mode than stock: the part of one.
func (r *Results) less(part, mode, name string, f measure) sample.Spread {
	return sample.Over(r.at(part, mode, name), r.at(part, modeStock, name), f).Less()
}

// reached returns the share of what memory could gain at most that a mode has gained.
func (r *Results) reached(part, mode, name string, f measure) sample.Spread {
	return sample.Reached(r.at(part, mode, name), r.at(part, modeStock, name), r.at(part, modeRAM, name), f)
}

// meanDuration returns that of the jobs of a class; of all for an empty one.
func meanDuration(class string) measure {
	return func(x Run) float64 {
		var all []float64
		for _, j := range x.Jobs {
			if class == "" || j.Class == class {
				all = append(all, j.Duration)
			}
		}
		return sample.Mean(all)
	}
}

// reads returns the times in which blocks were read, sorted.
func (x Run) reads() []float64 {
	var all []float64
	for _, j := range x.Jobs {
		all = append(all, j.Reads...)
	}
	slices.Sort(all)
	return all
}

func meanRead(x Run) float64 { return sample.Mean(x.reads()) }

// fromMemory is the share of blocks that were read in less time than the disk takes to
// transfer one.
func fromMemory(x Run) float64 {
	all := x.reads()
	n, _ := slices.BinarySearch(all, transfer)
	return float64(n) / float64(len(all))
}

// meanColdRead is that of the other blocks.
func meanColdRead(x Run) float64 {
	all := x.reads()
	n, _ := slices.BinarySearch(all, transfer)
	return sample.Mean(all[n:])
}

// transfer is how long the disk is busy with a block at least, in seconds.
var transfer = diskHere.Service(block, false).Seconds()

// held is the mean over the time in which a server kept anything, and the most, in bytes
// (figure 7).
type held struct{ Mean, Max float64 }

// kept returns what Headrace kept in memory, a server.
func (x Run) kept() held {
	var values []float64
	for _, m := range x.Memory {
		for _, b := range m.Bytes {
			if b > 0 {
				values = append(values, float64(b))
			}
		}
	}
	if len(values) == 0 {
		return held{math.NaN(), math.NaN()}
	}
	return held{sample.Mean(values), slices.Max(values)}
}

// instantaneous returns what a server would keep with a scheme that reads an input in no time
// when its job is submitted and drops it when the job ends, with jobs that took as long as
// in x.
func (x Run) instantaneous() held {
	type change struct {
		at    float64
		bytes int64
	}
	area, time := 0.0, 0.0
	var out held
	for server := range servers {
		var all []change
		for _, j := range x.Jobs {
			all = append(all, change{j.Submitted, j.On[server]}, change{j.Submitted + j.Duration, -j.On[server]})
		}
		slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
		var now int64
		for i, c := range all {
			if i > 0 && now > 0 {
				area += float64(now) * (c.at - all[i-1].at)
				time += c.at - all[i-1].at
			}
			now += c.bytes
			out.Max = max(out.Max, float64(now))
		}
	}
	out.Mean = area / time
	return out
}

// names returns the jobs that a part ran one at a time, those with small inputs first.
func (r *Results) names(part string) []string {
	input := map[string]int64{}
	for _, x := range r.Runs {
		if x.Part == part {
			input[x.Name] = x.Input
		}
	}
	return slices.SortedFunc(maps.Keys(input), func(a, b string) int {
		return cmp.Or(cmp.Compare(input[a], input[b]), cmp.Compare(a, b))
	})
}

// ran reports whether there is anything of a part.
func (r *Results) ran(part string) bool { return len(r.names(part)) > 0 }

// inputOf returns what such a job reads.
func (r *Results) inputOf(part, name string) int64 {
	for _, x := range r.Runs {
		if x.Part == part && x.Name == name {
			return x.Input
		}
	}
	return 0
}

// modes returns those that a part ran in, in the order in which they are listed.
func (r *Results) modes(part string) []string {
	return slices.DeleteFunc(slices.Clone(Modes), func(m string) bool { return len(r.of(part, m)) == 0 })
}

// slowest returns, of all jobs of a part, the greatest of their times in a mode over those
// stock: for each job the spread over the repeats. Which job is the second value.
func (r *Results) slowest(part, mode string) (worst sample.Spread, job string) {
	worst = sample.Unmeasured()
	for _, name := range r.names(part) {
		runs := r.at(part, mode, name)
		if len(runs) == 0 {
			continue
		}
		for _, j := range runs[0].Jobs {
			if ratio := sample.Over(runs, r.at(part, modeStock, name), durationOf(j.Name)); !(ratio.Median <= worst.Median) {
				worst, job = ratio, j.Name
			}
		}
	}
	return worst, job
}

// lessOnAverage returns the mean over the jobs that a part ran one at a time of how much
// less time they took than stock, in each repeat that has all of them.
func (r *Results) lessOnAverage(part, mode string) sample.Spread {
	names, all := r.names(part), map[int][]float64{}
	for _, name := range names {
		for _, x := range r.at(part, mode, name) {
			if s, ok := sample.Beside(x, r.at(part, modeStock, name)); ok {
				all[x.Repeat] = append(all[x.Repeat], 1-meanDuration("")(x)/meanDuration("")(s))
			}
		}
	}
	var means []float64
	for _, less := range all {
		if len(less) == len(names) {
			means = append(means, sample.Mean(less))
		}
	}
	return sample.SpreadOf(means)
}

func durationOf(job string) measure {
	return func(x Run) float64 {
		for _, j := range x.Jobs {
			if j.Name == job {
				return j.Duration
			}
		}
		return math.NaN()
	}
}
