package read

import (
	"cmp"
	"math"
	"slices"

	disks "headrace/disk"
	"headrace/lab/rig"
	"headrace/lab/sample"
	"headrace/lab/slowdisk"
	"headrace/lab/trial"
)

// Results is everything that `bench read` has measured.
type Results struct {
	trial.Circumstances
	Sizes []Sizes `json:"sizes"`
	// Model is the modelled disk; nil: none was read from.
	Model       *slowdisk.Model `json:"model,omitempty"`
	Calibration []Calibration   `json:"calibration,omitempty"`
	Runs        []Run           `json:"runs,omitempty"`
}

// Calibration is what plain readers got out of the modelled disk before the
// experiment. Times are seconds, sizes bytes.
type Calibration struct {
	// Readers at a time, each with a part of the file; 0: one that reads 1 MiB here
	// and there.
	Readers  int     `json:"readers"`
	Took     float64 `json:"took"`
	Busy     float64 `json:"busy"`
	Read     int64   `json:"read"`
	Seeks    int64   `json:"seeks"`
	Requests int64   `json:"requests"`
}

func (r *Results) Any() bool { return len(r.Runs) > 0 }

// places returns those that have runs with numbers, in the order of rig.DiskNames.
func (r *Results) places() []string {
	return slices.DeleteFunc(slices.Clone(rig.DiskNames), func(p string) bool { return len(r.at(p)) == 0 })
}

// sizes returns those at a place.
func (r *Results) sizes(place string) Sizes {
	for _, z := range r.Sizes {
		if z.Place == place {
			return z
		}
	}
	return Sizes{Place: place}
}

// runs is a selection of runs that have numbers.
type runs []Run

func (r *Results) at(place string) runs {
	return sample.Good(sample.Where(runs(r.Runs), func(x Run) bool { return x.Place == place }))
}

func (rs runs) where(keep func(Run) bool) runs { return sample.Where(rs, keep) }

func (rs runs) part(name string) runs {
	return rs.where(func(r Run) bool { return r.Part == name })
}

func (rs runs) by(method string) runs {
	return rs.where(func(r Run) bool { return r.Method == method })
}

func (rs runs) of(c Case) runs {
	return rs.where(func(r Run) bool { return r.Case == c })
}

// cases returns those that occur with other methods than cat, in their order.
func (rs runs) cases() []Case {
	out := sample.Distinct(rs.where(func(r Run) bool { return r.Method != methodPlain }), func(r Run) Case { return r.Case })
	slices.SortFunc(out, func(a, b Case) int {
		return cmp.Or(cmp.Compare(slices.Index(Parts, a.Part), slices.Index(Parts, b.Part)), cmp.Compare(a.Jobs, b.Jobs), cmp.Compare(a.Consumers, b.Consumers))
	})
	return out
}

// A metric is one number of a run; NaN: not measured.
type metric func(Run) float64

// throughput returns what consumers were given, bytes per second.
func throughput(r Run) float64 { return float64(r.Bytes) / r.Took }

// seekRate returns how often the disk went elsewhere in a second.
func seekRate(r Run) float64 {
	if r.Disk.Seeks == disks.UnknownSeeks {
		return math.NaN()
	}
	return float64(r.Disk.Seeks) / r.Took
}

// seeksFor100MB returns how often it did for 100 MB from the disk.
func seeksFor100MB(r Run) float64 {
	if r.Disk.Seeks == disks.UnknownSeeks || r.Disk.Read == 0 {
		return math.NaN()
	}
	return float64(r.Disk.Seeks) / (float64(r.Disk.Read) / 100e6)
}

// headBusy returns the share of the time in which the head of a modelled disk was busy.
func headBusy(r Run) float64 {
	if r.Place != rig.Modelled {
		return math.NaN()
	}
	return r.Disk.Busy / r.Took
}

// readTimes returns how often the files were read from the disk: 1 is once.
func readTimes(r Run) float64 { return float64(r.Disk.Read) / float64(r.Size) }

// beyondOwn returns the processor time beyond the consumers' own for each GB that they
// were given.
func beyondOwn(r Run) float64 { return (r.CPU - r.Own) / (float64(r.Bytes) / 1e9) }

// ownPerGB returns the consumers' own.
func ownPerGB(r Run) float64 { return r.Own / (float64(r.Bytes) / 1e9) }

// mostCached returns the most that was in memory, where that was limited.
func mostCached(r Run) float64 {
	if r.Cached == 0 {
		return math.NaN()
	}
	return float64(r.Cached)
}

// lastEnd returns when the last consumer had ended, firstEnd the first one.
func lastEnd(r Run) float64  { return slices.Max(r.Ends) }
func firstEnd(r Run) float64 { return slices.Min(r.Ends) }

// endSpread returns the time between the two.
func endSpread(r Run) float64 { return lastEnd(r) - firstEnd(r) }

func (rs runs) spread(m metric) sample.Spread { return sample.Of(rs, m) }

func (rs runs) over(others runs, m metric) sample.Spread { return sample.Over(rs, others, m) }

// plain returns the runs of cat.
func (rs runs) plain() runs { return rs.by(methodPlain) }
