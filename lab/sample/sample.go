package sample

import (
	"math"
	"slices"
)

// A Spread is the median of several values and their range. With no values all
// three are NaN.
type Spread struct{ Median, Min, Max float64 }

// SpreadOf measures values, in any order.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{math.NaN(), math.NaN(), math.NaN()}
	}
	v := slices.Clone(values)
	slices.Sort(v)
	mid := len(v) / 2
	median := v[mid]
	if len(v)%2 == 0 {
		median = (v[mid-1] + v[mid]) / 2
	}
	return Spread{median, v[0], v[len(v)-1]}
}

// Plus shifts all three.
func (s Spread) Plus(v float64) Spread { return Spread{s.Median + v, s.Min + v, s.Max + v} }

// Less returns how much less than one it is.
func (s Spread) Less() Spread { return Spread{1 - s.Median, 1 - s.Max, 1 - s.Min} }

// A Sample is one run: what was varied and what was measured, all of it fields of the
// experiment's own, in one repeat.
type Sample interface {
	// In returns the repeat, and why there are no numbers; empty: there are.
	In() (repeat int, failure string)
}

// Good returns the runs that have numbers.
func Good[S ~[]R, R Sample](runs S) S {
	return Where(runs, func(r R) bool { _, failure := r.In(); return failure == "" })
}

// Where returns the runs that keep wants.
func Where[S ~[]R, R any](runs S, keep func(R) bool) S {
	var out S
	for _, r := range runs {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}

// Distinct returns the values of a factor that occur, in the order in which they do.
func Distinct[R any, V comparable](runs []R, factor func(R) V) []V {
	var out []V
	for _, r := range runs {
		if v := factor(r); !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// Of returns the spread of a measure. NaN is not measured and does not count.
func Of[R any](runs []R, measure func(R) float64) Spread {
	var values []float64
	for _, r := range runs {
		if v := measure(r); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return SpreadOf(values)
}

// Over returns the spread of the ratios of a measure in runs to that in others, formed
// within each repeat that has both: a slow repeat must not count.
func Over[R Sample](runs, others []R, measure func(R) float64) Spread {
	return paired(runs, others, measure, func(a, b float64) float64 { return a / b })
}

// Beyond does as Over, for differences.
func Beyond[R Sample](runs, others []R, measure func(R) float64) Spread {
	return paired(runs, others, measure, func(a, b float64) float64 { return a - b })
}

func paired[R Sample](runs, others []R, measure func(R) float64, compare func(a, b float64) float64) Spread {
	return Of(runs, func(r R) float64 {
		if o, ok := Beside(r, others); ok {
			return compare(measure(r), measure(o))
		}
		return math.NaN()
	})
}

// Reached returns the share of what a measure can fall by at most, from runs from to runs best,
// that it has fallen by in runs: of the sums over all repeats that have all three, so that no
// repeat is left out because the best gains nothing in it. NaN if it gains nothing in all of them.
func Reached[R Sample](runs, from, best []R, measure func(R) float64) Spread {
	var gained, possible float64
	for _, r := range runs {
		f, ok := Beside(r, from)
		b, okToo := Beside(r, best)
		if gain, most := measure(f)-measure(r), measure(f)-measure(b); ok && okToo && !math.IsNaN(gain+most) {
			gained, possible = gained+gain, possible+most
		}
	}
	if !(possible > 0) {
		return SpreadOf(nil)
	}
	return SpreadOf([]float64{gained / possible})
}

// Beside returns the run among others, the last if there are several, that was in the
// same repeat.
func Beside[R Sample](r R, others []R) (R, bool) {
	repeat, _ := r.In()
	for _, o := range slices.Backward(others) {
		if in, _ := o.In(); in == repeat {
			return o, true
		}
	}
	return r, false
}

// Middle returns the run with the median of a measure, the smaller one of two.
func Middle[R any](runs []R, measure func(R) float64) R {
	sorted := slices.Clone(runs)
	slices.SortStableFunc(sorted, func(a, b R) int {
		switch d := measure(a) - measure(b); {
		case d < 0:
			return -1
		case d > 0:
			return 1
		}
		return 0
	})
	return sorted[(len(sorted)-1)/2]
}

// Quantile returns that of sorted values, which must not be empty.
func Quantile(sorted []float64, q float64) float64 {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Sum adds up.
func Sum[T int64 | float64](values []T) T {
	var s T
	for _, v := range values {
		s += v
	}
	return s
}

// Mean returns NaN without values.
func Mean(values []float64) float64 { return Sum(values) / float64(len(values)) }
