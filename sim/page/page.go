package page

import (
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

// Page returns the whole report: headline figures, charts with a sentence on how to
// read each, all of Tables, and the configuration.
func Page(results []*sim.Result, about About) *report.Page {
	s := newSet(results)
	p := &report.Page{Title: "What would it do on this cluster?", Facts: about.Facts}
	if len(s.results) == 0 {
		p.Intro = "There are no results to show."
		return p
	}
	h := newHeadline(s)
	p.Intro, p.Figures = h.intro(), h.figures()
	s.compare(p)
	workloadSection(p, about.Workload)
	s.clusters().section(p, about, s.reads())
	return p
}

// Compare adds to p what Page has to compare results with each other, and with what was
// published.
func Compare(p *report.Page, results []*sim.Result) {
	if s := newSet(results); len(s.results) > 0 {
		s.compare(p)
	}
}

func (s set) compare(p *report.Page) {
	s.readingSection(p)
	s.wasteSection(p)
	s.responseSection(p)
	s.adaptiveSection(p)
	s.preemptionSection(p)
	s.timeSection(p)
	s.ioSection(p)
	s.publishedSection(p)
}
