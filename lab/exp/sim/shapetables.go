package sim

import (
	"fmt"
	"slices"
	"strings"

	"headrace/lab/sample"
	"headrace/lab/shapes"
	"headrace/policy"
	"headrace/report"
)

var shapeHalves = []shapes.Half{shapes.Looked, shapes.Judged}

// shapeAims returns those of the policy cost, at the worst of all points.
func (r *Results) shapeAims() []sample.Aim {
	points := r.shapePoints()
	if len(points) == 0 {
		return nil
	}
	var out []sample.Aim
	for _, f := range shapeFigures {
		aim := sample.Aim{What: "cost on shapes: " + f.name, Unit: report.UnitPercent, Bound: f.bound, Value: sample.Unmeasured()}
		if values, _, worst, where := f.at(points); len(values) > 0 {
			aim.Worst(sample.SpreadOf([]float64{worst}), where.String())
		}
		out = append(out, aim)
	}
	return out
}

// shapeTables returns all of them, none where no shape was run.
func (r *Results) shapeTables() []*report.Table {
	if len(r.Shapes) == 0 {
		return nil
	}
	points := r.shapePoints()
	out := []*report.Table{shapeTable(points)}
	if t := missedTable(r.Shapes, points); len(t.Rows) > 0 {
		out = append(out, t)
	}
	return append(out, r.eachShapeTable(points), r.eachPolicyTable(points), r.faultTable(), r.shapesTable())
}

func right(title string) report.Column { return report.Column{Title: title, Align: report.Right} }

// shapeTable compares cost with the single mechanisms, by half.
func shapeTable(points []shapePoint) *report.Table {
	t := &report.Table{
		Title: "cost against the best of the single mechanisms",
		Note: "The single mechanisms are kill, suspend and checkpoint; each figure is compared with the best in that figure, seed by seed and load by load. " +
			"Half A may be looked at to find what is wrong, half B is only to judge. Missed: how many of the comparisons exceed the aim.",
		Columns: []report.Column{{Title: "figure", Flex: true}, right("aim")},
	}
	for _, h := range shapeHalves {
		t.Columns = append(t.Columns, right(string(h)+": mean"), right("worst"), report.Column{Title: "at"}, right("missed"))
	}
	for _, f := range shapeFigures {
		row := []report.Cell{report.Str(f.name), report.Str("at most " + report.Percent(f.bound))}
		for _, h := range shapeHalves {
			row = append(row, f.cells(ofHalf(points, h))...)
		}
		t.Add(row...)
	}
	return t
}

// cells are the mean, the worst, where that is, and how many are missed.
func (f shapeFigure) cells(points []shapePoint) []report.Cell {
	values, missed, worst, where := f.at(points)
	if len(values) == 0 {
		return []report.Cell{report.Str(""), report.Str(""), report.Str(""), report.Str("")}
	}
	return []report.Cell{signedCell(sample.Mean(values)), signedCell(worst), report.Str(where.String()), missedCell(missed, len(values))}
}

// signedCell shows a change.
func signedCell(v float64) report.Cell { return percentCell(v, sample.Signed) }

func percentCell(v float64, show func(float64) string) report.Cell {
	c := report.Num(v, report.UnitPercent)
	c.Text = show(v)
	return c
}

func missedCell(missed, all int) report.Cell {
	return report.Toned(fmt.Sprintf("%d of %d", missed, all), portion(all-missed, all))
}

// missedTable names the shapes on which an aim is missed.
func missedTable(all []Shape, points []shapePoint) *report.Table {
	t := &report.Table{Title: "Where cost misses an aim",
		Columns: []report.Column{{Title: "figure", Flex: true}, {Title: "shape"}, {Title: "half"}, right("missed"), right("worst"), {Title: "at"}}}
	for _, f := range shapeFigures {
		name := f.name
		for i := range all {
			values, missed, worst, where := f.at(ofShape(points, &all[i]))
			if missed == 0 {
				continue
			}
			t.Add(report.Str(name), report.Str(all[i].Name), report.Str(string(all[i].Half)), missedCell(missed, len(values)), signedCell(worst),
				report.Str(where.workloadOf.String()))
			name = ""
		}
	}
	return t
}

// eachShapeTable has all figures of each shape.
func (r *Results) eachShapeTable(points []shapePoint) *report.Table {
	t := &report.Table{
		Title:   "Each shape: cost, more than what it is compared with",
		Note:    "Means over seeds and loads, in brackets the worst.",
		Columns: []report.Column{{Title: "shape"}, {Title: "half"}},
	}
	for _, f := range shapeFigures {
		t.Columns = append(t.Columns, right(f.name))
	}
	for i := range r.Shapes {
		x := &r.Shapes[i]
		row := []report.Cell{report.Str(x.Name), report.Str(string(x.Half))}
		for _, f := range shapeFigures {
			values, _, worst, _ := f.at(ofShape(points, x))
			if len(values) == 0 {
				row = append(row, report.Str(""))
				continue
			}
			c := signedCell(sample.Mean(values))
			c.Text += " (" + sample.Signed(worst) + ")"
			row = append(row, c)
		}
		t.Add(row...)
	}
	return t
}

// eachPolicyTable has every policy beside kill, so that one sees what the best in a figure
// costs in the others.
func (r *Results) eachPolicyTable(points []shapePoint) *report.Table {
	t := &report.Table{
		Title:   "Each shape under each policy",
		Note:    "Means over seeds and loads. Responses of urgent and of all jobs are over those under kill.",
		Columns: []report.Column{{Title: "shape"}, {Title: "half"}},
	}
	for _, p := range shapePolicies {
		t.Columns = append(t.Columns, right("wasted: "+string(p)))
	}
	for _, title := range []string{"urgent: ", "all: "} {
		for _, p := range shapePolicies[1:] {
			t.Columns = append(t.Columns, right(title+string(p)))
			title = ""
		}
	}
	for i := range r.Shapes {
		of := ofShape(points, &r.Shapes[i])
		row := []report.Cell{report.Str(r.Shapes[i].Name), report.Str(string(r.Shapes[i].Half))}
		for _, p := range shapePolicies {
			row = append(row, meanCell(of, func(x shapePoint) float64 { return x.runs[p].Wasted }, report.Percent))
		}
		for _, time := range []func(*ShapeRun) float64{func(x *ShapeRun) float64 { return x.Urgent }, func(x *ShapeRun) float64 { return x.All }} {
			for _, p := range shapePolicies[1:] {
				row = append(row, meanCell(of, func(x shapePoint) float64 { return time(x.runs[p])/time(x.runs[policy.Kill]) - 1 }, sample.Signed))
			}
		}
		t.Add(row...)
	}
	return t
}

// meanCell returns the mean over the points that have a value.
func meanCell(points []shapePoint, of func(shapePoint) float64, show func(float64) string) report.Cell {
	values, _, _, _ := shapeFigure{of: of}.at(points)
	if len(values) == 0 {
		return report.Str("")
	}
	return percentCell(sample.Mean(values), show)
}

// faultTable has what the check of the invariants finds under each policy.
func (r *Results) faultTable() *report.Table {
	t := &report.Table{
		Title: "What the check of the invariants finds",
		Note: "Runs in which it finds something, as headrace sim --check does; a run ends at the first, and is made again without for its figures. " +
			"Shapes without are left out.",
		Columns: []report.Column{{Title: "shapes"}, {Title: "half"}},
	}
	for _, p := range shapePolicies {
		t.Columns = append(t.Columns, right(string(p)))
	}
	t.Columns = append(t.Columns, report.Column{Title: "the first", Flex: true})
	add := func(name string, half shapes.Half, all []Shape, always bool) {
		counts, runs, first := map[policy.Name]int{}, map[policy.Name]int{}, ""
		for i := range all {
			for _, x := range all[i].Runs {
				if x.Failure != "" {
					continue
				}
				runs[x.Policy]++
				if x.Fault != "" {
					counts[x.Policy]++
					if first == "" {
						first = x.Fault
					}
				}
			}
		}
		if !always && first == "" {
			return
		}
		row := []report.Cell{report.Str(name), report.Str(string(half))}
		for _, p := range shapePolicies {
			row = append(row, missedCell(counts[p], runs[p]))
		}
		if always {
			first = ""
		}
		t.Add(append(row, report.Str(strings.TrimPrefix(first, "sim: invariant violated ")))...)
	}
	for _, h := range shapeHalves {
		add("all", h, sample.Where(r.Shapes, func(x Shape) bool { return x.Half == h }), true)
	}
	for i := range r.Shapes {
		add(r.Shapes[i].Name, r.Shapes[i].Half, r.Shapes[i:i+1], false)
	}
	return t
}

// shapesTable says what the shapes are.
func (r *Results) shapesTable() *report.Table {
	t := &report.Table{Title: "The shapes",
		Note:    "Each at " + r.shapeLoadWords() + " of what the cluster has. Checkpoints are on ssd, nodes have as much swap as memory, where nothing else is said.",
		Columns: []report.Column{{Title: "shape"}, {Title: "half"}, {Title: "what", Flex: true}, {Title: "nodes", Flex: true}, right("seeds"), right("tasks")}}
	for i := range r.Shapes {
		x := &r.Shapes[i]
		tasks := 0
		for _, run := range x.Runs {
			tasks = max(tasks, run.Tasks)
		}
		seeds := sample.Distinct(x.Runs, func(run ShapeRun) uint64 { return run.Seed })
		t.Add(report.Str(x.Name), report.Str(string(x.Half)), report.Str(x.What), report.Str(x.Cluster), count(len(seeds)), count(tasks))
	}
	return t
}

func (r *Results) shapeLoadWords() string {
	var words []string
	for _, x := range r.Shapes {
		for _, run := range x.Runs {
			if l := fmt.Sprintf("%.0f", 100*run.Load); !slices.Contains(words, l) {
				words = append(words, l)
			}
		}
	}
	last := len(words) - 1
	if last > 0 {
		return strings.Join(words[:last], ", ") + " and " + words[last] + " %"
	}
	return strings.Join(words, "") + " %"
}
