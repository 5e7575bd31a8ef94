package cli

import (
	"fmt"
	"strings"
	"unicode"
)

// Grouped writes a number that is not negative with its thousands apart.
func Grouped(n int) string {
	digits := fmt.Sprint(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// SizeText writes a size as flags take it: 64G, 100MB.
func SizeText(n int64) string {
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if n > 0 && n%u.bytes == 0 {
			return fmt.Sprint(n/u.bytes, u.name)
		}
	}
	return fmt.Sprint(n)
}

// CommandLine shows a command as a shell takes it: what that would read otherwise than it stands there is in quotes.
func CommandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		switch {
		case strings.ContainsFunc(arg, unicode.IsControl):
			words[i] = "$'" + ansiQuoted(arg) + "'"
		case arg == "" || strings.ContainsAny(arg, " \"'\\$`*?[](){}<>|&;#~!"):
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		default:
			words[i] = arg
		}
	}
	return strings.Join(words, " ")
}

// ansiQuoted returns what stands between $' and ' for a text with control characters.
func ansiQuoted(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\'' || r == '\\':
			b.WriteString(`\` + string(r))
		case unicode.IsControl(r) && r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case unicode.IsControl(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
