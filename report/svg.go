package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// A chart is what the kinds of figures have in common.
type chart interface {
	// heading returns the title and the note below it.
	heading() (title, note string)
	// summary says in a sentence what the figure shows, for those who hear it.
	summary() string
	// Data returns the same as a table.
	Data() *Table
	// draw draws it for a width in CSS pixels.
	draw(width float64, s *styles) drawing
}

// summarise says what a figure shows: its title, its kind, which begins with a capital,
// and what is in it, after the word of or for.
func summarise[T any](title, kind, word string, list []T, name func(T) string) string {
	if title != "" {
		kind = title + ": " + strings.ToLower(kind[:1]) + kind[1:]
	}
	for i, one := range list {
		if i == 0 {
			kind += " " + word + " "
		} else {
			kind += ", "
		}
		kind += name(one)
	}
	return kind
}

// A drawing is the inside of an SVG element.
type drawing struct {
	width, height float64
	body          string
}

// svg builds the inside of an SVG element. Coordinates must be finite.
type svg struct{ strings.Builder }

// num writes a coordinate, exact to a tenth of a pixel.
func num(v float64) string {
	s := strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
	if s == "-0" {
		return "0"
	}
	return s
}

// open starts a group. A tip, when not empty, is shown by browsers when the
// mouse rests on it.
func (b *svg) open(class, tip string) {
	b.WriteString("<g" + classes(class) + ">")
	if tip != "" {
		b.WriteString("<title>" + esc(tip) + "</title>")
	}
}

func (b *svg) end() { b.WriteString("</g>\n") }

func (b *svg) rect(class string, x, y, w, h, radius float64) {
	fmt.Fprintf(b, `<rect%s x="%s" y="%s" width="%s" height="%s"`, classes(class), num(x), num(y), num(w), num(h))
	if radius > 0 {
		fmt.Fprintf(b, ` rx="%s"`, num(radius))
	}
	b.WriteString("/>")
}

func (b *svg) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(b, `<line%s x1="%s" y1="%s" x2="%s" y2="%s"/>`, classes(class), num(x1), num(y1), num(x2), num(y2))
}

func (b *svg) circle(class string, x, y, r float64) {
	fmt.Fprintf(b, `<circle%s cx="%s" cy="%s" r="%s"/>`, classes(class), num(x), num(y), num(r))
}

func (b *svg) path(class, d string) {
	fmt.Fprintf(b, `<path%s d="%s"/>`, classes(class), d)
}

// The anchors of a text.
const (
	atStart  = ""
	atMiddle = "mid"
	atEnd    = "end"
)

// text writes s with its baseline at y; anchor and class are CSS classes.
func (b *svg) text(class, anchor string, x, y float64, s string) {
	fmt.Fprintf(b, `<text%s x="%s" y="%s">%s</text>`, classes(class, anchor), num(x), num(y), esc(s))
}

// name writes a label that is shortened to a width, with the whole of it as
// its tip.
func (b *svg) name(class, anchor string, x, y, size, width float64, s string) {
	s = clean(s)
	short := fit(s, size, width)
	if short == s {
		b.text(class, anchor, x, y, s)
		return
	}
	b.open("", s)
	b.text(class, anchor, x, y, short)
	b.WriteString("</g>")
}

// nothing says in the middle of an empty chart that it is empty.
func (b *svg) nothing(x, y float64) { b.text("muted", atMiddle, x, y, "nothing measured") }

// polyline returns the path through points.
func polyline(points [][2]float64) string {
	var b strings.Builder
	for i, p := range points {
		b.WriteByte("ML"[min(i, 1)])
		b.WriteString(num(p[0]) + " " + num(p[1]))
	}
	return b.String()
}

// element writes the SVG element of one drawing, as part of a page.
func (d drawing) element(class, label string) string {
	return fmt.Sprintf("<svg%s viewBox=\"0 0 %s %s\" role=\"img\" aria-label=\"%s\">\n%s</svg>\n",
		classes(class), num(d.width), num(d.height), esc(label), d.body)
}

// narrowest is the least width that a chart is drawn for.
const narrowest = 320

// writeSVG writes a chart as a file of its own, with its title and its style.
func writeSVG(w io.Writer, c chart, width int) error {
	inside := float64(max(width, narrowest))
	const margin = 16
	d := c.draw(inside-2*margin, newStyles())
	title, note := c.heading()
	var b svg
	y := float64(margin)
	if title != "" {
		y += 16
		b.name("title", atStart, margin, y, 16, inside-2*margin, title)
		y += 8
	}
	if note != "" {
		y += 14
		b.name("muted", atStart, margin, y, 12, inside-2*margin, note)
		y += 8
	}
	height := y + d.height + margin
	fmt.Fprintf(&b, "\n<g transform=\"translate(%d %s)\">\n%s</g>\n", margin, num(y), d.body)
	return writeAll(w, "SVG", fmt.Sprintf(
		"<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"hr chart\" viewBox=\"0 0 %s %s\" width=\"%s\" height=\"%s\" role=\"img\" aria-label=\"%s\">\n"+
			"<style>\n%s%s</style>\n%s<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n%s</svg>\n",
		num(inside), num(height), num(inside), num(height), esc(c.summary()), coloursCSS, chartCSS, patterns, b.String()))
}

// patterns are the hatchings that the style sheet refers to.
const patterns = `<svg width="0" height="0" aria-hidden="true" style="position:absolute"><defs>` +
	`<pattern id="hr-lost" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
	`<rect class="hatch-ground" width="6" height="6"/><rect class="hatch-line" width="2.4" height="6"/></pattern>` +
	`<pattern id="hr-restoring" width="4" height="4" patternUnits="userSpaceOnUse">` +
	`<rect class="hatch-ground" width="4" height="4"/><rect class="hatch-restoring" width="4" height="2"/></pattern>` +
	"</defs></svg>\n"
