package warm

import (
	"cmp"
	"slices"

	"headrace/lab/sample"
	"headrace/lab/trial"
)

// Results is everything that `bench warm` has measured.
type Results struct {
	trial.Circumstances
	Plan    Plan     `json:"plan"`
	Replays []Replay `json:"replays,omitempty"`
	Singles []Single `json:"singles,omitempty"`
}

// Any reports whether anything has been measured.
func (r *Results) Any() bool { return len(r.Replays)+len(r.Singles) > 0 }

// in returns the replays of a mode that have numbers.
func (r *Results) in(mode string) []Replay {
	all := r.Replays
	if mode == modeIdeal {
		all = r.ideal()
	}
	return sample.Good(sample.Where(all, func(x Replay) bool { return x.Mode == mode }))
}

func (r *Results) of(mode string, f func(Replay) float64) sample.Spread {
	return sample.Of(r.in(mode), f)
}

// against returns how much less a measure is in a mode than cold: the part of one.
func (r *Results) against(mode string, f func(Replay) float64) sample.Spread {
	return sample.Over(r.in(mode), r.in(modeCold), f).Less()
}

// reached returns the share of what memory could gain at most that a mode has gained.
func (r *Results) reached(mode string, f func(Replay) float64) sample.Spread {
	return sample.Reached(r.in(mode), r.in(modeCold), r.in(modeRAM), f)
}

// meanDuration returns that of the jobs of a class; of all for an empty one.
func meanDuration(class string) func(Replay) float64 {
	return meanOf(class, func(j ReplayedJob) float64 { return j.Duration })
}

// meanReading returns the mean over the jobs of a class of the time that all blocks
// together took to be read.
func meanReading(class string) func(Replay) float64 {
	return meanOf(class, func(j ReplayedJob) float64 { return sample.Sum(j.Reads) })
}

func meanOf(class string, f func(ReplayedJob) float64) func(Replay) float64 {
	return func(x Replay) float64 {
		var values []float64
		for _, j := range x.Jobs {
			if class == "" || j.Class == class {
				values = append(values, f(j))
			}
		}
		return sample.Mean(values)
	}
}

// meanBlock returns the mean time in which a block was read, or read and computed.
func meanBlock(whole bool) func(Replay) float64 {
	return func(x Replay) float64 {
		if whole {
			return sample.Mean(x.blocks(func(j ReplayedJob) []float64 { return j.Wholes }))
		}
		return sample.Mean(x.blocks(func(j ReplayedJob) []float64 { return j.Reads }))
	}
}

func (x Replay) blocks(of func(ReplayedJob) []float64) []float64 {
	var all []float64
	for _, j := range x.Jobs {
		all = append(all, of(j)...)
	}
	return all
}

// reads returns the times of all blocks of a mode, sorted.
func (r *Results) reads(mode string) []float64 {
	var all []float64
	for _, x := range r.in(mode) {
		all = append(all, x.blocks(func(j ReplayedJob) []float64 { return j.Reads })...)
	}
	slices.Sort(all)
	return all
}

// held is the mean over the time in which anything was kept, and the most
// (figure 7).
type held struct{ Mean, Max float64 }

// kept returns what the daemon kept in memory.
func (x Replay) kept() held {
	var values []float64
	for _, s := range x.Memory {
		if s.Bytes > 0 {
			values = append(values, float64(s.Bytes))
		}
	}
	if len(values) == 0 {
		return held{}
	}
	return held{sample.Mean(values), slices.Max(values)}
}

// thinned returns the samples without those that say what the ones before and after
// them say too: enough for a drawing.
func (x Replay) thinned() []MemorySample {
	var out []MemorySample
	for i, s := range x.Memory {
		if i > 0 && i+1 < len(x.Memory) && x.Memory[i-1].Bytes == s.Bytes && x.Memory[i+1].Bytes == s.Bytes {
			continue
		}
		out = append(out, s)
	}
	return out
}

// instantaneous returns what a scheme would keep that reads an input in no time when
// its job is submitted and drops it when the job ends, with jobs that took as long
// as in x.
func (x Replay) instantaneous() held {
	type change struct {
		at    float64
		bytes int64
	}
	var all []change
	for _, j := range x.Jobs {
		all = append(all, change{j.Submitted, j.Input}, change{j.Submitted + j.Duration, -j.Input})
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	var now int64
	var area, time float64
	var out held
	for i, c := range all {
		if i > 0 && now > 0 {
			lasted := c.at - all[i-1].at
			area += float64(now) * lasted
			time += lasted
		}
		now += c.bytes
		if i+1 < len(all) && all[i+1].at > c.at { // else nobody could have seen it
			out.Max = max(out.Max, float64(now))
		}
	}
	if time > 0 {
		out.Mean = area / time
	}
	return out
}

// singleSpread returns the spread of durations of jobs that ran alone, and that of
// their ratios to cold ones.
func (r *Results) singleSpread(kind, mode string, input int64) (durations, ratios sample.Spread) {
	in := func(mode string) []Single {
		return sample.Good(sample.Where(r.Singles, func(s Single) bool { return s.Kind == kind && s.Mode == mode && s.Input == input }))
	}
	took := func(s Single) float64 { return s.Duration }
	return sample.Of(in(mode), took), sample.Over(in(mode), in(modeCold), took)
}

// inputsOf returns the sizes that a kind of job ran with, from small to large.
func (r *Results) inputsOf(kind string) []int64 {
	var all []int64
	for _, s := range r.Singles {
		if s.Kind == kind {
			all = append(all, s.Input)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
