package report

import (
	"math"
	"slices"
)

// The measures of drawn lines, in pixels.
const (
	plotHead   = 26.0
	labelStep  = 16.0
	belowPlot  = 40.0
	markerHead = 16.0
)

func (c *Lines) draw(width float64, s *styles) drawing {
	d := linesDrawing{Lines: c, styles: s}
	var xs, ys []float64
	for _, l := range c.Series {
		for _, p := range c.sorted(l) {
			xs = append(xs, p.X)
			if c.Y.holds(p.Y) {
				ys = append(ys, p.Y)
			}
			if p.spread() && c.Y.holds(p.Min) && c.Y.holds(p.Max) {
				ys = append(ys, p.Min, p.Max)
			}
		}
	}
	height := min(max(width*0.42, 210), 320)
	top := plotHead
	if len(c.Markers) > 0 {
		top += markerHead
	}
	d.scales(xs, ys, width, top, height)
	d.axes()
	d.lines()
	d.labels(width)
	if len(ys) == 0 {
		d.b.nothing((d.x.from+d.x.to)/2, top+height/2)
	}
	return drawing{width: width, height: top + height + belowPlot, body: d.b.String()}
}

type linesDrawing struct {
	*Lines
	b      svg
	styles *styles
	x, y   scale
	yTicks []float64
}

func (d *linesDrawing) scales(xs, ys []float64, width, top, height float64) {
	d.y = scale{log: d.Y.Log, from: top + height, to: top}
	d.y.min, d.y.max = d.Y.roomy(ys, 5)
	d.yTicks = d.Y.ticks(d.y.min, d.y.max, 5)
	left := 20.0
	for _, v := range d.yTicks {
		left = max(left, pixels(d.Y.Unit.tick(v), 12)+10)
	}
	right := 20.0
	for _, l := range d.Series {
		right = max(right, pixels(clean(l.Name), 13)+34)
	}
	d.x = scale{log: d.X.Log, from: left, to: width - min(right, width*0.35)}
	d.x.min, d.x.max = d.X.tight(xs)
}

func (d *linesDrawing) axes() {
	b := &d.b
	label := d.Y.Label
	if d.Better == Lower || d.Better == Higher {
		if label != "" {
			label += ", "
		}
		label += string(d.Better) + " is better"
	}
	b.name("muted", atStart, 0, 12, 12, d.x.to, label)
	for _, v := range d.yTicks {
		y := d.y.at(v)
		b.line("grid", d.x.from, y, d.x.to, y)
		b.text("muted", atEnd, d.x.from-8, y+4, d.Y.Unit.tick(v))
	}
	ticks := d.X.ticks(d.x.min, d.x.max, int(max((d.x.to-d.x.from)/70, 2)))
	shown := thin(ticks, d.x, d.X.Unit.tick, 12, 8)
	for i, v := range ticks {
		x := d.x.at(v)
		b.line("base", x, d.y.from, x, d.y.from+4)
		if shown[i] {
			b.text("muted", atMiddle, x, d.y.from+18, d.X.Unit.tick(v))
		}
	}
	b.line("base", d.x.from, d.y.from, d.x.to, d.y.from)
	b.name("muted", atEnd, d.x.to, d.y.from+36, 12, d.x.to, d.X.Label)
	d.markers()
	b.WriteString("\n")
}

// markers names known places above the plot; a label that would touch the one
// before is left to its tip.
func (d *linesDrawing) markers() {
	edge := math.Inf(-1)
	for _, m := range d.Markers {
		if !d.X.holds(m.At) || m.At < d.x.min || m.At > d.x.max {
			continue
		}
		x, label := d.x.at(m.At), clean(m.Label)
		d.b.open("", label+": "+d.X.Unit.Format(m.At))
		d.b.line("flag soft", x, d.y.to-4, x, d.y.from)
		label = fit(label, 11, (d.x.to-d.x.from)/4)
		if half := pixels(label, 11) / 2; x-half > edge+6 {
			d.b.text("small muted", atMiddle, x, d.y.to-8, label)
			edge = x + half
		}
		d.b.end()
	}
}

// lines draws the bands, then the lines by layers.
func (d *linesDrawing) lines() {
	for _, l := range d.Series {
		d.band(l)
	}
	for _, layer := range [...]layer{broad, solid, dashed} {
		for _, l := range d.Series {
			if st := d.styles.of(l.Name); st.layer == layer {
				d.line(l, st)
			}
		}
	}
}

func (d *linesDrawing) band(l Series) {
	var upper, lower [][2]float64
	flush := func() {
		if len(upper) > 1 {
			slices.Reverse(lower)
			d.b.open(d.styles.of(l.Name).class, "")
			d.b.path("band", polyline(append(upper, lower...))+"Z")
			d.b.end()
		}
		upper, lower = nil, nil
	}
	for _, p := range d.sorted(l) {
		if !p.spread() || !d.Y.holds(p.Min) || !d.Y.holds(p.Max) {
			flush()
			continue
		}
		x := d.x.at(p.X)
		upper = append(upper, [2]float64{x, d.y.at(p.Max)})
		lower = append(lower, [2]float64{x, d.y.at(p.Min)})
	}
	flush()
}

func (d *linesDrawing) line(l Series, st style) {
	class := st.class
	if st.layer == broad {
		class += " under"
	}
	d.b.open(class, "")
	var run [][2]float64
	flush := func() {
		if len(run) > 1 {
			d.b.path("series", polyline(run))
		}
		run = nil
	}
	points := d.sorted(l)
	for _, p := range points {
		if !d.Y.holds(p.Y) {
			flush()
			continue
		}
		run = append(run, [2]float64{d.x.at(p.X), d.y.at(p.Y)})
	}
	flush()
	for _, p := range points {
		if d.Y.holds(p.Y) {
			d.point(l, st, p)
		}
	}
	d.b.end()
}

func (d *linesDrawing) point(l Series, st style, p Point) {
	tip := clean(l.Name) + ", " + d.X.Unit.Format(p.X) + ": " + d.Y.Unit.Format(p.Y)
	if p.spread() {
		tip += " (" + d.Y.Unit.Format(p.Min) + " to " + d.Y.Unit.Format(p.Max) + ")"
	}
	x, y := d.x.at(p.X), d.y.at(p.Y)
	d.b.open("", tip)
	d.b.marker(st, x, y)
	d.b.circle("hit", x, y, 9)
	d.b.WriteString("</g>")
}

// An endLabel names a line where it ends.
type endLabel struct {
	name    string
	st      style
	x, y    float64 // where the line ends
	labelAt float64
}

// labels writes the names beside the ends of the lines, moved apart where they
// would overlap.
func (d *linesDrawing) labels(width float64) {
	var labels []endLabel
	for _, l := range d.Series {
		points := d.sorted(l)
		for i := len(points) - 1; i >= 0; i-- {
			if p := points[i]; d.Y.holds(p.Y) {
				y := d.y.at(p.Y)
				labels = append(labels, endLabel{l.Name, d.styles.of(l.Name), d.x.at(p.X), y, y})
				break
			}
		}
	}
	spread(labels, d.y.to, d.y.from)
	for _, l := range labels {
		x := d.x.to + 16
		d.b.open(l.st.class, "")
		if math.Abs(l.labelAt-l.y) > 3 || d.x.to-l.x > 1 {
			d.b.path("leader", polyline([][2]float64{{l.x + 6, l.y}, {x - 7, l.labelAt}}))
		}
		d.b.marker(l.st, x, l.labelAt)
		d.b.name("name", atStart, x+10, l.labelAt+4.5, 13, width-x-10, l.name)
		d.b.end()
	}
}

// spread moves labels apart, as little as their order allows, and sorts them
// from top to bottom. When there are more than fit, they go on below.
func spread(labels []endLabel, top, bottom float64) {
	slices.SortStableFunc(labels, func(a, b endLabel) int {
		switch {
		case a.y < b.y:
			return -1
		case a.y > b.y:
			return 1
		}
		return 0
	})
	// Blocks of touching labels are centred on where their lines end.
	type block struct {
		first, n int
		sum      float64 // of the wished places of their first label
	}
	place := func(b block) float64 {
		at := b.sum / float64(b.n)
		at = min(at, bottom-labelStep*float64(b.n-1))
		return max(at, top)
	}
	var blocks []block
	for i, l := range labels {
		b := block{i, 1, l.y}
		for len(blocks) > 0 {
			prev := blocks[len(blocks)-1]
			if place(prev)+labelStep*float64(prev.n) <= place(b) {
				break
			}
			blocks = blocks[:len(blocks)-1]
			b = block{prev.first, prev.n + b.n, prev.sum + b.sum - labelStep*float64(prev.n*b.n)}
		}
		blocks = append(blocks, b)
	}
	for _, b := range blocks {
		for i := range b.n {
			labels[b.first+i].labelAt = place(b) + labelStep*float64(i)
		}
	}
}
