package report

import (
	"slices"
	"strings"
)

const (
	columnGap     = 2
	narrowestFlex = 8
	// narrowestWrap is how wide a wrapped column must be to stand beside the others;
	// else its text stands below them, indented by wrapIndent.
	narrowestWrap = 24
	wrapIndent    = 4
)

// least returns how far a column may be shortened before others are left out.
func (c Column) least(natural int) int {
	narrowest := c.Least
	if narrowest == 0 {
		narrowest = narrowestFlex
	}
	if !c.Flex || natural < narrowest {
		return natural
	}
	return narrowest
}

// fitting returns the table without the columns that the terminal has no room for.
func (t *Table) fitting(term Terminal) *Table {
	if term.Width <= 0 {
		return t
	}
	for {
		need, drop := -columnGap, -1
		for c, natural := range t.natural(t.grid(term)) {
			need += t.Columns[c].least(natural) + columnGap
			if d := t.Columns[c].Drop; d > 0 && (drop < 0 || d > t.Columns[drop].Drop) {
				drop = c
			}
		}
		if need <= term.Width || drop < 0 {
			return t
		}
		t = t.without(drop)
	}
}

func (t *Table) without(column int) *Table {
	less := *t
	less.Columns = slices.Delete(slices.Clone(t.Columns), column, column+1)
	less.Rows = make([][]Cell, len(t.Rows))
	for i, row := range t.Rows {
		if column < len(row) {
			row = slices.Delete(slices.Clone(row), column, column+1)
		}
		less.Rows[i] = row
	}
	return &less
}

// natural returns how wide each column is when nothing is shortened.
func (t *Table) natural(grid [][]string) []int {
	widths := make([]int, len(t.Columns))
	for c := range widths {
		for _, row := range grid {
			widths[c] = max(widths[c], columns(row[c]))
		}
	}
	return widths
}

// widths returns how wide each column is shown. A wrapped one that has no room beside
// the others is as wide as the terminal.
func (t *Table) widths(grid [][]string, term Terminal) []int {
	widths := t.natural(grid)
	if term.Width <= 0 || len(widths) == 0 {
		return widths
	}
	total := -columnGap
	for _, w := range widths {
		total += w + columnGap
	}
	if last := len(widths) - 1; t.Columns[last].Wrap {
		room := term.Width - (total - widths[last])
		switch {
		case room >= min(widths[last], narrowestWrap):
			widths[last] = min(widths[last], room)
		default:
			widths[last] = term.Width
		}
		return widths
	}
	total = t.shrink(widths, total, term.Width, func(c Column) bool { return c.Flex }, Column.least)
	t.shrink(widths, total, term.Width, func(c Column) bool { return c.Align == Left }, func(Column, int) int { return narrowestFlex })
	return widths
}

// shrink takes columns from the widest of those that may be shortened.
func (t *Table) shrink(widths []int, total, limit int, may func(Column) bool, least func(Column, int) int) int {
	for total > limit {
		widest := -1
		for c := range widths {
			if may(t.Columns[c]) && widths[c] > least(t.Columns[c], widths[c]) && (widest < 0 || widths[c] > widths[widest]) {
				widest = c
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		total--
	}
	return total
}

// line returns a row, on several lines if its last column is wrapped.
func (t *Table) line(row []string, widths []int, term Terminal, tone func(int) Tone) string {
	var b strings.Builder
	last := len(row) - 1
	for last > 0 && row[last] == "" {
		last--
	}
	at := 0 // where the column begins
	for c := 0; c <= last; c++ {
		if c == len(row)-1 && t.Columns[c].Wrap && term.Width > 0 {
			if at+widths[c] <= term.Width {
				return b.String() + wrapped(row[c], at, widths[c], term, tone(c))
			}
			above := strings.TrimRight(b.String(), " ")
			return above + "\n" + blanks(wrapIndent) + wrapped(row[c], wrapIndent, term.Width-wrapIndent, term, tone(c))
		}
		text := cut(row[c], widths[c], term.more())
		space := blanks(widths[c] - columns(text))
		text = term.paint(text, tone(c))
		switch {
		case t.Columns[c].Align == Right:
			b.WriteString(space + text)
		case c == last:
			b.WriteString(text)
		default:
			b.WriteString(text + space)
		}
		if c < last {
			b.WriteString(blanks(columnGap))
		}
		at += widths[c] + columnGap
	}
	return b.String()
}

// wrapped returns a text for a column that begins at a place of the line.
func wrapped(text string, at, width int, term Terminal, tone Tone) string {
	parts := strings.Split(wrap(text, width), "\n")
	for i, part := range parts {
		parts[i] = term.paint(part, tone)
	}
	return strings.Join(parts, "\n"+blanks(at))
}
