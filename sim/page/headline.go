package page

import (
	"fmt"
	"math"
	"strings"

	"headrace/policy"
	"headrace/report"
	"headrace/sim"
)

// headline is what stands on top of the page. Its figures are about one result: of
// those whose most urgent jobs take at most 2 % longer than under the reference, the
// one that wastes least; when there is none, the one that wastes least of all.
// Waiting wastes nothing and is not what is looked for.
type headline struct {
	set    set
	chosen int // of the results; -1: there is none
	inTime bool
}

func newHeadline(s set) headline {
	h := headline{set: s, chosen: -1}
	for k, r := range s.results {
		if r == s.reference || r.Policy == policy.Wait {
			continue
		}
		fast := len(s.bands) > 0 && s.toReference(func(r *sim.Result) float64 { return response(r, s.bands[len(s.bands)-1]) })(r) <= 1.02
		if h.chosen < 0 || fast && !h.inTime || fast == h.inTime && wasteShare(r) < wasteShare(s.results[h.chosen]) {
			h.chosen, h.inTime = k, fast
		}
	}
	return h
}

// intro says what was simulated.
func (h headline) intro() string {
	s, r := h.set, h.set.results[0]
	what := fmt.Sprintf("The workload %s, %s in %s, on %s. ",
		code(r.Workload), many(r.Tasks, "task"), many(r.Jobs, "job"), s.clusters())
	what += "Every row is one run of the same workload in simulated time, with the policy code that runs live. "
	policies := map[string]bool{}
	for _, r := range s.results {
		policies[policyName(r)] = true
	}
	switch {
	case len(s.results) == 1:
	case len(policies) > 1 && len(s.media) > 1:
		what += "Runs differ in how tasks make room for more urgent ones, and in what checkpoints are written to."
	case len(policies) > 1:
		what += "Runs differ in how tasks make room for more urgent ones."
	case len(s.media) > 1:
		what += "Runs differ in what checkpoints are written to."
	default:
		what += "Runs differ in the configuration."
	}
	return strings.TrimSpace(strings.TrimSpace(what) + "\n\n" + h.choice())
}

// choice says what the headline figures are about.
func (h headline) choice() string {
	s := h.set
	if h.chosen < 0 {
		return ""
	}
	name, urgent := code(s.labels[h.chosen]), "the most urgent"
	if len(s.bands) > 0 {
		urgent = s.bands[len(s.bands)-1]
	}
	if h.inTime {
		return fmt.Sprintf("The figures below are those of %s against %s: of all that keep the response of %s jobs within 2 %%, it wastes least.", name, code(s.refName), urgent)
	}
	return fmt.Sprintf("The figures below are those of %s against %s. It wastes least, but nothing here keeps the response of %s jobs within 2 %%.", name, code(s.refName), urgent)
}

func (h headline) figures() []report.Figure {
	s, ref := h.set, h.set.reference
	if h.chosen < 0 {
		return append([]report.Figure{{
			Value: percent(wasteShare(ref)), Label: "of the CPU time is wasted",
			Note: coreHours(wasted(ref)) + " core-hours" + s.published.note(publishedWaste(ref)),
		}}, h.lonely()...)
	}
	r := s.results[h.chosen]
	figures := []report.Figure{{
		Value: percent(wasteShare(r)), Label: "of the CPU time is wasted, instead of " + percent(wasteShare(ref)),
		Note: coreHours(wasted(r)) + " instead of " + coreHours(wasted(ref)) + " core-hours", Tone: tone(wasteShare(r), wasteShare(ref)),
	}}
	for k := len(s.bands) - 1; k >= 0; k-- {
		if k > 0 && k < len(s.bands)-1 {
			continue
		}
		b := s.bands[k]
		figures = append(figures, report.Figure{
			Value: change(response(r, b), response(ref, b)), Label: "mean response of " + b + " jobs",
			Note: report.Seconds(response(r, b)) + " instead of " + report.Seconds(response(ref, b)),
			Tone: tone(response(r, b), response(ref, b)*1.02),
		})
	}
	if r.Reading != nil && ref.Reading != nil {
		figures = append(figures, report.Figure{
			Value: report.Percent(fromMemory(r.Reading)), Label: "of inputs read from memory, instead of " + report.Percent(fromMemory(ref.Reading)),
			Note: report.Seconds(r.Reading.Time) + " to read, on average, instead of " + report.Seconds(ref.Reading.Time),
			Tone: tone(fromMemory(ref.Reading), fromMemory(r.Reading)),
		})
	}
	return append(figures, report.Figure{
		Value: change(energy(r), energy(ref)), Label: "energy of all nodes",
		Note: unitEnergy.Format(energy(r)) + " instead of " + unitEnergy.Format(energy(ref)), Tone: tone(energy(r), energy(ref)*1.005),
	})
}

// lonely returns the figures of a single result.
func (h headline) lonely() []report.Figure {
	s, r := h.set, h.set.reference
	figures := []report.Figure{{Value: unitEnergy.Format(energy(r)), Label: "drawn by all nodes", Note: report.Percent(r.Energy.Utilisation) + " busy on average"}}
	for k := len(s.bands) - 1; k >= 0; k-- {
		figures = append(figures, report.Figure{Value: report.Seconds(response(r, s.bands[k])), Label: "mean response of " + s.bands[k] + " jobs"})
	}
	return figures
}

// change writes how much a differs from b: -12.0 %.
func change(a, b float64) string {
	r := ratio(a, b)
	if !(math.Abs(r-1) >= 0.0005) {
		return report.Percent(r - 1)
	}
	if r > 1 {
		return "+" + report.Percent(r-1)
	}
	return report.Percent(r - 1)
}

// tone is good when a is at most b.
func tone(a, b float64) report.Tone {
	switch {
	case math.IsNaN(a) || math.IsNaN(b):
		return report.Normal
	case a <= b:
		return report.Good
	}
	return report.Bad
}
