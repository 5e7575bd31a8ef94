package report

import (
	_ "embed"
	"strconv"
	"strings"

	"headrace"
)

// coloursCSS defines the palette for both schemes, chartCSS what drawings need,
// pageCSS the rest of a page.
var (
	//go:embed style/colours.css
	coloursCSS string
	//go:embed style/chart.css
	chartCSS string
	//go:embed style/page.css
	pageCSS string
)

// A style is how the series of one name looks everywhere.
type style struct {
	// class sets the colour and the dashes.
	class string
	// shape is the marker: circle, square, up, down, diamond or ring.
	shape string
	// layer is the order of drawing: lines that lie on each other must all
	// remain visible.
	layer layer
}

// A layer says how a line is drawn, from the bottom up.
type layer uint8

const (
	solid layer = iota
	// broad lines are soft and lie below all others.
	broad
	// dashed lines lie on top, so that others show in their gaps.
	dashed
)

// named are the policies. Those that use one mechanism have its colour.
var named = map[string]style{
	headrace.Wait.String():       {class: "c-wait", shape: "circle"},
	headrace.Kill.String():       {class: "c-kill", shape: "square", layer: dashed},
	headrace.Suspend.String():    {class: "c-suspend", shape: "up"},
	headrace.Checkpoint.String(): {class: "c-checkpoint", shape: "diamond"},
	"adaptive":                   {class: "c-adaptive", shape: "down", layer: dashed},
	"cost":                       {class: "c-cost", shape: "ring", layer: broad},
}

var otherShapes = [...]string{"circle", "square", "up", "diamond", "down", "ring"}

// otherClasses is the number of classes c-1, c-2, ... for other names.
const otherClasses = 6

// styles gives every name the same style wherever it appears on a page: a policy
// its own, also as "policy on something"; other names one in order of appearance.
type styles struct{ other map[string]style }

func newStyles() *styles { return &styles{other: map[string]style{}} }

func (s *styles) of(name string) style {
	policy, _, _ := strings.Cut(name, " on ")
	if st, ok := named[policy]; ok {
		return st
	}
	st, ok := s.other[name]
	if !ok {
		n := len(s.other)
		st = style{class: "c-" + strconv.Itoa(1+n%otherClasses), shape: otherShapes[n%len(otherShapes)]}
		s.other[name] = st
	}
	return st
}

// marker draws the sign of a style.
func (b *svg) marker(st style, x, y float64) {
	p := func(class string, points ...[2]float64) {
		for i := range points {
			points[i][0] += x
			points[i][1] += y
		}
		b.path(class, polyline(points)+"Z")
	}
	switch st.shape {
	case "square":
		b.rect("mark", x-3.4, y-3.4, 6.8, 6.8, 0)
	case "up":
		p("mark", [2]float64{0, -4.6}, [2]float64{4.4, 3.2}, [2]float64{-4.4, 3.2})
	case "down":
		p("mark", [2]float64{0, 4.6}, [2]float64{4.4, -3.2}, [2]float64{-4.4, -3.2})
	case "diamond":
		p("mark", [2]float64{0, -4.9}, [2]float64{4.9, 0}, [2]float64{0, 4.9}, [2]float64{-4.9, 0})
	case "ring":
		b.circle("mark hollow", x, y, 5.2)
	default:
		b.circle("mark", x, y, 3.9)
	}
}
