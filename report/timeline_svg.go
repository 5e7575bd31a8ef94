package report

import (
	"math"
	"slices"
	"strconv"
)

// The measures of a drawn timeline, in pixels.
const (
	laneHeight   = 24.0
	headHeight   = 22.0
	panelGap     = 18.0
	legendRow    = 20.0
	axisHeight   = 34.0
	fullBar      = 16.0
	thinBar      = 4.0
	endLabelRoom = 46.0
)

func (t *Timeline) draw(width float64, _ *styles) drawing {
	d := timelineDrawing{Timeline: t, width: width, flagNames: t.flags()}
	from, to := t.span()
	d.end = to
	d.gutter = min(d.nameWidth()+14, width*0.3)
	d.x = scale{min: from, max: to, from: d.gutter, to: width - endLabelRoom}
	y := d.legend(0) + 8
	d.ticks = Axis{Unit: UnitSeconds}.ticks(from, to, int(max((d.x.to-d.x.from)/80, 2)))
	for _, p := range t.Panels {
		y = d.panel(&d.b, p, y)
	}
	if t.kindsUsed() == [kinds]bool{} {
		d.b.nothing(width/2, y+10)
		y += 20 + panelGap
	}
	bottom := y - panelGap
	d.axis(bottom)
	return drawing{width: width, height: bottom + axisHeight, body: d.b.String()}
}

type timelineDrawing struct {
	*Timeline
	b         svg
	width     float64
	gutter    float64
	end       float64
	x         scale
	ticks     []float64
	flagNames []string
}

func (d *timelineDrawing) nameWidth() float64 {
	w := 40.0
	for _, p := range d.Panels {
		w = max(w, pixels(clean(p.Name), 14))
		for _, l := range p.Lanes {
			w = max(w, pixels(clean(l.Name), 14))
		}
	}
	return w
}

// legend writes the kinds that appear and what the markers mean; it returns
// where it ends.
func (d *timelineDrawing) legend(y float64) float64 {
	x := 0.0
	place := func(label string, sign func(x, y float64)) {
		need := 24 + pixels(clean(label), 12) + 18
		if x > 0 && x+need-18 > d.width {
			x, y = 0, y+legendRow
		}
		sign(x, y+10)
		d.b.name("muted", atStart, x+24, y+14, 12, d.width-x-24, label)
		x += need
	}
	for k, used := range d.kindsUsed() {
		if used {
			place(Kind(k).String(), func(x, y float64) { d.shape(&d.b, Kind(k), false, x, x+18, y, 12) })
		}
	}
	for i, label := range d.flagNames {
		place(d.flagText(i, label), func(x, y float64) {
			d.b.line("flag", x+9, y-6, x+9, y+7)
			d.b.path("flag-head", polyline([][2]float64{{x + 5, y - 7}, {x + 13, y - 7}, {x + 9, y - 2}})+"Z")
		})
	}
	d.b.WriteString("\n")
	return y + legendRow
}

// flagText names a marker; a letter tells several of them apart.
func (d *timelineDrawing) flagText(i int, label string) string {
	if len(d.flagNames) > 1 {
		return flagLetter(i) + "  " + label
	}
	return label
}

func flagLetter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return strconv.Itoa(i + 1)
}

// panel draws one run and returns where the next begins.
func (d *timelineDrawing) panel(b *svg, p Panel, y float64) float64 {
	b.name("name strong", atEnd, d.gutter-10, y+14, 14, d.gutter-12, p.Name)
	b.name("muted", atStart, d.gutter, y+14, 12, d.width-d.gutter, p.Note)
	lanes := y + headHeight
	bottom := lanes + laneHeight*float64(len(p.Lanes))
	for _, v := range d.ticks {
		b.line("grid", d.x.at(v), lanes, d.x.at(v), bottom)
	}
	for i, l := range p.Lanes {
		d.lane(b, p, l, lanes+laneHeight*(float64(i)+0.5))
	}
	for _, m := range p.Markers {
		d.flag(b, m, lanes, bottom)
	}
	return bottom + panelGap
}

func (d *timelineDrawing) flag(b *svg, m Marker, top, bottom float64) {
	if !drawable(m.At) {
		return
	}
	x := d.x.at(m.At)
	b.open("", clean(m.Label)+" at "+Seconds(m.At))
	b.line("flag", x, top-2, x, bottom)
	b.path("flag-head", polyline([][2]float64{{x - 4, top - 3}, {x + 4, top - 3}, {x, top + 2}})+"Z")
	if len(d.flagNames) > 1 {
		b.text("small strong", atStart, x+6, top+1, flagLetter(slices.Index(d.flagNames, m.Label)))
	}
	b.rect("hit", x-5, top-5, 10, bottom-top+5, 0)
	b.end()
}

func (d *timelineDrawing) lane(b *svg, p Panel, l Lane, y float64) {
	class, size := "name", 13.0
	if l.Strong {
		class, size = "name strong", 14
	}
	b.name(class, atEnd, d.gutter-10, y+4.5, size, d.gutter-12, l.Name)
	last, open := math.Inf(-1), false
	for _, s := range l.Segments {
		start, end, ok := s.visible(d.end)
		if !ok {
			continue
		}
		d.segment(b, p, l, s, d.x.at(start), d.x.at(end), y, end-start)
		if end >= last {
			last, open = end, s.open()
		}
	}
	if finite(last) && !open {
		b.text("small muted halo", atStart, d.x.at(last)+5, y+4, Seconds(last))
	}
	b.WriteString("\n")
}

func (d *timelineDrawing) segment(b *svg, p Panel, l Lane, s Segment, x0, x1, y, lasted float64) {
	tip := clean(l.Name) + ": " + s.Kind.String() + " " + Seconds(s.Start) + " to "
	if s.open() {
		tip += "now"
	} else {
		tip += Seconds(s.End) + " (" + Seconds(lasted) + ")"
	}
	if s.Note != "" {
		tip += ", " + clean(s.Note)
	}
	b.open("", tip)
	d.shape(b, s.Kind, l.Strong, x0, max(x1, x0+1.5), y, fullBar)
	if s.Kind == Waiting || s.Kind == Checkpointed {
		b.rect("hit", x0, y-fullBar/2, max(x1-x0, 1.5), fullBar, 0)
	}
	if class, text := segmentLabel(s.Kind, l.Strong, lasted); class != "" {
		x0, x1 = d.widestGap(p.Markers, x0, x1)
		if pixels(text, 11)+10 < x1-x0 {
			b.text("small "+class, atMiddle, (x0+x1)/2, y+4, text)
		}
	}
	b.end()
}

// widestGap returns the widest part of a segment that no marker crosses.
func (d *timelineDrawing) widestGap(markers []Marker, x0, x1 float64) (from, to float64) {
	cuts := []float64{x0, x1}
	for _, m := range markers {
		if x := d.x.at(m.At); drawable(m.At) && x > x0 && x < x1 {
			cuts = append(cuts, x)
		}
	}
	slices.Sort(cuts)
	from, to = cuts[0], cuts[1]
	for i := 1; i < len(cuts)-1; i++ {
		if cuts[i+1]-cuts[i] > to-from {
			from, to = cuts[i], cuts[i+1]
		}
	}
	return from, to
}

// segmentLabel returns what stands inside a segment that is wide enough.
func segmentLabel(k Kind, strong bool, lasted float64) (class, text string) {
	switch {
	case k == Running && strong:
		return "on-strong", Seconds(lasted)
	case k == Running:
		return "on-run", Seconds(lasted)
	case k == Suspended:
		return "on-suspend", Seconds(lasted)
	case k == Lost:
		return "halo strong", Seconds(lasted) + " lost"
	}
	return "", ""
}

// shape draws a segment. Its height tells how much of the machine the task
// holds: a dump narrows from all of it to what lies on storage, a restore
// widens again.
func (d *timelineDrawing) shape(b *svg, k Kind, strong bool, x0, x1, y, h float64) {
	w := x1 - x0
	class, thin := "c-run", h*thinBar/fullBar
	if strong {
		class = "c-strong"
	}
	wedge := func(left, right float64) {
		b.path("fill c-checkpoint", polyline([][2]float64{{x0, y - left/2}, {x1, y - right/2}, {x1, y + right/2}, {x0, y + left/2}})+"Z")
	}
	switch k {
	case Waiting:
		b.rect("fill c-wait", x0, y-1.25, w, 2.5, 0)
	case Running:
		b.rect("fill "+class, x0, y-h/2, w, h, min(1.5, w/2))
	case Suspended:
		b.rect("fill c-suspend", x0, y-h*0.36, w, h*0.72, 0)
	case Checkpointing:
		wedge(h, thin)
	case Checkpointed:
		b.rect("fill c-checkpoint", x0, y-thin/2, w, thin, 0)
	case Restoring:
		wedge(thin, h)
	case Lost:
		b.rect("lost", x0+0.5, y-h/2+0.5, max(w-1, 0.5), h-1, min(1.5, w/2))
	}
}

// axis writes the times below all panels.
func (d *timelineDrawing) axis(bottom float64) {
	shown := thin(d.ticks, d.x, UnitSeconds.tick, 12, 8)
	d.b.line("base", d.x.from, bottom+4, d.x.to, bottom+4)
	for i, v := range d.ticks {
		x := d.x.at(v)
		d.b.line("base", x, bottom+4, x, bottom+8)
		if shown[i] {
			d.b.text("muted", atMiddle, x, bottom+22, UnitSeconds.tick(v))
		}
	}
	d.b.WriteString("\n")
}
