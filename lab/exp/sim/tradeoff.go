package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"headrace/lab/sample"
	"headrace/lab/trial"
	"headrace/policy"
	"headrace/report"
)

// traded are the shapes on which the policies differ in who waits.
var traded = []string{"gpus", "gpus-bursts", "gangs", "large-gangs"}

// tradeoff shows how much longer than under kill urgent jobs take, and how much less all jobs
// do: a pane for each of the shapes, a point for each policy. Nil where none was run.
func (r *Results) tradeoff() *report.Panes {
	panes := &report.Panes{
		Title: "Who waits where tasks hold what a suspension does not free",
		Note:  "Further left: urgent jobs are sooner. Further down: all jobs are. Means over seeds and loads.",
		X:     report.Axis{Label: "mean response of urgent jobs, to kill", Unit: report.UnitRatio},
		Y:     report.Axis{Label: "mean response of all jobs, to kill", Unit: report.UnitRatio}, Columns: 2,
	}
	points := r.shapePoints()
	for i := range r.Shapes {
		x := &r.Shapes[i]
		of := ofShape(points, x)
		if !slices.Contains(traded, x.Name) || len(of) == 0 {
			continue
		}
		pane := report.Pane{Title: x.Name}
		for _, p := range shapePolicies {
			to := func(time func(*ShapeRun) float64) float64 {
				values, _, _, _ := shapeFigure{of: func(x shapePoint) float64 { return time(x.runs[p]) / time(x.runs[policy.Kill]) }}.at(of)
				return sample.Mean(values)
			}
			at := report.Point{X: to(func(x *ShapeRun) float64 { return x.Urgent }), Y: to(func(x *ShapeRun) float64 { return x.All })}
			pane.Series = append(pane.Series, report.Series{Name: string(p), Points: []report.Point{at}})
		}
		panes.Panes = append(panes.Panes, pane)
	}
	if len(panes.Panes) == 0 {
		return nil
	}
	return panes
}

// writeTradeoff writes that figure as an SVG.
func (o *Options) writeTradeoff(r *Results) error {
	panes := r.tradeoff()
	if panes == nil {
		return errors.New("bench sim: --tradeoff: the results have none of the shapes " + strings.Join(traded, ", "))
	}
	var text strings.Builder
	err := panes.WriteSVG(&text, 900)
	if err == nil {
		err = trial.WriteWhole(o.Tradeoff, []byte(text.String()))
	}
	if err != nil {
		return fmt.Errorf("bench sim: %w", err)
	}
	fmt.Fprintf(o.Stdout, "written: %s\n", o.Tradeoff)
	return nil
}
