package report

import (
	"io"
	"math"
	"slices"
)

// A Pane is one small chart of curves.
type Pane struct {
	Title  string   `json:"title"`
	Note   string   `json:"note,omitempty"`
	Series []Series `json:"series"`
}

// Panes are small charts of curves with the same axes, to be compared with each
// other: distributions, or measures over time. Curves have many points, so that
// only few of them are marked; a spread of a point is not drawn.
type Panes struct {
	Title string `json:"title,omitempty"`
	Note  string `json:"note,omitempty"`
	X     Axis   `json:"x"`
	Y     Axis   `json:"y"`
	// Cumulative curves say how large a share (Y) of something is at most X; they
	// rise in steps.
	Cumulative bool `json:"cumulative,omitempty"`
	// Columns is how many panes stand beside each other where there is room; 0: as
	// many as there is room for.
	Columns int    `json:"columns,omitempty"`
	Panes   []Pane `json:"panes"`
}

func (c *Panes) heading() (title, note string) { return c.Title, c.Note }

func (c *Panes) summary() string {
	return summarise(c.Title, "Small charts of "+c.Y.Label+" over "+c.X.Label, "for", c.Panes, func(p Pane) string { return p.Title })
}

// levels are the shares that the data of a distribution is told for.
var levels = [...]float64{0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1}

// mostRows is how many places the data of other curves is told for.
const mostRows = 24

// Data returns a row for each curve of a distribution, with the values that some
// shares do not exceed; for other curves a row for each X, thinned out.
func (c *Panes) Data() *Table {
	if c.Cumulative {
		return c.shares()
	}
	t := &Table{Columns: []Column{{Title: c.X.Label, Align: Right}}}
	var xs []float64
	for _, p := range c.Panes {
		for _, s := range p.Series {
			name := s.Name
			if len(c.Panes) > 1 {
				name = p.Title + ": " + s.Name
			}
			t.Columns = append(t.Columns, Column{Title: name, Align: Right})
			for _, point := range s.Points {
				xs = append(xs, point.X)
			}
		}
	}
	slices.Sort(xs)
	xs = slices.CompactFunc(xs, func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })
	every := max(1, (len(xs)+mostRows-1)/mostRows)
	lines := &Lines{X: c.X, Y: c.Y}
	for i := 0; i < len(xs); i += every {
		row := []Cell{Num(xs[i], c.X.Unit)}
		for _, p := range c.Panes {
			for _, s := range p.Series {
				row = append(row, lines.cell(s, xs[i]))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (c *Panes) shares() *Table {
	t := &Table{Columns: []Column{{Title: ""}, {Title: ""}}}
	for _, level := range levels {
		t.Columns = append(t.Columns, Column{Title: c.Y.Unit.tick(level), Align: Right})
	}
	for _, p := range c.Panes {
		for _, s := range p.Series {
			row := []Cell{Str(p.Title), Str(s.Name)}
			for _, level := range levels {
				row = append(row, Num(reaches(s.Points, level), c.X.Unit))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// reaches returns the least X at which a rising curve is at least y.
func reaches(points []Point, y float64) float64 {
	least := math.NaN()
	for _, p := range points {
		if p.Y >= y-1e-9 && !(p.X >= least) {
			least = p.X
		}
	}
	return least
}

// WriteSVG writes the charts as a file of their own, width pixels wide.
func (c *Panes) WriteSVG(w io.Writer, width int) error { return writeSVG(w, c, width) }
