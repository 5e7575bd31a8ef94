package report

import (
	"encoding/json"
	"io"
	"math"
	"slices"
)

// A Point is one measurement. A Y that is NaN interrupts the line. Min and Max
// are the spread of repeated measurements; both zero means none.
type Point struct {
	X, Y, Min, Max float64
}

type pointJSON struct {
	X   number  `json:"x"`
	Y   number  `json:"y"`
	Min *number `json:"min,omitempty"`
	Max *number `json:"max,omitempty"`
}

// MarshalJSON writes values that are not finite as null, and leaves out a
// spread that is not.
func (p Point) MarshalJSON() ([]byte, error) {
	j := pointJSON{X: number(p.X), Y: number(p.Y)}
	if (p.Min != 0 || p.Max != 0) && finite(p.Min) && finite(p.Max) {
		lo, hi := number(p.Min), number(p.Max)
		j.Min, j.Max = &lo, &hi
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads null as NaN.
func (p *Point) UnmarshalJSON(data []byte) error {
	j := pointJSON{X: number(math.NaN()), Y: number(math.NaN())}
	err := json.Unmarshal(data, &j)
	*p = Point{X: float64(j.X), Y: float64(j.Y)}
	if j.Min != nil && j.Max != nil {
		p.Min, p.Max = float64(*j.Min), float64(*j.Max)
	}
	return err
}

func (p Point) spread() bool {
	return drawable(p.Min) && drawable(p.Max) && p.Min < p.Max
}

// A Series is one line. Points are drawn in the order of X.
type Series struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
}

// Lines show how measures depend on something.
type Lines struct {
	Title  string   `json:"title,omitempty"`
	Note   string   `json:"note,omitempty"`
	X      Axis     `json:"x"`
	Y      Axis     `json:"y"`
	Better Better   `json:"better,omitempty"`
	Series []Series `json:"series"`
	// Markers are places on the X axis that a reader knows, such as "disk".
	Markers []Marker `json:"markers,omitempty"`
}

func (c *Lines) heading() (title, note string) { return c.Title, c.Note }

func (c *Lines) summary() string {
	return summarise(c.Title, "Lines of "+c.Y.Label+" over "+c.X.Label, "for", c.Series, func(l Series) string { return l.Name })
}

// Data returns a row for each X and a column for each series.
func (c *Lines) Data() *Table {
	t := &Table{Columns: []Column{{Title: c.X.Label, Align: Right}}}
	var xs []float64
	for _, s := range c.Series {
		t.Columns = append(t.Columns, Column{Title: s.Name, Align: Right})
		for _, p := range s.Points {
			xs = append(xs, p.X)
		}
	}
	slices.Sort(xs)
	xs = slices.CompactFunc(xs, func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })
	for _, x := range xs {
		row := []Cell{Num(x, c.X.Unit)}
		for _, s := range c.Series {
			row = append(row, c.cell(s, x))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (c *Lines) cell(s Series, x float64) Cell {
	for _, p := range s.Points {
		if p.X == x || math.IsNaN(p.X) && math.IsNaN(x) {
			cell := Num(p.Y, c.Y.Unit)
			if p.spread() {
				cell.Text += " (" + c.Y.Unit.Format(p.Min) + " to " + c.Y.Unit.Format(p.Max) + ")"
			}
			return cell
		}
	}
	return Str("")
}

// sorted returns the points that have a place on the X axis, in its order.
func (c *Lines) sorted(s Series) []Point {
	points := make([]Point, 0, len(s.Points))
	for _, p := range s.Points {
		if c.X.holds(p.X) {
			points = append(points, p)
		}
	}
	slices.SortStableFunc(points, func(a, b Point) int {
		switch {
		case a.X < b.X:
			return -1
		case a.X > b.X:
			return 1
		}
		return 0
	})
	return points
}

// WriteSVG writes the chart as a file of its own, width pixels wide.
func (c *Lines) WriteSVG(w io.Writer, width int) error { return writeSVG(w, c, width) }
