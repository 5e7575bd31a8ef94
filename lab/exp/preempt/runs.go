package preempt

import (
	"cmp"
	"maps"
	"slices"

	"headrace/lab/rig"
	"headrace/lab/sample"
)

// A metric is one number of a run.
type metric func(Run) float64

func sojourn(r Run) float64  { return r.Sojourn }
func makespan(r Run) float64 { return r.Makespan }
func lostCPU(r Run) float64  { return r.LostCPU }
func moved(r Run) float64    { return float64(r.Moved()) }

// Runs is a selection of runs that have numbers.
type Runs []Run

// good returns those of an experiment that have not failed.
func (r *Results) good(experiment string) Runs {
	return sample.Good(Runs(r.Runs).where(func(r Run) bool { return r.Experiment == experiment }))
}

func (rs Runs) where(keep func(Run) bool) Runs { return sample.Where(rs, keep) }

func (rs Runs) at(p Point) Runs { return rs.where(func(r Run) bool { return r.Point == p }) }

// By returns the runs under a policy.
func (rs Runs) By(policy string) Runs {
	return rs.where(func(r Run) bool { return r.Policy == policy })
}

func (rs Runs) of(m metric) sample.Spread { return sample.Of(rs, m) }

// against returns the ratios of m between two policies.
func (rs Runs) against(policy, other string, m metric) sample.Spread {
	return sample.Over(rs.By(policy), rs.By(other), m)
}

// Beyond does as against, for differences.
func (rs Runs) Beyond(policy, other string, m metric) sample.Spread {
	return sample.Beyond(rs.By(policy), rs.By(other), m)
}

// policyOrder is how policies are listed.
var policyOrder = []string{"wait", "kill", "suspend", "checkpoint", "adaptive", "cost"}

// Policies returns those that occur.
func (rs Runs) Policies() []string {
	return slices.DeleteFunc(slices.Clone(policyOrder), func(p string) bool { return len(rs.By(p)) == 0 })
}

// points returns those that occur, in the order of their axes; stores in the order of
// the setup.
func (rs Runs) points(stores []rig.StoreFact) []Point {
	place := map[string]int{}
	for i, s := range stores {
		place[s.Name] = i
	}
	out := sample.Distinct(rs, func(r Run) Point { return r.Point })
	slices.SortFunc(out, func(a, b Point) int {
		return cmp.Or(cmp.Compare(place[a.Store], place[b.Store]),
			cmp.Compare(a.UrgentBytes, b.UrgentBytes), cmp.Compare(a.Share, b.Share))
	})
	return out
}

// common mechanisms of the runs with their number, the most frequent first.
func (rs Runs) mechanisms() []string {
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
