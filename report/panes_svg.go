package report

import (
	"math"
)

// The measures of drawn panes, in pixels.
const (
	leastPane = 240.0
	paneGap   = 22.0
	paneTop   = 26.0
	paneBelow = 26.0
	// marksOnCurve is on how many points of a curve its marker stands, unless it has
	// no more than fewPoints.
	marksOnCurve = 3
	fewPoints    = 12
)

type panesDrawing struct {
	*Panes
	b      svg
	styles *styles
	yTicks []float64
}

func (c *Panes) draw(width float64, s *styles) drawing {
	d := panesDrawing{Panes: c, styles: s}
	y := d.b.legend(0, width, d.keys()) + 4
	if len(c.Panes) == 0 {
		d.b.nothing(width/2, y+14)
		return drawing{width: width, height: y + 30, body: d.b.String()}
	}
	xs, ys := d.values()
	var xScale, yScale scale
	xScale.log, yScale.log = c.X.Log, c.Y.Log
	xScale.min, xScale.max = c.X.tight(xs)
	yScale.min, yScale.max = c.Y.roomy(ys, 4)
	d.yTicks = c.Y.ticks(yScale.min, yScale.max, 4)
	left := 20.0
	for _, v := range d.yTicks {
		left = max(left, pixels(c.Y.Unit.tick(v), 12)+10)
	}
	d.b.name("muted", atStart, 0, y+12, 12, width, c.Y.Label)
	y += 22
	abreast := max(1, int((width-left+paneGap)/(leastPane+paneGap)))
	abreast = min(abreast, len(c.Panes))
	if c.Columns > 0 {
		abreast = min(abreast, c.Columns)
	}
	each := (width - left - paneGap*float64(abreast-1) - 12) / float64(abreast)
	height := min(max(each*0.6, 150), 240)
	for i, p := range c.Panes {
		column := i % abreast
		if i > 0 && column == 0 {
			y += paneTop + height + paneBelow
		}
		xScale.from = left + float64(column)*(each+paneGap)
		xScale.to = xScale.from + each
		yScale.from, yScale.to = y+paneTop+height, y+paneTop
		d.pane(p, xScale, yScale, column == 0)
	}
	y += paneTop + height + paneBelow
	d.b.name("muted", atEnd, width-12, y+10, 12, width, c.X.Label)
	return drawing{width: width, height: y + 16, body: d.b.String()}
}

// values returns what the axes must hold.
func (d *panesDrawing) values() (xs, ys []float64) {
	for _, p := range d.Panes.Panes {
		for _, s := range p.Series {
			for _, point := range s.Points {
				if d.X.holds(point.X) && d.Y.holds(point.Y) {
					xs, ys = append(xs, point.X), append(ys, point.Y)
				}
			}
		}
	}
	return xs, ys
}

// keys returns the names of all curves, in order of appearance.
func (d *panesDrawing) keys() []key {
	var keys []key
	seen := map[string]bool{}
	for _, p := range d.Panes.Panes {
		for _, s := range p.Series {
			if seen[s.Name] {
				continue
			}
			seen[s.Name] = true
			keys = append(keys, key{s.Name, func(x, y float64) {
				st := d.styles.of(s.Name)
				d.b.open(curveClass(st), "")
				d.b.path("series", polyline([][2]float64{{x, y}, {x + 18, y}}))
				d.b.marker(st, x+9, y)
				d.b.end()
			}})
		}
	}
	return keys
}

func curveClass(st style) string {
	if st.layer == broad {
		return st.class + " under curve"
	}
	return st.class + " curve"
}

func (d *panesDrawing) pane(p Pane, x, y scale, first bool) {
	b := &d.b
	b.name("strong", atStart, x.from, y.to-10, 13.4, x.to-x.from, p.Title)
	if room := x.to - x.from - pixels(clean(p.Title), 13.4) - 14; p.Note != "" && room > 30 {
		b.name("small muted", atEnd, x.to, y.to-10, 11, room, p.Note)
	}
	for _, v := range d.yTicks {
		b.line("grid", x.from, y.at(v), x.to, y.at(v))
		if first {
			b.text("muted", atEnd, x.from-8, y.at(v)+4, d.Y.Unit.tick(v))
		}
	}
	ticks := d.X.ticks(x.min, x.max, int(max((x.to-x.from)/60, 2)))
	shown := thin(ticks, x, d.X.Unit.tick, 12, 8)
	for i, v := range ticks {
		b.line("base", x.at(v), y.from, x.at(v), y.from+4)
		if shown[i] {
			b.text("muted", atMiddle, x.at(v), y.from+18, d.X.Unit.tick(v))
		}
	}
	b.line("base", x.from, y.from, x.to, y.from)
	b.WriteString("\n")
	drawn := false
	for _, layer := range [...]layer{broad, solid, dashed} {
		for i, s := range p.Series {
			if st := d.styles.of(s.Name); st.layer == layer {
				drawn = d.curve(s, st, x, y, float64(i)/float64(len(p.Series))) || drawn
			}
		}
	}
	if !drawn {
		b.nothing((x.from+x.to)/2, (y.from+y.to)/2)
	}
}

// curve draws one of them and tells whether there was anything to draw. Its
// markers are moved along by a share of their distance, so that those of curves
// that lie on each other can be told apart.
func (d *panesDrawing) curve(s Series, st style, x, y scale, shift float64) bool {
	lines := &Lines{X: d.X, Y: d.Y}
	points := lines.sorted(s)
	runs, any := d.runs(points, x, y)
	if !any {
		return false
	}
	d.b.open(curveClass(st), "")
	for _, run := range runs {
		if len(run) > 1 {
			d.b.path("series", polyline(run))
		}
	}
	for _, i := range marked(len(points), shift) {
		p := points[i]
		if !d.Y.holds(p.Y) {
			continue
		}
		d.b.open("", clean(s.Name)+", "+d.X.Unit.Format(p.X)+": "+d.Y.Unit.Format(p.Y))
		d.b.marker(st, x.at(p.X), y.at(p.Y))
		d.b.circle("hit", x.at(p.X), y.at(p.Y), 9)
		d.b.WriteString("</g>")
	}
	d.b.end()
	return true
}

// marked returns the points of n that have a marker.
func marked(n int, shift float64) []int {
	var is []int
	if n <= fewPoints {
		for i := range n {
			is = append(is, i)
		}
		return is
	}
	for k := range marksOnCurve {
		is = append(is, min(int(float64(n)*(float64(k)+0.15+0.7*shift)/marksOnCurve), n-1))
	}
	return is
}

// runs returns the paths of a curve, without points that would not be seen.
func (d *panesDrawing) runs(points []Point, x, y scale) (runs [][][2]float64, any bool) {
	var run [][2]float64
	for i, p := range points {
		if !d.Y.holds(p.Y) {
			runs, run = append(runs, run), nil
			continue
		}
		any = true
		at := [2]float64{x.at(p.X), y.at(p.Y)}
		if n := len(run); n > 0 {
			before := run[n-1]
			last := i == len(points)-1 || !d.Y.holds(points[i+1].Y)
			if !last && math.Abs(at[0]-before[0]) < 0.8 && math.Abs(at[1]-before[1]) < 0.8 {
				continue
			}
			if d.Cumulative && at[0]-before[0] >= 1 && before[1]-at[1] >= 1 {
				run = append(run, [2]float64{at[0], before[1]})
			}
		}
		run = append(run, at)
	}
	return append(runs, run), any
}
