package page

import (
	"fmt"

	"headrace/policy"
	"headrace/report"
	"headrace/sim"
)

// responseSection is figure 3c of checkpoint-preemption, and the distributions.
func (s set) responseSection(p *report.Page) {
	if len(s.bands) == 0 {
		return
	}
	var blocks []report.Block
	if len(s.results) > 1 {
		blocks = append(blocks, report.Block{Bars: s.responseBars()}, report.Block{Panes: s.tradeoff()})
	}
	blocks = append(blocks, report.Block{Panes: s.responsePanes()})
	for _, t := range s.responseTables() {
		blocks = append(blocks, report.Block{Table: t})
	}
	p.Add("How long jobs take", blocks...)
}

func (s set) responseBars() *report.Bars {
	bars := &report.Bars{
		Title: "Mean response of jobs, against " + s.refName,
		Note: "A bar that ends left of the dotted line is a band of priorities whose jobs are done sooner than under " + s.refName +
			"; one that ends right of it pays for the others.",
		Rows: s.labels, Targets: "published for checkpoint on nvm", OneScale: true,
	}
	for _, b := range s.bands {
		g := s.group(column{b, report.UnitRatio, report.Lower, s.toReference(func(r *sim.Result) float64 { return response(r, b) })}, true)
		g.Targets = s.values(func(r *sim.Result) float64 {
			if r == s.reference {
				return missing
			}
			return s.published.of(publishedResponse(r, b))
		})
		bars.Groups = append(bars.Groups, g)
	}
	return bars
}

// responsePanes returns the distributions, bands by media.
func (s set) responsePanes() *report.Panes {
	facets := s.facets()
	panes := &report.Panes{
		Title: "Distribution of response",
		Note: "Each curve says how large a share of a band's jobs is done within a time, on a logarithmic scale: " +
			"the further left and up, the better. Where curves lie on each other, the policy makes no difference.",
		X: report.Axis{Label: "response of jobs", Unit: report.UnitSeconds, Log: true}, Y: report.Axis{Label: "share of the jobs", Unit: report.UnitPercent},
		Cumulative: true, Columns: len(facets),
	}
	pane := func(b string, f facet) {
		pane := report.Pane{Title: b}
		if len(facets) > 1 {
			pane.Title += ", " + f.name
		}
		for i, r := range f.results {
			pane.Note = many(r.Band(b).Jobs, "job")
			pane.Series = append(pane.Series, report.Series{Name: f.names[i], Points: cumulative(r.Band(b).Response)})
		}
		panes.Panes = append(panes.Panes, pane)
	}
	// Either all media of a band stand beside each other, or all bands of a medium.
	if len(facets) > 1 && len(facets) <= 3 {
		for _, b := range s.bands {
			for _, f := range facets {
				pane(b, f)
			}
		}
		return panes
	}
	panes.Columns = len(s.bands)
	for _, f := range facets {
		for _, b := range s.bands {
			pane(b, f)
		}
	}
	return panes
}

// cumulative returns the curve of a distribution.
func cumulative(s sim.Spread) []report.Point {
	points := make([]report.Point, len(s.At))
	for i, v := range s.At {
		points[i] = report.Point{X: v, Y: 1}
		if len(s.At) > 1 {
			points[i].Y = float64(i) / float64(len(s.At)-1)
		}
	}
	return points
}

// adaptiveSection is figure 5 of checkpoint-preemption.
func (s set) adaptiveSection(p *report.Page) {
	bars := &report.Bars{
		Title: "How much sooner jobs are done under adaptive than under checkpoint",
		Note: "Adaptive kills what a checkpoint would cost more than it saves. Each bar is by how much that shortens the mean response, on the same medium; " +
			"left of the line it makes it longer.",
		Targets: "published", OneScale: true,
	}
	for _, b := range s.bands {
		bars.Groups = append(bars.Groups, report.BarGroup{Title: b, Unit: report.UnitPercent, Better: report.Higher})
	}
	for _, medium := range s.media {
		adaptive, checkpoint := s.find(policy.Adaptive, medium), s.find(policy.Checkpoint, medium)
		if adaptive == nil || checkpoint == nil {
			continue
		}
		bars.Rows = append(bars.Rows, fmt.Sprintf("%s on %s", policy.Adaptive, medium))
		for i, b := range s.bands {
			g := &bars.Groups[i]
			g.Values = append(g.Values, 1-ratio(response(adaptive, b), response(checkpoint, b)))
			g.Targets = append(g.Targets, s.published.of(-publishedChange(policy.Adaptive, policy.Checkpoint, medium, b)))
		}
	}
	if len(bars.Rows) > 0 && len(bars.Groups) > 0 {
		p.Add("Adaptive against checkpoint", report.Block{Bars: bars})
	}
}
