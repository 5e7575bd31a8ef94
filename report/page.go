package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A Figure is a number that sums up what was found.
type Figure struct {
	Value string `json:"value"`
	Label string `json:"label"`
	// Note says more, such as the aim; Tone says whether it was met.
	Note string `json:"note,omitempty"`
	Tone Tone   `json:"tone,omitempty"`
}

// A Block is one thing on a page: set one of the fields. When more are set,
// they follow each other in the order of the fields.
type Block struct {
	// Text is paragraphs, divided by empty lines; `words` between backquotes are
	// set as code. Nothing else is markup.
	Text     string    `json:"text,omitempty"`
	Figures  []Figure  `json:"figures,omitempty"`
	Table    *Table    `json:"table,omitempty"`
	Timeline *Timeline `json:"timeline,omitempty"`
	Bars     *Bars     `json:"bars,omitempty"`
	Lines    *Lines    `json:"lines,omitempty"`
	Stacks   *Stacks   `json:"stacks,omitempty"`
	Panes    *Panes    `json:"panes,omitempty"`
	// Half blocks stand beside each other where the page is wide enough.
	Half bool `json:"half,omitempty"`
}

// Text returns a block of paragraphs.
func Text(s string) Block { return Block{Text: s} }

// A Section is blocks under a heading.
type Section struct {
	Heading string  `json:"heading,omitempty"`
	Blocks  []Block `json:"blocks"`
}

// A Fact tells how the results came about: the machine, the date, the command.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// A Page is a whole report.
type Page struct {
	Title string `json:"title"`
	// Intro is paragraphs as in Block.Text.
	Intro    string    `json:"intro,omitempty"`
	Figures  []Figure  `json:"figures,omitempty"`
	Sections []Section `json:"sections"`
	Facts    []Fact    `json:"facts,omitempty"`
}

// Add appends a section.
func (p *Page) Add(heading string, blocks ...Block) {
	p.Sections = append(p.Sections, Section{Heading: heading, Blocks: blocks})
}

// The widths that charts are drawn for: a window shows the one that suits it.
const (
	wideChart   = 960.0
	narrowChart = 464.0
)

const pageHead = `<!DOCTYPE html>
<html lang="en" class="hr">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<link rel="icon" href="data:,"/>
<title>%s</title>
<style>
%s%s%s</style>
</head>
<body>
%s<main>
`

// WriteHTML writes the page as one file that needs nothing else. It is also
// well-formed XML.
func (p *Page) WriteHTML(w io.Writer) error {
	b := pageBuilder{styles: newStyles()}
	fmt.Fprintf(&b, pageHead, esc(p.Title), coloursCSS, chartCSS, pageCSS, patterns)
	b.WriteString("<header>\n<h1>" + esc(p.Title) + "</h1>\n")
	b.paragraphs(p.Intro, "lead")
	b.figures(p.Figures)
	b.WriteString("</header>\n")
	for _, s := range p.Sections {
		b.section(s)
	}
	b.WriteString("</main>\n")
	b.facts(p.Facts)
	b.WriteString("</body>\n</html>\n")
	return writeAll(w, "page", b.String())
}

type pageBuilder struct {
	strings.Builder
	styles *styles
	charts int
}

func (b *pageBuilder) section(s Section) {
	b.WriteString("<section>\n")
	if s.Heading != "" {
		b.WriteString("<h2>" + esc(s.Heading) + "</h2>\n")
	}
	b.WriteString("<div class=\"blocks\">\n")
	for _, block := range s.Blocks {
		b.block(block)
	}
	b.WriteString("</div>\n</section>\n")
}

func (b *pageBuilder) block(block Block) {
	half := ""
	if block.Half {
		half = "half"
	}
	b.WriteString("<div" + classes("block", half) + ">\n")
	b.paragraphs(block.Text, "")
	b.figures(block.Figures)
	if block.Table != nil {
		block.Table.html(&b.Builder)
	}
	if block.Timeline != nil {
		b.chart(block.Timeline, block.Half)
	}
	if block.Bars != nil {
		b.chart(block.Bars, block.Half)
	}
	if block.Lines != nil {
		b.chart(block.Lines, block.Half)
	}
	if block.Stacks != nil {
		b.chart(block.Stacks, block.Half)
	}
	if block.Panes != nil {
		b.chart(block.Panes, block.Half)
	}
	b.WriteString("</div>\n")
}

// chart writes the figure for wide and for narrow windows, and its data as a
// table that opens on demand.
func (b *pageBuilder) chart(c chart, half bool) {
	b.charts++
	title, note := c.heading()
	label := ""
	if title != "" {
		label = ` aria-labelledby="chart-` + strconv.Itoa(b.charts) + `"`
	}
	b.WriteString("<figure" + label + ">\n")
	if title != "" || note != "" {
		b.WriteString("<figcaption>")
		if title != "" {
			fmt.Fprintf(b, `<h3 id="chart-%d">%s</h3>`, b.charts, esc(title))
		}
		if note != "" {
			b.WriteString(`<p class="note">` + inline(note) + "</p>")
		}
		b.WriteString("</figcaption>\n")
	}
	if half {
		b.WriteString(c.draw(narrowChart, b.styles).element("chart", c.summary()))
	} else {
		b.WriteString(c.draw(wideChart, b.styles).element("chart wide", c.summary()))
		b.WriteString(c.draw(narrowChart, b.styles).element("chart narrow", c.summary()))
	}
	b.WriteString(`<details><summary aria-label="` + esc(strings.TrimSpace("Data: "+title)) + "\">Data</summary>\n")
	c.Data().html(&b.Builder)
	b.WriteString("</details>\n</figure>\n")
}

func (b *pageBuilder) figures(figures []Figure) {
	if len(figures) == 0 {
		return
	}
	b.WriteString("<ul class=\"figures\">\n")
	for _, f := range figures {
		b.WriteString(`<li><strong` + classes(f.Tone.class()) + ">" + esc(f.Value) + "</strong> <span>" + inline(f.Label) + "</span>")
		if f.Note != "" {
			b.WriteString(" <small>" + inline(f.Note) + "</small>")
		}
		b.WriteString("</li>\n")
	}
	b.WriteString("</ul>\n")
}

func (b *pageBuilder) facts(facts []Fact) {
	if len(facts) == 0 {
		return
	}
	b.WriteString("<footer>\n<dl>\n")
	for _, f := range facts {
		b.WriteString("<div><dt>" + esc(f.Name) + "</dt><dd>" + inline(f.Value) + "</dd></div>\n")
	}
	b.WriteString("</dl>\n</footer>\n")
}

func (b *pageBuilder) paragraphs(text, class string) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for p := range strings.SplitSeq(text, "\n\n") {
		if p = strings.TrimSpace(p); p != "" {
			b.WriteString("<p" + classes(class) + ">" + inline(p) + "</p>\n")
		}
	}
}

// inline escapes a text and sets what is between backquotes as code.
func inline(s string) string {
	parts := strings.Split(s, "`")
	if len(parts)%2 == 0 {
		parts[len(parts)-2] += "`" + parts[len(parts)-1]
		parts = parts[:len(parts)-1]
	}
	for i, part := range parts {
		parts[i] = esc(part)
		if i%2 == 1 {
			parts[i] = "<code>" + parts[i] + "</code>"
		}
	}
	return strings.Join(parts, "")
}
