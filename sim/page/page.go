package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"headrace/policy"
	"headrace/report"
	"headrace/sim"
	"headrace/trace"
)

// About is what a reader wants to know that is not in the results. All of it may be
// left out.
type About struct {
	// Measured says where the speeds of the media and the costs come from, and
	// Sources how each medium was measured, by its name.
	Measured string            `json:"measured,omitempty"`
	Sources  map[string]string `json:"sources,omitempty"`
	// Workload describes what was run.
	Workload *trace.Description `json:"workload,omitempty"`
	// Facts stand at the end of the page: the command, the version, the date.
	Facts []report.Fact `json:"facts,omitempty"`
}

// Page is the whole report: headline figures, charts with a sentence on how to read
// each, all of Tables, and the configuration.
func Page(results []*sim.Result, about About) *report.Page {
	s := newSet(results)
	p := &report.Page{Title: "What would it do on this cluster?", Facts: about.Facts}
	if len(s.results) == 0 {
		p.Intro = "There are no results to show."
		return p
	}
	p.Intro = s.intro()
	p.Figures = s.figures()
	s.readingSection(p)
	s.wasteSection(p)
	s.responseSection(p)
	s.adaptiveSection(p)
	s.preemptionSection(p)
	s.timeSection(p)
	s.ioSection(p)
	s.publishedSection(p)
	s.workloadSection(p, about.Workload)
	s.configSection(p, about)
	return p
}

// intro says what was simulated.
func (s set) intro() string {
	r := s.results[0]
	what := fmt.Sprintf("The workload %s, %s in %s, on %s. ",
		code(r.Workload), many(r.Tasks, "task"), many(r.Jobs, "job"), s.cluster())
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
	return strings.TrimSpace(strings.TrimSpace(what) + "\n\n" + s.choice())
}

// code sets a name as code, whatever it is.
func code(name string) string { return "`" + strings.ReplaceAll(name, "`", "'") + "`" }

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(n) + " " + what + "s"
}

// grouped writes a number with commas between thousands.
func grouped(n int) string { return group(strconv.Itoa(n)) }

func group(text string) string {
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// coreHours are rounded to what a person can use.
func coreHours(v float64) string {
	if v >= 100 && v < 1e15 {
		return grouped(int(v + 0.5))
	}
	return report.UnitNone.Format(math.Round(v*100) / 100)
}

// percent has two decimals where the share is small.
func percent(v float64) string {
	if v > 0 && v < 0.0095 {
		return fine(v).Text
	}
	return report.Percent(v)
}

func (s set) cluster() string {
	c := s.results[0].Config
	return fmt.Sprintf("%s nodes with %s CPUs and %s of memory each", s.distinct(func(c sim.Config) string { return grouped(c.Nodes) }),
		report.UnitNone.Format(c.Node.CPUs), report.Bytes(c.Node.Memory))
}

// chosen is the result that the headline figures are about: of those whose most
// urgent jobs take at most 2 % longer than under the reference, the one that wastes
// least; when there is none, the one that wastes least of all. Waiting wastes
// nothing and is not what is looked for.
func (s set) chosen() (i int, inTime bool) {
	i = -1
	for k, r := range s.results {
		if r == s.reference || r.Policy == policy.Wait {
			continue
		}
		fast := s.urgent(r) <= 1.02
		if i < 0 || fast && !inTime || fast == inTime && wasteShare(r) < wasteShare(s.results[i]) {
			i, inTime = k, fast
		}
	}
	return i, inTime
}

// urgent is the response of the most urgent jobs, to the reference.
func (s set) urgent(r *sim.Result) float64 {
	if len(s.bands) == 0 {
		return missing
	}
	return s.toReference(func(r *sim.Result) float64 { return response(r, s.bands[len(s.bands)-1]) })(r)
}

// choice says what the headline figures are about.
func (s set) choice() string {
	i, inTime := s.chosen()
	if i < 0 {
		return ""
	}
	name, urgent := code(s.labels[i]), "the most urgent"
	if len(s.bands) > 0 {
		urgent = s.bands[len(s.bands)-1]
	}
	if inTime {
		return fmt.Sprintf("The figures below are those of %s against %s: of all that keep the response of %s jobs within 2 %%, it wastes least.", name, code(s.refName), urgent)
	}
	return fmt.Sprintf("The figures below are those of %s against %s. It wastes least, but nothing here keeps the response of %s jobs within 2 %%.", name, code(s.refName), urgent)
}

func (s set) figures() []report.Figure {
	ref := s.reference
	i, _ := s.chosen()
	if i < 0 {
		return append([]report.Figure{{
			Value: percent(wasteShare(ref)), Label: "of the CPU time is wasted",
			Note: coreHours(wasted(ref)) + " core-hours" + s.publishedNote(publishedWaste(ref)),
		}}, s.lonely()...)
	}
	r := s.results[i]
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

// lonely are the figures of a single result.
func (s set) lonely() []report.Figure {
	r := s.reference
	figures := []report.Figure{{Value: unitEnergy.Format(energy(r)), Label: "drawn by all nodes", Note: report.Percent(r.Energy.Utilisation) + " busy on average"}}
	for k := len(s.bands) - 1; k >= 0; k-- {
		figures = append(figures, report.Figure{Value: report.Seconds(response(r, s.bands[k])), Label: "mean response of " + s.bands[k] + " jobs"})
	}
	return figures
}

func (s set) publishedNote(v float64) string {
	if v = s.published(v); math.IsNaN(v) {
		return ""
	}
	return "; published: " + report.Percent(v)
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

// distinct lists what differs between the results' configurations.
func (s set) distinct(of func(sim.Config) string) string {
	var all []string
	seen := map[string]bool{}
	for _, r := range s.results {
		if v := of(r.Config); !seen[v] {
			seen[v] = true
			all = append(all, v)
		}
	}
	return strings.Join(all, ", ")
}
