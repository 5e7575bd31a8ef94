package lab

import (
	"cmp"
	"math"
	"slices"

	disks "headrace/disk"
	"headrace/lab/slowdisk"
)

// ReaderResults is everything that `bench read` has measured.
type ReaderResults struct {
	Circumstances
	Sizes []ReadSizes `json:"sizes"`
	// Model is the modelled disk; nil: none was read from.
	Model       *slowdisk.Model   `json:"model,omitempty"`
	Calibration []ReadCalibration `json:"calibration,omitempty"`
	Runs        []ReadRun         `json:"runs,omitempty"`
}

// ReadCalibration is what plain readers got out of the modelled disk before the
// experiment. Times are seconds, sizes bytes.
type ReadCalibration struct {
	// Readers at a time, each with a part of the file; 0: one that reads 1 MiB here
	// and there.
	Readers  int     `json:"readers"`
	Took     float64 `json:"took"`
	Busy     float64 `json:"busy"`
	Read     int64   `json:"read"`
	Seeks    int64   `json:"seeks"`
	Requests int64   `json:"requests"`
}

func (r *ReaderResults) circumstances() *Circumstances { return &r.Circumstances }
func (r *ReaderResults) any() bool                     { return len(r.Runs) > 0 }

// places are those that have runs with numbers, in the order of readPlaces.
func (r *ReaderResults) places() []string {
	return slices.DeleteFunc(slices.Clone(readPlaces), func(p string) bool { return len(r.at(p)) == 0 })
}

// sizes are those at a place.
func (r *ReaderResults) sizes(place string) ReadSizes {
	for _, z := range r.Sizes {
		if z.Place == place {
			return z
		}
	}
	return ReadSizes{Place: place}
}

// readRuns is a selection of runs that have numbers.
type readRuns []ReadRun

func (r *ReaderResults) at(place string) readRuns {
	return Good(Where(readRuns(r.Runs), func(x ReadRun) bool { return x.Place == place }))
}

func (rs readRuns) where(keep func(ReadRun) bool) readRuns { return Where(rs, keep) }

func (rs readRuns) part(name string) readRuns {
	return rs.where(func(r ReadRun) bool { return r.Part == name })
}

func (rs readRuns) by(method string) readRuns {
	return rs.where(func(r ReadRun) bool { return r.Method == method })
}

func (rs readRuns) of(c ReadCase) readRuns {
	return rs.where(func(r ReadRun) bool { return r.ReadCase == c })
}

// cases are those that occur with other methods than cat, in their order.
func (rs readRuns) cases() []ReadCase {
	out := Distinct(rs.where(func(r ReadRun) bool { return r.Method != methodPlain }), func(r ReadRun) ReadCase { return r.ReadCase })
	slices.SortFunc(out, func(a, b ReadCase) int {
		return cmp.Or(cmp.Compare(slices.Index(ReadParts, a.Part), slices.Index(ReadParts, b.Part)), cmp.Compare(a.Jobs, b.Jobs), cmp.Compare(a.Consumers, b.Consumers))
	})
	return out
}

// A readMetric is one number of a run; NaN: not measured.
type readMetric func(ReadRun) float64

// throughput is what consumers were given, bytes per second.
func throughput(r ReadRun) float64 { return float64(r.Bytes) / r.Took }

// seekRate is how often the disk went elsewhere in a second.
func seekRate(r ReadRun) float64 {
	if r.Disk.Seeks == disks.UnknownSeeks {
		return math.NaN()
	}
	return float64(r.Disk.Seeks) / r.Took
}

// seeksFor100MB is how often it did for 100 MB from the disk.
func seeksFor100MB(r ReadRun) float64 {
	if r.Disk.Seeks == disks.UnknownSeeks || r.Disk.Read == 0 {
		return math.NaN()
	}
	return float64(r.Disk.Seeks) / (float64(r.Disk.Read) / 100e6)
}

// headBusy is the share of the time in which the head of a modelled disk was busy.
func headBusy(r ReadRun) float64 {
	if r.Place != placeModelled {
		return math.NaN()
	}
	return r.Disk.Busy / r.Took
}

// readTimes is how often the files were read from the disk: 1 is once.
func readTimes(r ReadRun) float64 { return float64(r.Disk.Read) / float64(r.Size) }

// beyondOwn is the processor time beyond the consumers' own for each GB that they
// were given.
func beyondOwn(r ReadRun) float64 { return (r.CPU - r.Own) / (float64(r.Bytes) / 1e9) }

// ownPerGB is the consumers' own.
func ownPerGB(r ReadRun) float64 { return r.Own / (float64(r.Bytes) / 1e9) }

// mostCached is the most that was in memory, where that was limited.
func mostCached(r ReadRun) float64 {
	if r.Cached == 0 {
		return math.NaN()
	}
	return float64(r.Cached)
}

// lastEnd is when the last consumer had ended, firstEnd the first one.
func lastEnd(r ReadRun) float64  { return slices.Max(r.Ends) }
func firstEnd(r ReadRun) float64 { return slices.Min(r.Ends) }

// endSpread is the time between the two.
func endSpread(r ReadRun) float64 { return lastEnd(r) - firstEnd(r) }

func (rs readRuns) spread(m readMetric) Spread { return Of(rs, m) }

func (rs readRuns) over(others readRuns, m readMetric) Spread { return Over(rs, others, m) }

// plain are the runs of cat.
func (rs readRuns) plain() readRuns { return rs.by(methodPlain) }
