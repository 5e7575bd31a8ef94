package shapes

import (
	"math"
	"math/rand/v2"

	"headrace"
)

// The priorities of the bands: free, middle and production.
const (
	low    headrace.Priority = 0
	middle headrace.Priority = 4
	urgent headrace.Priority = 9
)

// Priorities are those of low, middle and urgent jobs, on the shapes that have these.
var Priorities = []headrace.Priority{low, middle, urgent}

// dice draws what shapes are made of.
type dice struct{ *rand.Rand }

// pick returns one of the values, each as likely as the others.
func pick[T any](d dice, values ...T) T { return values[d.IntN(len(values))] }

// chance is true for a share p of the draws.
func (d dice) chance(p float64) bool { return d.Float64() < p }

// between returns a value between two.
func (d dice) between(from, to float64) float64 { return from + d.Float64()*(to-from) }

// lognormal returns a value between least and most, as often below the median as above.
func (d dice) lognormal(median, sigma, least, most float64) float64 {
	return min(most, max(least, median*math.Exp(sigma*d.NormFloat64())))
}

// pareto returns a value from least on that is above x in a share (least/x)^alpha of the
// draws, and at most most.
func (d dice) pareto(alpha, least, most float64) float64 {
	return min(most, least*math.Pow(1-d.Float64(), -1/alpha))
}

// band returns a priority: low and middle in these shares, urgent otherwise.
func (d dice) band(lows, middles float64) headrace.Priority {
	switch x := d.Float64(); {
	case x < lows:
		return low
	case x < lows+middles:
		return middle
	}
	return urgent
}

// peaks returns a time in the first part of one of n equal parts of the whole; times are
// shares of it.
func (d dice) peaks(n int, part float64) float64 {
	return (float64(d.IntN(n)) + part*d.Float64()) / float64(n)
}
