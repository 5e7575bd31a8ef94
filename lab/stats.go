package lab

import (
	"cmp"
	"math"
	"slices"
)

// spread is the median of several values and their range. With no values all
// three are NaN.
type spread struct{ Median, Min, Max float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	v := slices.Clone(values)
	slices.Sort(v)
	mid := len(v) / 2
	median := v[mid]
	if len(v)%2 == 0 {
		median = (v[mid-1] + v[mid]) / 2
	}
	return spread{median, v[0], v[len(v)-1]}
}

// A metric is one number of a run.
type metric func(Run) float64

func sojourn(r Run) float64  { return r.Sojourn }
func makespan(r Run) float64 { return r.Makespan }
func lostCPU(r Run) float64  { return r.LostCPU }
func moved(r Run) float64    { return float64(r.moved()) }

// runs is a selection of runs that have numbers.
type runs []Run

// good are those of an experiment that have not failed.
func (r *Results) good(experiment string) runs {
	var out runs
	for _, run := range r.Runs {
		if run.Experiment == experiment && run.Failure == "" {
			out = append(out, run)
		}
	}
	return out
}

func (rs runs) at(p Point) runs {
	return rs.where(func(r Run) bool { return r.Point == p })
}

func (rs runs) by(policy string) runs {
	return rs.where(func(r Run) bool { return r.Policy == policy })
}

func (rs runs) where(keep func(Run) bool) runs {
	var out runs
	for _, r := range rs {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}

// of is the spread of a metric over the runs.
func (rs runs) of(m metric) spread {
	var values []float64
	for _, r := range rs {
		values = append(values, m(r))
	}
	return spreadOf(values)
}

// against is the spread of the ratios of m between two policies, taken within
// each repeat that has both.
func (rs runs) against(policy, other string, m metric) spread {
	return rs.paired(policy, other, m, func(a, b float64) float64 { return a / b })
}

// beyond is against for differences.
func (rs runs) beyond(policy, other string, m metric) spread {
	return rs.paired(policy, other, m, func(a, b float64) float64 { return a - b })
}

func (rs runs) paired(policy, other string, m metric, compare func(a, b float64) float64) spread {
	base := map[int]float64{}
	for _, r := range rs.by(other) {
		base[r.Repeat] = m(r)
	}
	var values []float64
	for _, r := range rs.by(policy) {
		if b, ok := base[r.Repeat]; ok {
			values = append(values, compare(m(r), b))
		}
	}
	return spreadOf(values)
}

// policyOrder is how policies are listed.
var policyOrder = []string{"wait", "kill", "suspend", "checkpoint", "adaptive", "cost"}

// policies are those that occur.
func (rs runs) policies() []string {
	return slices.DeleteFunc(slices.Clone(policyOrder), func(p string) bool { return len(rs.by(p)) == 0 })
}

// points are those that occur, in the order of their axes; stores in the order of
// the setup.
func (rs runs) points(stores []StoreFact) []Point {
	place := map[string]int{}
	for i, s := range stores {
		place[s.Name] = i
	}
	seen := map[Point]bool{}
	var out []Point
	for _, r := range rs {
		if !seen[r.Point] {
			seen[r.Point] = true
			out = append(out, r.Point)
		}
	}
	slices.SortFunc(out, func(a, b Point) int {
		return cmp.Or(cmp.Compare(place[a.Store], place[b.Store]),
			cmp.Compare(a.UrgentBytes, b.UrgentBytes), cmp.Compare(a.Share, b.Share))
	})
	return out
}

// common mechanisms of the runs with their number, the most frequent first.
func (rs runs) mechanisms() []string {
	count := map[string]int{}
	for _, r := range rs {
		count[r.Mechanism]++
	}
	var names []string
	for name := range count {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	return names
}
