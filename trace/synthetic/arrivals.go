package synthetic

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// arrive says when the jobs, which come the largest first, are submitted.
func (g *bandGenerator) arrive(list []dayJob) {
	a := &g.band.Arrival
	inWaves := 0
	if a.Waves > 0 {
		large := max(1, float64(a.Large)*min(1, g.scale))
		for inWaves < len(list) && float64(list[inWaves].tasks) >= large {
			inWaves++
		}
		g.waves(list[:inWaves])
	}
	r := g.random(forArrivals)
	for i := inWaves; i < len(list); i++ {
		list[i].submit = millisecond(g.within(a.timeAt(r.Float64()) * g.length))
	}
}

// waves deals the jobs to waves, those with the most work first: each goes to the
// one that is the furthest from its share of the work.
func (g *bandGenerator) waves(list []dayJob) {
	a := &g.band.Arrival
	r := g.random(forWaves)
	starts, weights := a.waveStarts(r)
	work, order := make([]float64, len(list)), make([]int, len(list))
	all, weight := 0.0, 0.0
	for i := range list {
		order[i] = i
		work[i] = float64(list[i].tasks) * list[i].cpus * list[i].run
		all += work[i]
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(work[j], work[i]) })
	for _, w := range weights {
		weight += w
	}
	lack := make([]float64, len(weights))
	for w := range lack {
		lack[w] = weights[w] / weight * all
	}
	for _, i := range order {
		to := 0
		for w := range lack {
			if lack[w] > lack[to] {
				to = w
			}
		}
		lack[to] -= work[i]
		list[i].submit = millisecond(g.within(starts[to]*g.length + r.Float64()*a.WaveSeconds))
	}
}

// within keeps a time inside the day.
func (g *bandGenerator) within(seconds float64) float64 {
	return min(max(seconds, 0), g.length-0.001)
}

// waveStarts returns when waves begin, as shares of the day, and how large they are in
// relation to each other.
func (a *DayArrival) waveStarts(r *rand.Rand) (starts, weights []float64) {
	for i := range a.Waves {
		u := (float64(i) + 0.5 + a.Jitter*(r.Float64()-0.5)) / float64(a.Waves)
		starts = append(starts, a.timeAt(u))
		weights = append(weights, math.Exp(a.WaveSigma*r.NormFloat64()))
	}
	slices.Sort(starts)
	return starts, weights
}

// timeAt returns the time, as a share of the day, before which the share u of all jobs
// arrives.
func (a *DayArrival) timeAt(u float64) float64 {
	total := 0.0
	for _, rate := range a.Rates {
		total += rate
	}
	left := u * total
	for i, rate := range a.Rates {
		if left < rate {
			return (float64(i) + left/rate) / float64(len(a.Rates))
		}
		left -= rate
	}
	return 1
}
