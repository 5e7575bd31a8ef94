package report

import (
	"io"
	"strings"
)

// A Terminal says what the place can show where text goes. The zero value is
// a file or a pipe: any width, no colour, UTF-8.
type Terminal struct {
	// Width is the number of columns; 0 means without limit.
	Width int
	// Colour allows ANSI colours.
	Colour bool
	// ASCII means: nothing but ASCII.
	ASCII bool
}

// NewTerminal judges by the environment (NO_COLOR, TERM, LC_ALL, LC_CTYPE,
// LANG) what can be shown. Width is 0 when unknown.
func NewTerminal(isTerminal bool, width int, getenv func(string) string) Terminal {
	t := Terminal{ASCII: !speaksUTF8(getenv)}
	if isTerminal {
		t.Width = max(width, 0)
		t.Colour = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && getenv("TERM") != ""
	}
	return t
}

func speaksUTF8(getenv func(string) string) bool {
	for _, name := range [...]string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// A Tone is why a text stands out.
type Tone string

// The tones. Each has a colour on a terminal that allows it and on a page; none
// of them is the only carrier of what it says.
const (
	Normal  Tone = ""
	Strong  Tone = "strong"
	Dim     Tone = "dim"
	Good    Tone = "good"
	Caution Tone = "caution"
	Bad     Tone = "bad"
	Stored  Tone = "stored"
)

func (t Tone) ansi() string {
	switch t {
	case Strong:
		return "\x1b[1m"
	case Dim:
		return "\x1b[2m"
	case Good:
		return "\x1b[32m"
	case Caution:
		return "\x1b[33m"
	case Bad:
		return "\x1b[31m"
	case Stored:
		return "\x1b[35m"
	}
	return ""
}

// class returns the CSS class, empty for a tone that is not one of ours.
func (t Tone) class() string {
	switch t {
	case Strong, Dim, Good, Caution, Bad, Stored:
		return "tone-" + string(t)
	}
	return ""
}

// paint colours a text that is ready to be shown.
func (t Terminal) paint(s string, tone Tone) string {
	if code := tone.ansi(); t.Colour && code != "" && s != "" {
		return code + s + "\x1b[0m"
	}
	return s
}

// text makes a stranger's text ready to be shown.
func (t Terminal) text(s string) string {
	s = clean(s)
	if !t.ASCII {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r == '–' || r == '—':
			b.WriteByte('-')
		case r == '×':
			b.WriteByte('x')
		case r == 'µ':
			b.WriteByte('u')
		case r == '∞':
			b.WriteString("inf")
		case r == '…':
			b.WriteString("..")
		case r == 0xa0 || r == 0x202f:
			b.WriteByte(' ')
		default:
			b.WriteByte('?')
		}
	}
	return b.String()
}

// note returns a line of small print below something, wrapped to the width.
func (t Terminal) note(s string) string {
	if s == "" {
		return ""
	}
	var b strings.Builder
	for line := range strings.SplitSeq(wrap(t.text(s), t.Width), "\n") {
		b.WriteString(t.paint(line, Dim) + "\n")
	}
	return b.String()
}

// more returns the sign that a text was shortened.
func (t Terminal) more() string {
	if t.ASCII {
		return ".."
	}
	return "…"
}

// writeAll writes what was built, and names it when that fails.
func writeAll(w io.Writer, what, s string) error {
	if _, err := io.WriteString(w, s); err != nil {
		return &WriteError{What: what, Err: err}
	}
	return nil
}

// A WriteError is the failure of a writer.
type WriteError struct {
	What string // "table", "page", ...
	Err  error
}

func (e *WriteError) Error() string { return "write " + e.What + ": " + e.Err.Error() }

// Unwrap returns the writer's error.
func (e *WriteError) Unwrap() error { return e.Err }
