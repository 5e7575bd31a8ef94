package report

import (
	"encoding/json"
	"io"
	"math"
)

// A Part is one of the things that every stack is made of. Its Kind gives the
// colour.
type Part struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
}

// A Stack is a row of Stacks: one bar made of parts.
type Stack struct {
	Name string
	// Values belong to Stacks.Parts; what is not above zero is not drawn.
	Values []float64
	// Target is a value to compare the whole with, such as a published one; 0 or
	// NaN: none.
	Target float64
	// Label stands behind the whole.
	Label string
}

type stackJSON struct {
	Name   string   `json:"name"`
	Values []number `json:"values"`
	Target *number  `json:"target,omitempty"`
	Label  string   `json:"label,omitempty"`
}

// MarshalJSON writes values that are not finite as null.
func (s Stack) MarshalJSON() ([]byte, error) {
	j := stackJSON{Name: s.Name, Values: numbers(s.Values), Label: s.Label}
	if s.Target != 0 && finite(s.Target) {
		target := number(s.Target)
		j.Target = &target
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads null as NaN.
func (s *Stack) UnmarshalJSON(data []byte) error {
	var j stackJSON
	err := json.Unmarshal(data, &j)
	*s = Stack{Name: j.Name, Values: floats(j.Values), Label: j.Label}
	if j.Target != nil {
		s.Target = float64(*j.Target)
	}
	return err
}

// whole returns the sum of the parts, NaN when none is known.
func (s Stack) whole() float64 {
	sum, known := 0.0, false
	for _, v := range s.Values {
		if drawable(v) {
			sum, known = sum+max(v, 0), true
		}
	}
	if !known {
		return math.NaN()
	}
	return sum
}

func (s Stack) hasTarget() bool { return drawable(s.Target) && s.Target > 0 }

// Stacks show what the same whole is made of in several cases (policies): one
// bar for each, with one scale.
type Stacks struct {
	Title  string  `json:"title,omitempty"`
	Note   string  `json:"note,omitempty"`
	Unit   Unit    `json:"unit,omitempty"`
	Better Better  `json:"better,omitempty"`
	Parts  []Part  `json:"parts"`
	Rows   []Stack `json:"rows"`
	// Targets says what the targets of the rows are.
	Targets string `json:"targets,omitempty"`
}

func (c *Stacks) heading() (title, note string) { return c.Title, c.Note }

func (c *Stacks) wholes() []float64 {
	wholes := make([]float64, len(c.Rows))
	for i, row := range c.Rows {
		wholes[i] = row.whole()
	}
	return wholes
}

func (c *Stacks) summary() string {
	return summarise(c.Title, "Stacked bars", "of", c.Rows, func(r Stack) string { return r.Name + " (" + c.Unit.Format(r.whole()) + ")" })
}

// Data returns a row for each stack and a column for each part.
func (c *Stacks) Data() *Table {
	t := &Table{Columns: []Column{{Title: ""}, {Title: "all", Align: Right, Better: c.Better}}}
	targets := false
	for _, row := range c.Rows {
		targets = targets || row.hasTarget()
	}
	for _, p := range c.Parts {
		t.Columns = append(t.Columns, Column{Title: p.Name, Align: Right})
	}
	if targets {
		t.Columns = append(t.Columns, Column{Title: c.Targets, Align: Right})
	}
	for _, row := range c.Rows {
		cells := []Cell{Str(row.Name), Num(row.whole(), c.Unit)}
		for i := range c.Parts {
			cells = append(cells, Num(at(row.Values, i), c.Unit))
		}
		if targets && row.hasTarget() {
			cells = append(cells, Num(row.Target, c.Unit))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// WriteSVG writes the chart as a file of its own, width pixels wide.
func (c *Stacks) WriteSVG(w io.Writer, width int) error { return writeSVG(w, c, width) }

func (c *Stacks) draw(width float64, _ *styles) drawing {
	var b svg
	y := b.legend(0, width, c.keys(&b)) + 10
	gutter, greatest, label := 30.0, 0.0, 0.0
	for _, row := range c.Rows {
		gutter = max(gutter, pixels(clean(row.Name), 13)+14)
		if whole := row.whole(); drawable(whole) {
			greatest = max(greatest, whole)
		}
		if row.hasTarget() {
			greatest = max(greatest, row.Target)
		}
		label = max(label, pixels(c.Unit.Format(row.whole()), 12.5)+pixels(clean(row.Label), 12)+20)
	}
	if greatest == 0 {
		greatest = 1
	}
	gutter = min(gutter, width*0.35)
	x := scale{max: greatest, from: gutter, to: max(width-label, gutter+width*0.3)}
	if len(c.Rows) == 0 {
		b.nothing(width/2, y+10)
		return drawing{width: width, height: y + 30, body: b.String()}
	}
	bottom := y + barRow*float64(len(c.Rows))
	c.axis(&b, x, y, bottom)
	best, hasBest := c.Better.best(c.wholes())
	for i, row := range c.Rows {
		mid := y + barRow*(float64(i)+0.5)
		b.name("name", atEnd, gutter-10, mid+4.5, 13, gutter-12, row.Name)
		edge := c.row(&b, row, x, mid)
		class := ""
		if hasBest && row.whole() == best {
			class = "strong"
		}
		whole := c.Unit.Format(row.whole())
		b.text(class, atStart, edge+6, mid+4, whole)
		if row.Label != "" {
			behind := edge + 14 + pixels(whole, 12.5)
			b.name("muted", atStart, behind, mid+4, 12, width-behind, row.Label)
		}
	}
	return drawing{width: width, height: bottom + 24, body: b.String()}
}

// keys returns the parts that some stack has, and the target.
func (c *Stacks) keys(b *svg) []key {
	var keys []key
	for i, p := range c.Parts {
		for _, row := range c.Rows {
			if v := at(row.Values, i); drawable(v) && v > 0 {
				keys = append(keys, key{p.Name, func(x, y float64) { b.piece(p.Kind, x, y-6, 18, 12) }})
				break
			}
		}
	}
	for _, row := range c.Rows {
		if row.hasTarget() {
			return append(keys, b.targetKey(c.Targets))
		}
	}
	return keys
}

func (c *Stacks) axis(b *svg, x scale, top, bottom float64) {
	a := Axis{Unit: c.Unit}
	ticks := a.ticks(x.min, x.max, int(max((x.to-x.from)/80, 2)))
	shown := thin(ticks, x, c.Unit.tick, 12, 8)
	for i, v := range ticks {
		b.line("grid", x.at(v), top, x.at(v), bottom)
		if shown[i] {
			b.text("muted", atMiddle, x.at(v), bottom+16, c.Unit.tick(v))
		}
	}
	b.line("base", x.from, top, x.from, bottom)
	b.WriteString("\n")
}

// row draws one stack and returns where it ends.
func (c *Stacks) row(b *svg, row Stack, x scale, mid float64) float64 {
	sum, edge := 0.0, x.from
	for i, p := range c.Parts {
		v := at(row.Values, i)
		if !drawable(v) || v <= 0 {
			continue
		}
		sum += v
		next := x.at(sum)
		b.open("", clean(row.Name)+", "+clean(p.Name)+": "+c.Unit.Format(v))
		b.piece(p.Kind, edge, mid-barHeight/2, next-edge, barHeight)
		b.end()
		edge = next
	}
	if row.hasTarget() {
		b.open("", clean(row.Name)+", "+clean(c.Targets)+": "+c.Unit.Format(row.Target))
		b.target(x.at(row.Target), mid, barHeight+4)
		b.end()
		edge = max(edge, x.at(row.Target)+2)
	}
	return edge
}

// piece fills a rectangle as its kind is filled everywhere on a page.
func (b *svg) piece(k Kind, x, y, w, h float64) {
	class := map[Kind]string{
		Running: "c-run", Suspended: "c-suspend", Checkpointing: "c-checkpoint", Checkpointed: "c-checkpoint", Restoring: "c-checkpoint",
	}[k]
	switch k {
	case Lost:
		b.rect("lost", x, y, w, h, 0)
		return
	case Restoring:
		b.rect("restoring", x, y, w, h, 0)
		return
	}
	if class == "" {
		class = "c-wait"
	}
	b.WriteString("<g" + classes(class) + ">")
	b.rect("fill", x, y, w, h, 0)
	b.WriteString("</g>")
}
