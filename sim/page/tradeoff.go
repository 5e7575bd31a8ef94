package page

import (
	"io"

	"headrace/report"
	"headrace/sim"
)

// tradeoff returns what each policy throws away against how long the jobs of each band
// take: a pane for each band, a curve for each policy, a point on it for each result. Nil
// where there is nothing to compare.
func (s set) tradeoff() *report.Panes {
	if len(s.results) < 2 || len(s.bands) == 0 {
		return nil
	}
	panes := &report.Panes{
		Title: "What is thrown away, and who waits",
		Note:  "Further left: less is wasted. Further down: sooner done. A policy has a point for each medium.",
		X:     report.Axis{Label: "time of CPUs that was wasted", Unit: report.UnitPercent, Log: true}, Y: report.Axis{Label: "mean response of jobs, to " + s.refName, Unit: report.UnitRatio},
	}
	for _, b := range s.bands {
		pane := report.Pane{Title: b}
		to := s.toReference(func(r *sim.Result) float64 { return response(r, b) })
		at := map[string]int{}
		for _, r := range s.results {
			name := policyName(r)
			i, seen := at[name]
			if !seen {
				i = len(pane.Series)
				at[name] = i
				pane.Series = append(pane.Series, report.Series{Name: name})
			}
			pane.Series[i].Points = append(pane.Series[i].Points, report.Point{X: r.Work.WasteShare(), Y: to(r)})
		}
		panes.Panes = append(panes.Panes, pane)
	}
	return panes
}

// WriteTradeoff writes that figure as an SVG.
func WriteTradeoff(w io.Writer, results []*sim.Result) error {
	if t := newSet(results).tradeoff(); t != nil {
		return t.WriteSVG(w, 900)
	}
	return nil
}
