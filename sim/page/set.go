package page

import (
	"math"
	"slices"

	"headrace/policy"
	"headrace/sim"
	"headrace/trace"
)

// set is the results that are compared.
type set struct {
	results []*sim.Result
	// labels name them: the policy, and the medium where it makes a difference.
	labels []string
	// reference is what others are compared with; nil without results.
	reference *sim.Result
	refName   string
	// bands are the names of all bands that have jobs.
	bands []string
	// media are those that make a difference, in order of appearance.
	media []string
	// uses are the policies to which the medium makes a difference.
	uses      map[policy.Name]bool
	published published
}

func newSet(results []*sim.Result) set {
	results = given(results)
	s := set{uses: map[policy.Name]bool{}}
	for i, r := range results {
		differs := slices.ContainsFunc(results[:i], func(o *sim.Result) bool {
			return o.Policy == r.Policy && o.Medium != r.Medium && !alike(o, r)
		})
		if r.UsesMedium || differs {
			s.uses[r.Policy] = true
		}
	}
	for _, r := range results {
		if !s.repeats(r) {
			s.add(r)
		}
	}
	s.labels, s.published = names(s.results, s.label), isGoogleDay(s.results)
	for i, r := range s.results {
		if s.reference == nil || r.Policy == policy.Kill && s.reference.Policy != policy.Kill {
			s.reference, s.refName = r, s.labels[i]
		}
	}
	return s
}

func (s *set) add(r *sim.Result) {
	s.results = append(s.results, r)
	for _, b := range r.Bands {
		if b.Jobs > 0 && !slices.Contains(s.bands, b.Name) {
			s.bands = append(s.bands, b.Name)
		}
	}
	if s.uses[r.Policy] && !slices.Contains(s.media, r.Medium) {
		s.media = append(s.media, r.Medium)
	}
}

// repeats reports whether a result tells nothing new: the same was seen on another
// medium, which makes no difference.
func (s *set) repeats(r *sim.Result) bool {
	return !s.uses[r.Policy] && slices.ContainsFunc(s.results, func(o *sim.Result) bool {
		return o.Policy == r.Policy && o.Medium != r.Medium && alike(o, r)
	})
}

// alike reports whether the same happened in two runs.
func alike(a, b *sim.Result) bool {
	return a.Makespan == b.Makespan && a.Work == b.Work && a.Counts == b.Counts && a.IO == b.IO && a.Energy == b.Energy
}

func policyName(r *sim.Result) string {
	if r.Policy == "" {
		return string(policy.Cost)
	}
	return string(r.Policy)
}

func (s set) label(r *sim.Result) string {
	if s.uses[r.Policy] && r.Medium != "" {
		return policyName(r) + " on " + r.Medium
	}
	return policyName(r)
}

// A facet is what there is to compare on one medium.
type facet struct {
	// name is the medium, or empty when none makes a difference.
	name    string
	results []*sim.Result
	// names are the policies.
	names []string
}

// facets returns the results of each medium, with those that it makes no difference to.
func (s set) facets() []facet {
	media := s.media
	if len(media) == 0 {
		media = []string{""}
	}
	var all []facet
	for _, medium := range media {
		f := facet{name: medium}
		for _, r := range s.results {
			if !s.uses[r.Policy] || r.Medium == medium {
				f.results = append(f.results, r)
			}
		}
		f.names = names(f.results, policyName)
		all = append(all, f)
	}
	return all
}

// find returns the first result of a policy on a medium.
func (s set) find(p policy.Name, medium string) *sim.Result {
	for _, r := range s.results {
		if r.Policy == p && r.Medium == medium {
			return r
		}
	}
	return nil
}

// values returns one measure of all results.
func (s set) values(of func(*sim.Result) float64) []float64 {
	values := make([]float64, len(s.results))
	for i, r := range s.results {
		values[i] = of(r)
	}
	return values
}

// any reports whether some result has a value other than zero.
func (s set) any(of func(*sim.Result) float64) bool {
	for _, r := range s.results {
		if v := of(r); v != 0 && !math.IsNaN(v) {
			return true
		}
	}
	return false
}

// ratio is NaN where there is nothing to compare.
func ratio(a, b float64) float64 {
	if r := a / b; b > 0 && !math.IsInf(r, 0) {
		return r
	}
	return missing
}

// missing is a value that there is none of.
var missing = math.NaN()

func share(n, of int) float64 { return ratio(float64(n), float64(of)) }

const (
	coreHour     = 3600
	kilowattHour = 3.6e6
)

func wasted(r *sim.Result) float64     { return r.Work.Wasted() / coreHour }
func wasteShare(r *sim.Result) float64 { return ratio(r.Work.Wasted(), r.Work.Used()) }

// makespan is rounded as it is written, so that no run stands out by a millisecond.
func makespan(r *sim.Result) float64 {
	if r.Makespan < 3600 {
		return r.Makespan
	}
	return math.Round(r.Makespan/60) * 60
}

func energy(r *sim.Result) float64 { return r.Energy.Joules / kilowattHour }

// response returns the mean response of a band's jobs, in seconds.
func response(r *sim.Result, name string) float64 {
	if b := r.Band(name); b.Response.N > 0 {
		return b.Response.Mean
	}
	return missing
}

// quantile is NaN where there are no values.
func quantile(s sim.Spread, q float64) float64 {
	if s.N == 0 || len(s.At) == 0 {
		return missing
	}
	return s.Quantile(q)
}

// toReference returns a measure as a multiple of the reference's.
func (s set) toReference(of func(*sim.Result) float64) func(*sim.Result) float64 {
	return func(r *sim.Result) float64 { return ratio(of(r), of(s.reference)) }
}

// preempted returns how many tasks had to leave at least once, and how many there are.
func preempted(o trace.Outcome) (some, all int) {
	for i, n := range o.Times {
		all += n
		if i > 0 {
			some += n
		}
	}
	return some, all
}
