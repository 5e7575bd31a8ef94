package report

import (
	"io"
	"strings"
)

// A glyph is how a kind looks in a line of text.
type glyph struct {
	block, ascii string
	tone         Tone
}

var glyphs = [kinds]glyph{
	Waiting:       {"·", ".", Dim},
	Running:       {"▇", "#", Good},
	Suspended:     {"░", "=", Caution},
	Checkpointing: {"▓", "w", Stored},
	Checkpointed:  {"─", "-", Stored},
	Restoring:     {"▒", "r", Stored},
	Lost:          {"╳", "x", Bad},
}

func (g glyph) sign(term Terminal) string {
	if term.ASCII {
		return g.ascii
	}
	return g.block
}

// The bounds of the plot of a timeline in text.
const (
	defaultWidth = 80
	leastPlot    = 10
	mostName     = 24
)

// WriteText writes the timeline with one character per slice of time, over the
// whole width of the terminal (80 columns when it is without limit). A slice
// shows what lasted longest in it, but a segment never disappears in favour of
// one that has other slices.
func (t *Timeline) WriteText(w io.Writer, term Terminal) error {
	d := timelineText{Timeline: t, term: term}
	d.from, d.to = t.span()
	width := term.Width
	if width <= 0 {
		width = defaultWidth
	}
	for _, p := range t.Panels {
		for _, l := range p.Lanes {
			d.gutter = max(d.gutter, min(columns(term.text(l.Name)), mostName, width/3))
		}
	}
	d.gutter += 3
	d.plot = max(width-d.gutter-1, leastPlot)
	if t.Title != "" {
		d.b.WriteString(term.paint(term.text(t.Title), Strong) + "\n")
	}
	seen := map[string]bool{}
	for _, p := range t.Panels {
		d.panel(p, seen)
	}
	d.axis()
	d.legend()
	d.b.WriteString(term.note(t.Note))
	return writeAll(w, "timeline", d.b.String())
}

type timelineText struct {
	*Timeline
	term         Terminal
	b            strings.Builder
	from, to     float64
	gutter, plot int
}

// cell returns the column of a point in time.
func (d *timelineText) cell(v float64) int {
	c := int((v - d.from) / (d.to - d.from) * float64(d.plot))
	return min(max(c, 0), d.plot-1)
}

// panel writes a run; markers that an earlier panel has explained are left out
// unless they stand elsewhere.
func (d *timelineText) panel(p Panel, seen map[string]bool) {
	if p.Name != "" || p.Note != "" {
		d.b.WriteString(d.term.paint(d.term.text(p.Name), Strong))
		if p.Note != "" {
			d.b.WriteString("  " + d.term.paint(d.term.text(p.Note), Dim))
		}
		d.b.WriteString("\n")
	}
	for _, m := range p.Markers {
		if !drawable(m.At) {
			continue
		}
		c := d.cell(m.At)
		text := d.term.text(m.Label)
		if key := text + "\x00" + blanks(c); !seen[key] {
			seen[key] = true
			sign := "▼ "
			if d.term.ASCII {
				sign = "v "
			}
			d.b.WriteString(blanks(d.gutter+c) + sign + text + "\n")
		}
	}
	for _, l := range p.Lanes {
		name := cut(d.term.text(l.Name), d.gutter-3, d.term.more())
		tone := Normal
		if l.Strong {
			tone = Strong
		}
		d.b.WriteString("  " + d.term.paint(name, tone) + blanks(d.gutter-2-columns(name)))
		d.lane(l)
		d.b.WriteString("\n")
	}
}

func (d *timelineText) lane(l Lane) {
	cells := d.cells(l)
	for len(cells) > 0 && cells[len(cells)-1] < 0 {
		cells = cells[:len(cells)-1]
	}
	for i := 0; i < len(cells); {
		j := i
		for j < len(cells) && cells[j] == cells[i] {
			j++
		}
		if cells[i] < 0 {
			d.b.WriteString(blanks(j - i))
		} else {
			g := glyphs[l.Segments[cells[i]].Kind]
			d.b.WriteString(d.term.paint(strings.Repeat(g.sign(d.term), j-i), g.tone))
		}
		i = j
	}
}

// cells tells for each column which segment is shown there, -1 for none.
func (d *timelineText) cells(l Lane) []int {
	cells := make([]int, d.plot)
	longest := make([]float64, d.plot)
	held := make([]int, len(l.Segments))
	for i := range cells {
		cells[i] = -1
	}
	slice := (d.to - d.from) / float64(d.plot)
	for i, s := range l.Segments {
		start, end, ok := s.visible(d.to)
		if !ok {
			continue
		}
		for c := d.cell(start); c <= d.cell(end); c++ {
			left := d.from + float64(c)*slice
			overlap := min(end, left+slice) - max(start, left)
			if overlap > 0 && overlap >= longest[c] {
				if cells[c] >= 0 {
					held[cells[c]]--
				}
				cells[c], longest[c] = i, overlap
				held[i]++
			}
		}
	}
	for i, s := range l.Segments {
		start, end, ok := s.visible(d.to)
		if !ok || held[i] > 0 {
			continue
		}
		c := d.cell(start/2 + end/2)
		if owner := cells[c]; owner >= 0 && held[owner] > 1 {
			held[owner]--
			cells[c] = i
			held[i]++
		}
	}
	return cells
}

func (d *timelineText) axis() {
	a := Axis{Unit: UnitSeconds}
	line := []byte(blanks(d.gutter + d.plot + 8))
	free := 0
	for _, v := range a.ticks(d.from, d.to, max(d.plot/14, 2)) {
		text := d.term.text(UnitSeconds.tick(v))
		at := d.gutter + d.cell(v)
		if at >= free && at+len(text) <= len(line) && len(text) == columns(text) {
			copy(line[at:], text)
			free = at + len(text) + 2
		}
	}
	d.b.WriteString(d.term.paint(strings.TrimRight(string(line), " "), Dim) + "\n")
}

func (d *timelineText) legend() {
	var parts []string
	for k, used := range d.kindsUsed() {
		if used {
			g := glyphs[k]
			parts = append(parts, d.term.paint(g.sign(d.term), g.tone)+" "+Kind(k).String())
		}
	}
	if len(parts) > 0 {
		d.b.WriteString(blanks(d.gutter) + strings.Join(parts, "  ") + "\n")
	}
}
