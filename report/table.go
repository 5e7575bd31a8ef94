package report

import (
	"html"
	"io"
	"strings"

	"headrace"
)

// Align is the side of a column where its text stands.
type Align string

// The sides. The zero value is Left.
const (
	Left  Align = ""
	Right Align = "right"
)

// A Column is the head of a column and how it is shown.
type Column struct {
	Title string `json:"title"`
	Align Align  `json:"align,omitempty"`
	// Better makes the best number of the column stand out.
	Better Better `json:"better,omitempty"`
	// Flex columns are the first to be shortened when a terminal is too narrow, to
	// Least columns of it; 0: 8.
	Flex  bool `json:"flex,omitempty"`
	Least int  `json:"least,omitempty"`
	// Drop is not 0 for a column that a narrow terminal may leave out; the greatest
	// goes first.
	Drop int `json:"drop,omitempty"`
	// Wrap has the last column of a table go on on further lines, between words, in
	// place of being shortened.
	Wrap bool `json:"wrap,omitempty"`
}

// A Cell is what is shown, and the number behind it when there is one.
type Cell struct {
	Text  string   `json:"text"`
	Value *float64 `json:"value,omitempty"`
	Tone  Tone     `json:"tone,omitempty"`
}

// Str returns a cell with a text.
func Str(s string) Cell { return Cell{Text: s} }

// Toned returns a cell with a text that stands out.
func Toned(s string, tone Tone) Cell { return Cell{Text: s, Tone: tone} }

// Num returns a cell with a number. What is not finite has no Value.
func Num(v float64, u Unit) Cell {
	c := Cell{Text: u.Format(v)}
	if finite(v) {
		c.Value = &v
	}
	return c
}

// State returns a cell with the state of a task.
func State(s headrace.TaskState) Cell {
	tones := map[headrace.TaskState]Tone{
		headrace.Pending: Dim, headrace.Running: Good, headrace.Suspended: Caution,
		headrace.Checkpointed: Stored, headrace.Done: Dim, headrace.Failed: Bad,
		headrace.Killed: Bad, headrace.Lost: Bad,
	}
	return Cell{Text: s.String(), Tone: tones[s]}
}

// A Table is rows under columns. A row may be shorter than Columns; what it has
// beyond them is not shown.
type Table struct {
	// Title and Note stand above and below; both may be empty.
	Title   string   `json:"title,omitempty"`
	Note    string   `json:"note,omitempty"`
	Columns []Column `json:"columns"`
	Rows    [][]Cell `json:"rows"`
}

// Add appends a row.
func (t *Table) Add(cells ...Cell) { t.Rows = append(t.Rows, cells) }

// WriteText writes the table for a file or a pipe: aligned, no colour, no limit
// to the width.
func (t *Table) WriteText(w io.Writer) error { return t.WriteTerminal(w, Terminal{}) }

// WriteTerminal writes the table for a terminal. When it is too narrow, columns
// with Drop are left out; then Flex columns are shortened, then the others that
// hold text. Numbers are never shortened, so that a line may still be too long.
func (t *Table) WriteTerminal(w io.Writer, term Terminal) error {
	return t.fitting(term).write(w, term)
}

func (t *Table) write(w io.Writer, term Terminal) error {
	grid := t.grid(term)
	widths := t.widths(grid, term)
	var b strings.Builder
	if t.Title != "" {
		b.WriteString(term.paint(term.text(t.Title), Strong) + "\n")
	}
	b.WriteString(t.line(grid[0], widths, term, func(int) Tone { return Dim }) + "\n")
	if t.Title != "" && len(t.Columns) > 0 {
		b.WriteString(term.paint(rule(widths, term), Dim) + "\n")
	}
	best := t.bestCells()
	for i, row := range grid[1:] {
		b.WriteString(t.line(row, widths, term, func(c int) Tone { return t.tone(best, i, c) }) + "\n")
	}
	b.WriteString(term.note(t.Note))
	return writeAll(w, "table", b.String())
}

// grid returns the head and the rows, all as long as Columns, ready to be shown.
func (t *Table) grid(term Terminal) [][]string {
	head := make([]string, len(t.Columns))
	for c, col := range t.Columns {
		head[c] = term.text(col.Title)
	}
	grid := [][]string{head}
	for _, row := range t.Rows {
		line := make([]string, len(t.Columns))
		for c := range min(len(row), len(line)) {
			line[c] = term.text(row[c].Text)
		}
		grid = append(grid, line)
	}
	return grid
}

func rule(widths []int, term Terminal) string {
	sign := "─"
	if term.ASCII {
		sign = "-"
	}
	parts := make([]string, len(widths))
	for i, w := range widths {
		parts[i] = strings.Repeat(sign, w)
	}
	return strings.Join(parts, blanks(columnGap))
}

// bestCells tells for each column with a direction which value is the best.
func (t *Table) bestCells() []*float64 {
	best := make([]*float64, len(t.Columns))
	for c, col := range t.Columns {
		var values []float64
		for _, row := range t.Rows {
			if c < len(row) && row[c].Value != nil {
				values = append(values, *row[c].Value)
			}
		}
		if v, ok := col.Better.best(values); ok && len(values) > 1 {
			best[c] = &v
		}
	}
	return best
}

func (t *Table) tone(best []*float64, r, c int) Tone {
	if r >= len(t.Rows) || c >= len(t.Rows[r]) {
		return Normal
	}
	cell := t.Rows[r][c]
	if cell.Tone == Normal && best[c] != nil && cell.Value != nil && *cell.Value == *best[c] {
		return Strong
	}
	return cell.Tone
}

// WriteMarkdown writes a table as GitHub's Markdown has it; the best numbers
// are bold.
func (t *Table) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	if t.Title != "" {
		b.WriteString("**" + markdown(t.Title) + "**\n\n")
	}
	if len(t.Columns) > 0 {
		t.markdownRows(&b)
	}
	if t.Note != "" {
		b.WriteString("\n" + markdown(t.Note) + "\n")
	}
	return writeAll(w, "table", b.String())
}

func (t *Table) markdownRows(b *strings.Builder) {
	grid := t.grid(Terminal{})
	best := t.bestCells()
	for c, title := range grid[0] {
		grid[0][c] = markdown(title)
	}
	for r, row := range grid[1:] {
		for c, text := range row {
			row[c] = markdown(text)
			if text != "" && t.tone(best, r, c) == Strong {
				row[c] = "**" + row[c] + "**"
			}
		}
	}
	for r, row := range grid {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if r == 0 {
			for _, col := range t.Columns {
				if col.Align == Right {
					b.WriteString("| ---: ")
				} else {
					b.WriteString("| --- ")
				}
			}
			b.WriteString("|\n")
		}
	}
}

// markdown escapes what Markdown or HTML would read as markup.
func markdown(s string) string {
	var b strings.Builder
	for _, r := range clean(s) {
		switch {
		case r == '<' || r == '>' || r == '&':
			b.WriteString(html.EscapeString(string(r)))
		case strings.ContainsRune("\\`*_[]|#~!", r):
			b.WriteRune('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// WriteHTML writes a <table> element in the style of the page's sheet. The first
// cell of a row is its head.
func (t *Table) WriteHTML(w io.Writer) error {
	var b strings.Builder
	t.html(&b)
	return writeAll(w, "table", b.String())
}

func (t *Table) html(b *strings.Builder) {
	b.WriteString(`<div class="scroll"><table>`)
	if t.Title != "" {
		b.WriteString("<caption>" + esc(t.Title) + "</caption>")
	}
	b.WriteString("<thead><tr>")
	for _, col := range t.Columns {
		b.WriteString(`<th scope="col"` + classes(col.Align.class()) + ">" + esc(col.Title) + "</th>")
	}
	b.WriteString("</tr></thead><tbody>\n")
	best := t.bestCells()
	for r, row := range t.Rows {
		b.WriteString("<tr>")
		for c, col := range t.Columns {
			text := ""
			if c < len(row) {
				text = esc(row[c].Text)
			}
			open, end := "<td", "</td>"
			if c == 0 {
				open, end = `<th scope="row"`, "</th>"
			}
			b.WriteString(open + classes(col.Align.class(), t.tone(best, r, c).class()) + ">" + text + end)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table></div>\n")
	if t.Note != "" {
		b.WriteString(`<p class="note">` + inline(t.Note) + "</p>\n")
	}
}

func (a Align) class() string {
	if a == Right {
		return "right"
	}
	return ""
}

// esc makes a stranger's text harmless in HTML and SVG, in content and in
// attributes.
func esc(s string) string { return html.EscapeString(clean(s)) }

func classes(names ...string) string {
	names = strings.Fields(strings.Join(names, " "))
	if len(names) == 0 {
		return ""
	}
	return ` class="` + strings.Join(names, " ") + `"`
}
