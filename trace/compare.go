package trace

import (
	"headrace"
	"headrace/paper"
	"headrace/trace/workload"
)

// Comparison sets a number of ours beside the published one. Numbers with the unit
// "%" are percentages.
type Comparison struct {
	What      string  `json:"what"`
	Unit      string  `json:"unit,omitempty"`
	Published float64 `json:"published"`
	Ours      float64 `json:"ours"`
	// Source is the section, table or figure of the paper. Derived: what is compared
	// with is not published as such but follows from what is.
	Source  string `json:"source"`
	Derived bool   `json:"derived,omitempty"`
}

// comparisons collects them.
type comparisons []Comparison

func (c *comparisons) add(what, unit string, published, ours float64, source string) {
	*c = append(*c, Comparison{What: what, Unit: unit, Published: published, Ours: ours, Source: source})
}

func (c *comparisons) derived(what, unit string, published, ours float64, source string) {
	c.add(what, unit, published, ours, source)
	(*c)[len(*c)-1].Derived = true
}

// CompareWorkload compares what a workload asks for with the published day, whose
// size is taken times the scale with which it was generated.
func CompareWorkload(w *workload.Workload, scale float64) []Comparison {
	p := paper.GoogleDay()
	byBand, byClass := make([]float64, len(p.Bands)), make([]float64, len(p.Classes))
	cores, coreHours := 0.0, 0.0
	for i := range w.Tasks {
		t := &w.Tasks[i]
		byBand[publishedBand(t.Priority)]++
		byClass[t.Class]++
		cores += float64(t.CPUs)
		coreHours += float64(t.CPUs) * t.Run.Hours()
	}
	var c comparisons
	c.add("jobs", "", float64(p.Jobs)*scale, float64(len(w.Jobs)), "section 3.3.2")
	c.add("tasks", "", float64(p.Tasks)*scale, float64(len(w.Tasks)), "section 3.3.2")
	c.add("cores, sum of what tasks ask for", "cores", p.Cores*scale, cores, "section 3.3.2")
	c.derived("useful work", "core-hours", p.UsefulCoreHours()*scale, coreHours, "section 3.3.2")
	for i, share := range p.BandTasks() {
		c.derived("share of tasks, "+p.Bands[i].Name, "%", 100*share, percent(byBand[i], float64(len(w.Tasks))), "table 1")
	}
	for i, share := range p.ClassTasks() {
		c.derived("share of tasks, latency class "+p.Classes[i].Name, "%", 100*share, percent(byClass[i], float64(len(w.Tasks))), "table 2")
	}
	return c
}

// CompareOutcome compares what became of tasks under killing with what is
// published. Used and wasted are all the time of CPUs that was held and the part
// of it that was wasted, in core-hours, for the published day's size divided by
// scale; with 0 used, waste is not compared.
func CompareOutcome(o *workload.Outcome, used, wasted, scale float64) []Comparison {
	p := paper.GoogleDay()
	bands, classes := make([]workload.Preempted, len(p.Bands)), o.ByClass
	var all workload.Preempted
	for i, v := range o.ByPriority {
		addPreempted(&bands[publishedBand(headrace.Priority(i))], v)
		addPreempted(&all, v)
	}
	var c comparisons
	if used > 0 {
		c.add("wasted by killing", "core-hours", p.WastedCoreHours*scale, wasted, "section 3.3.2")
		c.add("share wasted by killing", "%", 100*p.WasteShare, percent(wasted, used), "section 3.3.2, figure 3a")
	}
	c.add("schedulings preempted", "%", 100*p.Preempted, schedulingsPreempted(all), "section 2")
	for i, r := range p.Bands {
		c.add("schedulings preempted, "+r.Name, "%", 100*r.Preempted, schedulingsPreempted(bands[i]), "table 1")
	}
	for i, r := range p.Classes {
		if i < len(classes) {
			c.add("schedulings preempted, latency class "+r.Name, "%", 100*r.Preempted, schedulingsPreempted(classes[i]), "table 2")
		}
	}
	c.add("preemptions that are of the free band, at least", "%", 100*p.FreeShare, percent(float64(bands[0].Preemptions), float64(all.Preemptions)), "figure 1b")
	once, ever, often := 0.0, 0.0, 0.0
	for times, n := range o.Times {
		if times >= 1 {
			ever += float64(n)
		}
		if times == 1 {
			once = float64(n)
		}
		if times >= workload.OftenTimes {
			often += float64(n)
		}
	}
	c.add("preempted tasks preempted more than once", "%", 100*p.Repeated, percent(ever-once, ever), "figure 1c")
	c.add("preempted tasks preempted ten times or more", "%", 100*p.Often, percent(often, ever), "figure 1c")
	return c
}

func publishedBand(p headrace.Priority) int {
	switch p.Band() {
	case "free":
		return 0
	case "middle":
		return 1
	}
	return 2
}

func addPreempted(to *workload.Preempted, p workload.Preempted) {
	to.Tasks += p.Tasks
	to.Preempted += p.Preempted
	to.Preemptions += p.Preemptions
	to.Scheduled += p.Scheduled
}

// schedulingsPreempted returns the percentage of schedulings that ended with a
// preemption. Where schedulings are not counted there was one for each task, and
// one for each preemption.
func schedulingsPreempted(p workload.Preempted) float64 {
	scheduled := p.Scheduled
	if scheduled == 0 {
		scheduled = p.Tasks + p.Preemptions
	}
	return percent(float64(p.Preemptions), float64(scheduled))
}

func percent(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * part / whole
}
