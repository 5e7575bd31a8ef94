package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var hostile = []string{
	"", "</script><b>bold</b>", `"><img src=x onerror="alert(1)">`, "'><svg onload=alert(1)>", "]]><!-- -->", "&amp;&#60;",
	"a\x1b[2Jb\x07\r\n\tc", "\x00\xff\xfe", "\u202egnirts\u2066", "\ufffe\uffff", "`code` and `open", "| pipe \\ *x* _y_ [l](javascript:x)",
	"</style><style>*{display:none}", strings.Repeat("very long name ", 60), strings.Repeat("長", 200), "url(#x);}--c:red", "e\u0301\u200b",
}

// everywhere puts a text and three values in every place that takes one.
func everywhere(s string, a, b, c float64) *Page {
	lane := Lane{Name: s, Strong: true, Segments: []Segment{
		{Running, a, b, s}, {Lost, b, c, s}, {Checkpointing, c, c, ""}, {Restoring, c, a, ""}, {Kind(99), a, b, s}, {Suspended, a, math.NaN(), s},
	}}
	points := []Point{{a, b, 0, 0}, {b, c, a, b}, {c, a, b, c}, {math.NaN(), math.Inf(1), 0, 0}}
	page := &Page{Title: s, Intro: s, Figures: []Figure{{s, s, s, Tone(s)}}, Facts: []Fact{{s, s}}}
	table := &Table{Title: s, Note: s, Columns: []Column{{Title: s, Align: Align(s), Better: Better(s), Flex: true}, {Title: s, Align: Right, Better: Lower, Drop: 1}}}
	table.Add(Toned(s, Tone(s)), Num(a, Unit(s)), Str("beyond"))
	table.Add(Str(s))
	table.Add()
	markers := []Marker{{a, s}, {b, s + "2"}, {c, ""}}
	page.Add(s, Text(s), Block{Table: table}, Block{Figures: page.Figures},
		Block{Timeline: &Timeline{Title: s, Note: s, Panels: []Panel{{s, s, []Lane{lane, {}}, markers}, {}}}},
		Block{Bars: &Bars{Title: s, Note: s, Rows: []string{s, s + "x", "kill"}, Groups: []BarGroup{
			{Title: s, Unit: Unit(s), Better: Better(s), Values: []float64{a, b}, Min: []float64{b, a, c}, Max: []float64{c}, Targets: []float64{c, a}, Line: b}, {Title: s, Better: Lower}}, Targets: s}},
		Block{Stacks: &Stacks{Title: s, Note: s, Unit: Unit(s), Better: Better(s), Targets: s, Parts: []Part{{s, Lost}, {s, Restoring}, {s, Suspended}},
			Rows: []Stack{{s, []float64{a, b, c}, a, s}, {s, []float64{c, a}, c, ""}, {}}}},
		Block{Half: true, Panes: &Panes{Title: s, Note: s, X: Axis{Label: s, Unit: Unit(s), Log: true}, Y: Axis{Label: s, Unit: UnitPercent}, Cumulative: true,
			Panes: []Pane{{s, s, []Series{{s, points}, {"cost", points}}}, {}}}},
		Block{Panes: &Panes{X: Axis{Unit: UnitSeconds}, Y: Axis{Label: s, Unit: Unit(s)}, Columns: 2, Panes: []Pane{{s, s, []Series{{s, points}}}, {s, s, nil}}}},
		Block{Half: true, Lines: &Lines{Title: s, Note: s, X: Axis{Label: s, Unit: Unit(s)}, Y: Axis{Label: s, Unit: UnitBytes}, Markers: markers,
			Series: []Series{{s, points}, {"cost", points[:1]}, {s, nil}}}},
		Block{Lines: &Lines{Better: Better(s), X: Axis{Log: true}, Y: Axis{Log: true}, Series: []Series{{s, points}}}})
	return page
}

// allowed are the elements and attributes that a page is made of; what comes
// from a text can add none.
var (
	allowedElements = words(`html head meta link title style body main header footer section div h1 h2 h3 p ul li strong span small dl dt dd code
		table caption thead tbody tr th td figure figcaption details summary svg g rect line circle path text defs pattern`)
	allowedAttributes = words(`lang class charset http-equiv content name rel href id scope role aria-label aria-labelledby aria-hidden xmlns
		viewBox width height style x y x1 y1 x2 y2 cx cy r rx d patternUnits patternTransform transform`)
	number0 = regexp.MustCompile(`^-?[0-9]+(\.[0-9])?$`)
)

func words(s string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
}

// checkMarkup parses what was written and returns its text, without styles.
func checkMarkup(t *testing.T, markup []byte) string {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(markup))
	var text strings.Builder
	inStyle := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inStyle = token.Name.Local == "style"
			if !allowedElements[token.Name.Local] {
				t.Fatalf("unexpected element <%s>", token.Name.Local)
			}
			for _, a := range token.Attr {
				checkAttribute(t, token.Name.Local, a)
			}
		case xml.EndElement:
			inStyle = false
		case xml.CharData:
			if !inStyle {
				text.Write(token)
			}
		case xml.Comment, xml.ProcInst:
			t.Fatalf("unexpected %T", token)
		}
	}
}

func checkAttribute(t *testing.T, element string, a xml.Attr) {
	t.Helper()
	name := a.Name.Local
	switch {
	case !allowedAttributes[name]:
		t.Fatalf("unexpected attribute %s=%q", name, a.Value)
	case name == "href" && a.Value != "data:,":
		t.Fatalf("the page refers to %q", a.Value)
	case element == "meta" || a.Value == "100%":
	case strings.Contains(" x y x1 y1 x2 y2 cx cy r rx width height ", " "+name+" "):
		if !number0.MatchString(a.Value) {
			t.Fatalf("<%s %s=%q>", element, name, a.Value)
		}
	case name == "d" && regexp.MustCompile(`[^-0-9. MLZ]`).MatchString(a.Value):
		t.Fatalf("path %q", a.Value)
	case name == "class" && regexp.MustCompile(`[^-a-z0-9 ]`).MatchString(a.Value):
		t.Fatalf("class %q", a.Value)
	}
}

func render(t *testing.T, write func(io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func checkEverywhere(t *testing.T, s string, a, b, c float64) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("with %q, %g, %g, %g", s, a, b, c)
		}
	}()
	page := everywhere(s, a, b, c)
	text := checkMarkup(t, render(t, page.WriteHTML))
	if !strings.Contains(text, clean(s)) && !strings.Contains(s, "`") && strings.TrimSpace(s) == s && !strings.Contains(s, "\n") {
		t.Errorf("the page does not show %q", s)
	}
	for _, block := range page.Sections[0].Blocks {
		if block.Timeline != nil {
			checkMarkup(t, render(t, func(w io.Writer) error { return block.Timeline.WriteSVG(w, 10) }))
			checkTerminal(t, func(w io.Writer, term Terminal) error { return block.Timeline.WriteText(w, term) })
		}
		if block.Bars != nil {
			checkMarkup(t, render(t, func(w io.Writer) error { return block.Bars.WriteSVG(w, 500) }))
		}
		if block.Lines != nil {
			checkMarkup(t, render(t, func(w io.Writer) error { return block.Lines.WriteSVG(w, 500) }))
		}
		if block.Stacks != nil {
			checkMarkup(t, render(t, func(w io.Writer) error { return block.Stacks.WriteSVG(w, 500) }))
		}
		if block.Panes != nil {
			checkMarkup(t, render(t, func(w io.Writer) error { return block.Panes.WriteSVG(w, 500) }))
		}
		if block.Table != nil {
			checkTerminal(t, block.Table.WriteTerminal)
			for line := range strings.SplitSeq(string(render(t, block.Table.WriteMarkdown)), "\n") {
				if strings.ContainsAny(line, "<>") {
					t.Errorf("markup in Markdown: %q", line)
				}
			}
		}
	}
}

// checkTerminal looks for anything that a terminal would obey.
func checkTerminal(t *testing.T, write func(io.Writer, Terminal) error) {
	t.Helper()
	for _, term := range []Terminal{{}, {Width: 1}, {Width: 30, ASCII: true}, {Width: 200}} {
		out := string(render(t, func(w io.Writer) error { return write(w, term) }))
		if !utf8.ValidString(out) {
			t.Errorf("not UTF-8: %q", out)
		}
		for _, r := range out {
			if r != '\n' && (unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || term.ASCII && r > 0x7e) {
				t.Errorf("%+v: %U in %q", term, r, out)
				return
			}
		}
	}
}

func TestHostileText(t *testing.T) {
	for _, s := range hostile {
		checkEverywhere(t, s, 1, 2.5, 70)
	}
	values := []float64{0, -1, math.NaN(), math.Inf(-1), math.MaxFloat64, 5e-324, -1e99, 1e100}
	for _, a := range values {
		for _, b := range values {
			for _, c := range []float64{70, math.Inf(1)} {
				checkEverywhere(t, "x", a, b, c)
			}
		}
	}
}

func FuzzPage(f *testing.F) {
	for i, s := range hostile {
		f.Add(s, float64(i), 0.5, -3e9)
	}
	f.Fuzz(checkEverywhere)
}

func TestEmpty(t *testing.T) {
	page := &Page{}
	page.Add("", Block{}, Block{Table: &Table{}}, Block{Timeline: &Timeline{}}, Block{Bars: &Bars{}}, Block{Lines: &Lines{}},
		Block{Stacks: &Stacks{}}, Block{Panes: &Panes{}}, Block{Panes: &Panes{Panes: []Pane{{}}}})
	text := checkMarkup(t, render(t, page.WriteHTML))
	if n := strings.Count(text, "nothing measured"); n != 12 { // six charts, for two widths
		t.Errorf("%d empty charts say so, want 12", n)
	}
	checkMarkup(t, render(t, (&Page{}).WriteHTML))
	if got := string(render(t, (&Table{}).WriteMarkdown)); got != "" {
		t.Errorf("Markdown of an empty table: %q", got)
	}
}

func TestPageNeedsNothing(t *testing.T) {
	page := string(render(t, examplePage().WriteHTML))
	for _, bad := range []string{"http:", "https:", "//", "@import", "<script", "<img", "<iframe", "src="} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	for _, m := range regexp.MustCompile(`url\(([^)]*)\)`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, fmt.Sprintf("id=%q", strings.TrimPrefix(m[1], "#"))) {
			t.Errorf("nothing has the id of url(%s)", m[1])
		}
	}
	if !bytes.Equal(render(t, examplePage().WriteHTML), []byte(page)) {
		t.Error("the same page was written differently")
	}
}

func TestJSONRoundTrip(t *testing.T) {
	for _, page := range []*Page{examplePage(), everywhereJSON(), chartsPage()} {
		first, err := json.Marshal(page)
		if err != nil {
			t.Fatal(err)
		}
		var back Page
		if err := json.Unmarshal(first, &back); err != nil {
			t.Fatal(err)
		}
		second, err := json.Marshal(&back)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Errorf("JSON differs after a round trip:\n%s\n%s", first, second)
		}
	}
	var back Page
	data, _ := json.Marshal(examplePage())
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(&back, examplePage()) {
		t.Errorf("the page differs after a round trip (%v)", err)
	}
	if _, err := json.Marshal(Segment{Kind: 99}); err == nil {
		t.Error("a kind that does not exist was marshalled")
	}
	if err := json.Unmarshal([]byte(`{"kind":"asleep"}`), &Segment{}); err == nil {
		t.Error("a kind that does not exist was unmarshalled")
	}
}

// chartsPage has the charts that examplePage has not.
func chartsPage() *Page {
	p := &Page{}
	p.Add("", Block{Stacks: exampleStacks()}, Block{Panes: examplePanes()}, Block{Panes: exampleLoad()}, Block{Bars: exampleTargets()})
	return p
}

// everywhereJSON has values that JSON cannot hold, but only kinds that exist.
func everywhereJSON() *Page {
	p := everywhere("<x>", math.NaN(), math.Inf(1), 3)
	lane := &p.Sections[0].Blocks[3].Timeline.Panels[0].Lanes[0]
	for i := range lane.Segments {
		lane.Segments[i].Kind = Kind(i % kinds)
	}
	return p
}

type brokenWriter struct{}

var errBroken = errors.New("pipe closed")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestWriterFails(t *testing.T) {
	for want, err := range map[string]error{
		"write page: pipe closed":     examplePage().WriteHTML(brokenWriter{}),
		"write table: pipe closed":    exampleTable().WriteText(brokenWriter{}),
		"write timeline: pipe closed": exampleTimeline().WriteText(brokenWriter{}, Terminal{}),
		"write SVG: pipe closed":      exampleBars().WriteSVG(brokenWriter{}, 500),
	} {
		if !errors.Is(err, errBroken) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
