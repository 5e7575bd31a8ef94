package report

import (
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"headrace"
)

func TestCutAndColumns(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"nightly", 7, "nightly"}, {"nightly", 6, "night…"}, {"nightly", 1, "…"}, {"nightly", 0, ""}, {"nightly", -1, ""},
		{"長い名前", 8, "長い名前"}, {"長い名前", 7, "長い名…"}, {"長い名前", 6, "長い…"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
	} {
		if got := cut(c.s, c.n, "…"); got != c.want {
			t.Errorf("cut(%q, %d) = %q, want %q", c.s, c.n, got, c.want)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range hostile {
		f.Add(s, 12)
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		c := clean(s)
		if clean(c) != c {
			t.Errorf("clean is not idempotent: %q, %q", c, clean(c))
		}
		n %= 300
		if got := columns(cut(c, n, "…")); got > max(n, 0) {
			t.Errorf("cut(%q, %d) has %d columns", c, n, got)
		}
		if short := fit(c, 12, float64(n)); short != c && short != "…" && pixels(short, 12) > float64(n) {
			t.Errorf("fit(%q, %d) = %q is %g wide", c, n, short, pixels(short, 12))
		}
		if got := strings.Join(strings.Fields(wrap(c, n)), " "); n > 0 && got != strings.Join(strings.Fields(c), " ") {
			t.Errorf("wrap(%q, %d) changed the words: %q", c, n, got)
		}
	})
}

func TestTableFitsTerminal(t *testing.T) {
	for width := 57; width < 120; width++ {
		out := string(render(t, func(w io.Writer) error { return examplePS().WriteTerminal(w, Terminal{Width: width}) }))
		for line := range strings.SplitSeq(out, "\n") {
			if columns(line) > width {
				t.Errorf("%d columns in %d: %q", columns(line), width, line)
			}
		}
		if width < 80 && !strings.Contains(out, "…") {
			t.Errorf("nothing was shortened in %d columns:\n%s", width, out)
		}
	}
}

func TestColourOnlyWhenAsked(t *testing.T) {
	if out := string(render(t, examplePS().WriteText)); strings.Contains(out, "\x1b") {
		t.Errorf("colour in a file: %q", out)
	}
	if out := string(render(t, func(w io.Writer) error { return examplePS().WriteTerminal(w, Terminal{Colour: true}) })); !strings.Contains(out, "\x1b[33msuspended\x1b[0m") {
		t.Errorf("no colour on a terminal: %q", out)
	}
}

func TestNewTerminal(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			if i := slices.Index(pairs, name); i >= 0 {
				return pairs[i+1]
			}
			return ""
		}
	}
	for _, c := range []struct {
		is   bool
		env  func(string) string
		want Terminal
	}{
		{true, env("TERM", "xterm", "LANG", "en_US.UTF-8"), Terminal{Width: 90, Colour: true}},
		{false, env("TERM", "xterm", "LANG", "C.utf8"), Terminal{}},
		{true, env("TERM", "xterm", "LANG", "C.utf8", "NO_COLOR", "1"), Terminal{Width: 90}},
		{true, env("TERM", "dumb", "LC_ALL", "C", "LANG", "C.utf8"), Terminal{Width: 90, ASCII: true}},
		{false, env(), Terminal{ASCII: true}},
	} {
		if got := NewTerminal(c.is, 90, c.env); got != c.want {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}

func TestBestStandsOut(t *testing.T) {
	table := &Table{Columns: []Column{{Title: "p"}, {Title: "v", Better: Higher}, {Title: "w", Better: Lower}}}
	table.Add(Str("a"), Num(1, UnitNone), Num(math.NaN(), UnitNone))
	table.Add(Str("b"), Num(2, UnitNone), Num(5, UnitNone))
	table.Add(Str("c"), Num(2, UnitNone), Num(math.Inf(-1), UnitNone))
	want := "| p | v | w |\n| --- | --- | --- |\n| a | 1 | – |\n| b | **2** | 5 |\n| c | **2** | -∞ |\n"
	if got := string(render(t, table.WriteMarkdown)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func textLane(width int, segments ...Segment) string {
	t := &Timeline{Panels: []Panel{{Lanes: []Lane{{Name: "a", Segments: segments}}}}}
	var b strings.Builder
	t.WriteText(&b, Terminal{Width: width})
	line, _, _ := strings.Cut(b.String(), "\n")
	return strings.TrimPrefix(line, "  a ")
}

func TestTimelineText(t *testing.T) {
	nan := math.NaN()
	cases := []struct {
		name     string
		segments []Segment
		want     string
	}{
		{"parts", []Segment{{Running, 0, 4, ""}, {Suspended, 4, 8, ""}, {Running, 8, 20, ""}}, "▇▇▇▇░░░░▇▇▇▇▇▇▇▇▇▇▇▇"},
		{"a dump that is short remains visible", []Segment{{Running, 0, 10, ""}, {Checkpointing, 10, 10.01, ""}, {Checkpointed, 10.01, 20, ""}}, "▇▇▇▇▇▇▇▇▇▇▓─────────"},
		{"later is on top", []Segment{{Running, 0, 20, ""}, {Suspended, 5, 10, ""}}, "▇▇▇▇▇░░░░░▇▇▇▇▇▇▇▇▇▇"},
		{"gap", []Segment{{Running, 0, 5, ""}, {Running, 15, 20, ""}}, "▇▇▇▇▇          ▇▇▇▇▇"},
		{"still open", []Segment{{Suspended, 0, 20, ""}, {Running, 10, nan, ""}}, "░░░░░░░░░░▇▇▇▇▇▇▇▇▇▇"},
		{"nothing to draw", []Segment{{Running, 5, 5, ""}, {Running, 9, 3, ""}, {Running, nan, 4, ""}}, ""},
		{"before zero", []Segment{{Waiting, -10, 0, ""}, {Running, 0, 10, ""}}, "··········▇▇▇▇▇▇▇▇▇▇"},
		{"lost work", []Segment{{Lost, 0, 1e9, ""}, {Restoring, 1e9, 2e9, ""}}, "╳╳╳╳╳╳╳╳╳╳▒▒▒▒▒▒▒▒▒▒"},
	}
	for _, c := range cases {
		if got := textLane(25, c.segments...); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestLaneTotal(t *testing.T) {
	l := Lane{Segments: []Segment{{Lost, 0, 4, ""}, {Running, 4, 9, ""}, {Lost, 9, 10.5, ""}, {Lost, 11, math.NaN(), ""}, {Lost, 5, 3, ""}}}
	if got := l.Total(Lost); got != 5.5 {
		t.Errorf("lost %g, want 5.5", got)
	}
}

func TestKindOf(t *testing.T) {
	for s := headrace.Pending; s <= headrace.Lost; s++ {
		if k, ok := KindOf(s); ok == s.Final() {
			t.Errorf("%v: %v, %v", s, k, ok)
		}
	}
	for k := range kinds {
		if got, err := parseKind(Kind(k).String()); err != nil || got != Kind(k) {
			t.Errorf("%v: %v, %v", Kind(k), got, err)
		}
	}
}

// TestSpread compares with what labels must satisfy: in the order of their
// lines, apart, inside when there is room, and unmoved when nothing is near.
func TestSpread(t *testing.T) {
	for _, ys := range [][]float64{{}, {50}, {50, 50, 50}, {0, 1, 2, 199, 200}, {200, 200, 200, 10}, {20, 100, 180}, {5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5}} {
		var labels []endLabel
		for _, y := range ys {
			labels = append(labels, endLabel{y: y, labelAt: y})
		}
		spread(labels, 0, 200)
		room := labelStep*float64(len(ys)-1) <= 200
		for i, l := range labels {
			if i > 0 && (l.y < labels[i-1].y || l.labelAt-labels[i-1].labelAt < labelStep-1e-9) {
				t.Errorf("%v: label %d at %g after %g", ys, i, l.labelAt, labels[i-1].labelAt)
			}
			if room && (l.labelAt < 0 || l.labelAt > 200) {
				t.Errorf("%v: label %d at %g", ys, i, l.labelAt)
			}
		}
	}
	alone := []endLabel{{y: 20}, {y: 100}, {y: 180}}
	spread(alone, 0, 200)
	for _, l := range alone {
		if l.labelAt != l.y {
			t.Errorf("a label that nothing is near was moved from %g to %g", l.y, l.labelAt)
		}
	}
}
