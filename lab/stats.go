package lab

import (
	"cmp"
	"maps"
	"slices"
)

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
	return Good(runs(r.Runs).where(func(r Run) bool { return r.Experiment == experiment }))
}

func (rs runs) where(keep func(Run) bool) runs { return Where(rs, keep) }

func (rs runs) at(p Point) runs { return rs.where(func(r Run) bool { return r.Point == p }) }

func (rs runs) by(policy string) runs {
	return rs.where(func(r Run) bool { return r.Policy == policy })
}

func (rs runs) of(m metric) Spread { return Of(rs, m) }

// against are the ratios of m between two policies.
func (rs runs) against(policy, other string, m metric) Spread {
	return Over(rs.by(policy), rs.by(other), m)
}

// beyond is against for differences.
func (rs runs) beyond(policy, other string, m metric) Spread {
	return Beyond(rs.by(policy), rs.by(other), m)
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
	out := Distinct(rs, func(r Run) Point { return r.Point })
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
	names := slices.Collect(maps.Keys(count))
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	return names
}
