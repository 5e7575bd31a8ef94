package lab

import (
	"cmp"
	"slices"
)

// WarmResults is everything that `bench warm` has measured.
type WarmResults struct {
	Circumstances
	Plan    WarmPlan `json:"plan"`
	Replays []Replay `json:"replays,omitempty"`
	Singles []Single `json:"singles,omitempty"`
}

func (r *WarmResults) circumstances() *Circumstances { return &r.Circumstances }

// any reports whether anything has been measured.
func (r *WarmResults) any() bool { return len(r.Replays)+len(r.Singles) > 0 }

// in are the replays of a mode that have numbers, by repeat.
func (r *WarmResults) in(mode string) map[int]Replay {
	out := map[int]Replay{}
	all := r.Replays
	if mode == modeIdeal {
		all = r.ideal()
	}
	for _, x := range all {
		if x.Mode == mode && x.Failure == "" {
			out[x.Repeat] = x
		}
	}
	return out
}

// of is the spread of a measure over the replays of a mode.
func (r *WarmResults) of(mode string, f func(Replay) float64) spread {
	var values []float64
	for _, x := range r.in(mode) {
		values = append(values, f(x))
	}
	return spreadOf(values)
}

// against is the spread over the repeats of how much less a measure is in a mode
// than cold: the part of one.
func (r *WarmResults) against(mode string, f func(Replay) float64) spread {
	cold := r.in(modeCold)
	var values []float64
	for repeat, x := range r.in(mode) {
		if base, ok := cold[repeat]; ok {
			values = append(values, 1-f(x)/f(base))
		}
	}
	return spreadOf(values)
}

// reached is the share of what memory could gain at most that a mode has gained,
// within each repeat.
func (r *WarmResults) reached(mode string, f func(Replay) float64) spread {
	cold, best := r.in(modeCold), r.in(modeRAM)
	var values []float64
	for repeat, x := range r.in(mode) {
		c, ok := cold[repeat]
		b, okToo := best[repeat]
		if ok && okToo && f(c) != f(b) {
			values = append(values, (f(c)-f(x))/(f(c)-f(b)))
		}
	}
	return spreadOf(values)
}

// meanDuration is that of the jobs of a class; of all for an empty one.
func meanDuration(class string) func(Replay) float64 {
	return meanOf(class, func(j ReplayedJob) float64 { return j.Duration })
}

// meanReading is the mean over the jobs of a class of the time that all blocks
// together took to be read.
func meanReading(class string) func(Replay) float64 {
	return meanOf(class, func(j ReplayedJob) float64 { return sum(j.Reads) })
}

func meanOf(class string, f func(ReplayedJob) float64) func(Replay) float64 {
	return func(x Replay) float64 {
		var values []float64
		for _, j := range x.Jobs {
			if class == "" || j.Class == class {
				values = append(values, f(j))
			}
		}
		return mean(values)
	}
}

// meanBlock is the mean time in which a block was read, or read and computed.
func meanBlock(whole bool) func(Replay) float64 {
	return func(x Replay) float64 {
		if whole {
			return mean(x.blocks(func(j ReplayedJob) []float64 { return j.Wholes }))
		}
		return mean(x.blocks(func(j ReplayedJob) []float64 { return j.Reads }))
	}
}

func (x Replay) blocks(of func(ReplayedJob) []float64) []float64 {
	var all []float64
	for _, j := range x.Jobs {
		all = append(all, of(j)...)
	}
	return all
}

// reads are the times of all blocks of a mode, sorted.
func (r *WarmResults) reads(mode string) []float64 {
	var all []float64
	for _, x := range r.in(mode) {
		all = append(all, x.blocks(func(j ReplayedJob) []float64 { return j.Reads })...)
	}
	slices.Sort(all)
	return all
}

// mean is NaN without values.
func mean(values []float64) float64 { return sum(values) / float64(len(values)) }

// quantile is that of sorted values, which must not be empty.
func quantile(sorted []float64, q float64) float64 {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// held is the mean over the time in which anything was kept, and the most
// (figure 7).
type held struct{ Mean, Max float64 }

// kept is what the daemon kept in memory.
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
	return held{mean(values), slices.Max(values)}
}

// thinned is the samples without those that say what the ones before and after
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

// instantaneous is what a scheme would keep that reads an input in no time when
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

// singlesOf are the jobs that ran alone and have numbers, by repeat.
func (r *WarmResults) singlesOf(kind, mode string, input int64) map[int]float64 {
	out := map[int]float64{}
	for _, s := range r.Singles {
		if s.Kind == kind && s.Mode == mode && s.Input == input && s.Failure == "" {
			out[s.Repeat] = s.Duration
		}
	}
	return out
}

// singleSpread is the spread of durations, and that of their ratios to cold ones
// within each repeat.
func (r *WarmResults) singleSpread(kind, mode string, input int64) (durations, ratios spread) {
	cold := r.singlesOf(kind, modeCold, input)
	var d, q []float64
	for repeat, v := range r.singlesOf(kind, mode, input) {
		d = append(d, v)
		if base, ok := cold[repeat]; ok {
			q = append(q, v/base)
		}
	}
	return spreadOf(d), spreadOf(q)
}

// inputsOf are the sizes that a kind of job ran with, from small to large.
func (r *WarmResults) inputsOf(kind string) []int64 {
	var all []int64
	for _, s := range r.Singles {
		if s.Kind == kind {
			all = append(all, s.Input)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
