package report

import (
	"strings"
	"testing"
)

func narrowTable() *Table {
	t := &Table{Columns: []Column{
		{Title: "id"}, {Title: "name", Flex: true, Least: 6}, {Title: "state"},
		{Title: "cpu", Align: Right, Drop: 1}, {Title: "runs", Align: Right, Drop: 2}, {Title: "reason", Flex: true, Least: 12},
	}}
	t.Add(Str("t1"), Str("a-long-name"), Str("suspended"), Str("4.05s"), Str("1"), Str("makes room for t2 (high)"))
	t.Add(Str("t2"), Str("b"), Str("running"), Str("0s"), Str("0"))
	return t
}

// TestNarrow: what a terminal has no room for is left out before texts are cut so
// far that they say nothing; each row has one line.
func TestNarrow(t *testing.T) {
	for width, want := range map[int]string{
		0: `
id  name         state        cpu  runs  reason
t1  a-long-name  suspended  4.05s     1  makes room for t2 (high)
t2  b            running       0s     0
`,
		60: `
id  name         state        cpu  runs  reason
t1  a-long-name  suspended  4.05s     1  makes room for t2 …
t2  b            running       0s     0
`,
		45: `
id  name       state        cpu  reason
t1  a-long-n…  suspended  4.05s  makes room …
t2  b          running       0s
`,
		40: `
id  name         state      reason
t1  a-long-name  suspended  makes room …
t2  b            running
`,
	} {
		var b strings.Builder
		if err := narrowTable().WriteTerminal(&b, Terminal{Width: width}); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); got != want[1:] {
			t.Errorf("at %d columns:\n%swant:\n%s", width, got, want[1:])
		}
	}
}

// TestNarrowRowsKeepTheirLine holds for every width down to what cannot be left out.
func TestNarrowRowsKeepTheirLine(t *testing.T) {
	for width := 35; width < 100; width++ {
		var b strings.Builder
		if err := narrowTable().WriteTerminal(&b, Terminal{Width: width}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := columns(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("at %d columns a line has %d: %s", width, n, line)
			}
		}
	}
}

// TestWrap: the last column goes on below itself, or below the row where it would be
// too narrow, and breaks between words.
func TestWrap(t *testing.T) {
	table := &Table{Columns: []Column{{Title: "when"}, {Title: "reason", Wrap: true}}}
	table.Add(Str("00:12:02"), Str("makes room for t2 (high); cheapest: delay 100ms"))
	table.Add(Str("00:12:03"))
	for width, want := range map[int]string{
		0: `
when      reason
00:12:02  makes room for t2 (high); cheapest: delay 100ms
00:12:03
`,
		40: `
when      reason
00:12:02  makes room for t2 (high);
          cheapest: delay 100ms
00:12:03
`,
		30: `
when
    reason
00:12:02
    makes room for t2 (high);
    cheapest: delay 100ms
00:12:03
`,
	} {
		var b strings.Builder
		if err := table.WriteTerminal(&b, Terminal{Width: width}); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); got != want[1:] {
			t.Errorf("at %d columns:\n%swant:\n%s", width, got, want[1:])
		}
	}
}
