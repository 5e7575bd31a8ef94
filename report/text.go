package report

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes a stranger's text harmless on one line: white space becomes a
// blank; control characters, those that change the direction of writing, and
// bytes that are not UTF-8 become U+FFFD.
func clean(s string) string {
	harmless := true
	for _, r := range s {
		if r != replaced(r) || r == utf8.RuneError {
			harmless = false
			break
		}
	}
	if harmless {
		return s
	}
	return strings.Map(replaced, strings.ToValidUTF8(s, "\uFFFD"))
}

func replaced(r rune) rune {
	switch {
	case r == ' ' || r > ' ' && r < 0x7f:
		return r
	case unicode.IsSpace(r):
		if r == 0xa0 || r == 0x202f {
			return r
		}
		return ' '
	case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069,
		r == 0x200e, r == 0x200f, r == 0x061c, r&0xfffe == 0xfffe:
		return utf8.RuneError
	}
	return r
}

// columns returns the number of terminal columns that a clean text takes.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

// wide holds the ranges of East Asian Wide and Fullwidth characters and emoji.
var wide = [...][2]rune{
	{0x1100, 0x115f}, {0x2e80, 0x303e}, {0x3041, 0x33ff}, {0x3400, 0x4dbf}, {0x4e00, 0xa4cf},
	{0xa960, 0xa97f}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe30, 0xfe6f}, {0xff00, 0xff60},
	{0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1faff}, {0x20000, 0x3fffd},
}

func runeColumns(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) || r >= 0x200b && r <= 0x200d || r == 0x2060 || r == 0xfeff {
		return 0
	}
	for _, w := range wide {
		if r >= w[0] && r <= w[1] {
			return 2
		}
	}
	return 1
}

// cut shortens a clean text to at most n columns, the last of them for the sign
// that something is missing.
func cut(s string, n int, sign string) string {
	if columns(s) <= n {
		return s
	}
	room := n - columns(sign)
	if room < 0 {
		return strings.Repeat(".", max(n, 0))
	}
	used := 0
	for i, r := range s {
		if used += runeColumns(r); used > room {
			return s[:i] + sign
		}
	}
	return s
}

func blanks(n int) string { return strings.Repeat(" ", max(n, 0)) }

// wrap breaks a clean text between words into lines of at most n columns; n <= 0
// means without limit. A word that is longer has a line of its own.
func wrap(s string, n int) string {
	if n <= 0 || columns(s) <= n {
		return s
	}
	var b strings.Builder
	used := 0
	for i, word := range strings.Fields(s) {
		w := columns(word)
		switch {
		case i == 0:
		case used+1+w > n:
			b.WriteByte('\n')
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += w
	}
	return b.String()
}

// pixels estimates the width of a text in a proportional font of the given
// size, for a font that is rather wide.
func pixels(s string, size float64) float64 {
	w := 0.0
	for _, r := range s {
		w += runeWidth(r)
	}
	return w * size
}

// runeWidth returns a part of the size of the font.
func runeWidth(r rune) float64 {
	switch {
	case runeColumns(r) == 0:
		return 0
	case runeColumns(r) == 2:
		return 1.05
	case strings.ContainsRune("iljtfI.,:;|!'()[] ", r):
		return 0.36
	case strings.ContainsRune("mwMW%@—∞", r):
		return 0.95
	case unicode.IsUpper(r):
		return 0.7
	}
	return 0.6
}

// fit shortens a clean text so that pixels is at most width.
func fit(s string, size, width float64) string {
	if pixels(s, size) <= width {
		return s
	}
	used := pixels("…", size)
	for i, r := range s {
		if used += runeWidth(r) * size; used > width {
			return strings.TrimRight(s[:i], " ") + "…"
		}
	}
	return s
}
