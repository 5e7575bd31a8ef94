package report

import (
	"encoding/json"
	"io"
	"math"
)

// A BarGroup is one measure: a value for every row of Bars.
type BarGroup struct {
	Title  string
	Unit   Unit
	Better Better
	// Values belong to Bars.Rows; NaN, or nothing at the end, means not measured.
	Values []float64
	// Min and Max are the spread of repeated measurements; both may be nil.
	Min, Max []float64
	// Targets are values to compare with, such as published ones; 0 or NaN: none.
	Targets []float64
	// Line is a value that all rows are compared with, drawn through them; 0: none.
	Line float64
}

type barGroupJSON struct {
	Title  string   `json:"title"`
	Unit   Unit     `json:"unit,omitempty"`
	Better Better   `json:"better,omitempty"`
	Values []number `json:"values"`
	Min    []number `json:"min,omitempty"`
	Max    []number `json:"max,omitempty"`

	Targets []number `json:"targets,omitempty"`
	Line    float64  `json:"line,omitempty"`
}

// MarshalJSON writes values that are not finite as null.
func (g BarGroup) MarshalJSON() ([]byte, error) {
	j := barGroupJSON{g.Title, g.Unit, g.Better, numbers(g.Values), numbers(g.Min), numbers(g.Max), numbers(g.Targets), 0}
	if finite(g.Line) {
		j.Line = g.Line
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads null as NaN.
func (g *BarGroup) UnmarshalJSON(data []byte) error {
	var j barGroupJSON
	err := json.Unmarshal(data, &j)
	*g = BarGroup{j.Title, j.Unit, j.Better, floats(j.Values), floats(j.Min), floats(j.Max), floats(j.Targets), j.Line}
	return err
}

func at(values []float64, i int) float64 {
	if i < len(values) {
		return values[i]
	}
	return math.NaN()
}

// Bars compare the same rows (policies) by several measures, each with a scale
// of its own unless OneScale is set.
type Bars struct {
	Title  string     `json:"title,omitempty"`
	Note   string     `json:"note,omitempty"`
	Rows   []string   `json:"rows"`
	Groups []BarGroup `json:"groups"`
	// Targets says what the targets of the groups are.
	Targets string `json:"targets,omitempty"`
	// OneScale: the measures are one in several places (bands of priorities), so that bars
	// of one length are to mean the same in all of them.
	OneScale bool `json:"oneScale,omitempty"`
}

// target returns a value to compare the row with, and false when there is none.
func (g BarGroup) target(r int) (float64, bool) {
	v := at(g.Targets, r)
	return v, drawable(v) && v != 0
}

func (c *Bars) hasTargets() bool {
	for _, g := range c.Groups {
		for r := range c.Rows {
			if _, ok := g.target(r); ok {
				return true
			}
		}
	}
	return false
}

func (c *Bars) heading() (title, note string) { return c.Title, c.Note }

func (c *Bars) summary() string {
	return summarise(c.Title, "Bars", "of", c.Groups, func(g BarGroup) string {
		if best, ok := g.Better.best(g.Values); ok {
			return g.Title + " (best " + g.Unit.Format(best) + ")"
		}
		return g.Title
	})
}

// Data returns a row for each row and a column for each measure.
func (c *Bars) Data() *Table {
	t := &Table{Columns: []Column{{Title: ""}}}
	for _, g := range c.Groups {
		t.Columns = append(t.Columns, Column{Title: g.Title, Align: Right, Better: g.Better})
	}
	for r, name := range c.Rows {
		row := []Cell{Str(name)}
		for _, g := range c.Groups {
			cell := Num(at(g.Values, r), g.Unit)
			if lo, hi := at(g.Min, r), at(g.Max, r); finite(lo) && finite(hi) && lo < hi {
				cell.Text += " (" + g.Unit.Format(lo) + " to " + g.Unit.Format(hi) + ")"
			}
			if v, ok := g.target(r); ok {
				cell.Text += " (" + c.Targets + ": " + g.Unit.Format(v) + ")"
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// WriteSVG writes the chart as a file of its own, width pixels wide.
func (c *Bars) WriteSVG(w io.Writer, width int) error { return writeSVG(w, c, width) }

// The measures of drawn bars, in pixels.
const (
	barRow      = 24.0
	barHeight   = 14.0
	barHead     = 40.0
	groupGap    = 26.0
	leastGroup  = 138.0
	groupsBelow = 22.0
)

// draw puts the measures beside each other, as many as the width allows; the
// names of the rows stand at the left of each line of measures.
func (c *Bars) draw(width float64, s *styles) drawing {
	var b svg
	gutter := 30.0
	for _, name := range c.Rows {
		gutter = max(gutter, pixels(clean(name), 13)+14)
	}
	gutter = min(gutter, width*0.3)
	abreast := max(1, int((width-gutter+groupGap)/(leastGroup+groupGap)))
	abreast = min(abreast, max(len(c.Groups), 1))
	if n := len(c.Groups); n > abreast {
		lines := (n + abreast - 1) / abreast
		abreast = (n + lines - 1) / lines
	}
	each := (width - gutter - groupGap*float64(abreast-1)) / float64(abreast)
	y := 0.0
	if c.hasTargets() {
		y = b.legend(0, width, []key{b.targetKey(c.Targets)}) + 8
	}
	start := y
	for first := 0; first < len(c.Groups); first += abreast {
		bottom := y + barHead + barRow*float64(len(c.Rows))
		for r, name := range c.Rows {
			mid := y + barHead + barRow*(float64(r)+0.5)
			b.name("name", atEnd, gutter-10, mid+4.5, 13, gutter-12, name)
		}
		for i := first; i < min(first+abreast, len(c.Groups)); i++ {
			left := gutter + float64(i-first)*(each+groupGap)
			c.group(&b, c.Groups[i], s, left, each, y)
		}
		y = bottom + groupsBelow
	}
	if y == start {
		b.nothing(width/2, y+20)
		y += 30 + groupsBelow
	}
	return drawing{width: width, height: y - groupsBelow + 4, body: b.String()}
}

func (c *Bars) group(b *svg, g BarGroup, s *styles, left, width, y float64) {
	b.name("strong", atStart, left, y+12, 13.4, width+groupGap-6, g.Title)
	if g.Better == Lower || g.Better == Higher {
		b.text("small muted", atStart, left, y+27, string(g.Better)+" is better")
	}
	best, hasBest := g.Better.best(g.Values)
	x := c.scale(g, left, width)
	zero := x.at(0)
	top := y + barHead
	if drawable(g.Line) && g.Line != 0 {
		b.line("flag soft", x.at(g.Line), top-3, x.at(g.Line), top+barRow*float64(len(c.Rows)))
	}
	for r, name := range c.Rows {
		v, mid := at(g.Values, r), top+barRow*(float64(r)+0.5)
		text := g.Unit.Format(v)
		b.open(s.of(name).class, clean(name)+", "+clean(g.Title)+": "+text+g.spread(r))
		edge := zero
		if drawable(v) {
			edge = x.at(v)
			b.rect("fill", min(zero, edge), mid-barHeight/2, math.Abs(edge-zero), barHeight, 0)
			edge = max(g.whisker(b, x, r, mid), edge, zero)
		}
		if v, ok := g.target(r); ok {
			b.target(x.at(v), mid, barHeight+4)
			edge = max(edge, x.at(v)+2)
		}
		class := ""
		if hasBest && v == best {
			class = "strong"
		}
		if g.Line != 0 {
			class += " halo"
		}
		b.text(class, atStart, edge+6, mid+4, fit(clean(text), 12, left+width+groupGap-edge-6))
		b.end()
	}
	b.line("base", zero, top, zero, top+barRow*float64(len(c.Rows)))
	b.WriteString("\n")
}

// scale returns that of g. It has zero in it and leaves room for the label beyond the longest bar.
func (c *Bars) scale(g BarGroup, left, width float64) scale {
	sharing := []BarGroup{g}
	if c.OneScale {
		sharing = c.Groups
	}
	lo, hi, label := 0.0, 0.0, 0.0
	for _, g := range sharing {
		for r := range c.Rows {
			for _, v := range [...]float64{at(g.Values, r), at(g.Min, r), at(g.Max, r), at(g.Targets, r), g.Line} {
				if drawable(v) {
					lo, hi = min(lo, v), max(hi, v)
				}
			}
			label = max(label, pixels(g.Unit.Format(at(g.Values, r)), 12.5))
		}
	}
	if lo == hi {
		hi = 1
	}
	return scale{min: lo, max: hi, from: left, to: left + max(width-label-8, width*0.3)}
}

// spread says the least and the greatest of repeated measurements.
func (g BarGroup) spread(r int) string {
	lo, hi := at(g.Min, r), at(g.Max, r)
	if !drawable(lo) || !drawable(hi) || lo >= hi {
		return ""
	}
	return " (" + g.Unit.Format(lo) + " to " + g.Unit.Format(hi) + ")"
}

// whisker draws the spread and returns its right end.
func (g BarGroup) whisker(b *svg, x scale, r int, mid float64) float64 {
	if g.spread(r) == "" {
		return math.Inf(-1)
	}
	from, to := x.at(at(g.Min, r)), x.at(at(g.Max, r))
	if to-from < 2 {
		return math.Inf(-1)
	}
	b.line("whisker", from, mid, to, mid)
	b.line("whisker", from, mid-3, from, mid+3)
	b.line("whisker", to, mid-3, to, mid+3)
	return to
}
