package split

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"headrace/config"
	"headrace/wire"
)

// Flag is a flag for how an input is dealt.
type Flag struct {
	Rule wire.Split
	// Delimiter ends the records of SPLIT_LINES; nil: it is not given. Record is their size for SPLIT_FIXED, in bytes.
	Delimiter []byte
	Record    int64
}

// Type names what the flag takes.
func (s *Flag) Type() string { return "RULE" }

// String returns what Set reads.
func (s *Flag) String() string {
	name := strings.ToLower(strings.TrimPrefix(s.Rule.String(), "SPLIT_"))
	switch {
	case s.Delimiter != nil:
		return name + ":" + escapeBytes(s.Delimiter)
	case s.Rule == wire.Split_SPLIT_FIXED:
		return name + ":" + strconv.FormatInt(s.Record, 10)
	}
	return name
}

// Set reads none, lines, lines:DELIM, fixed:SIZE, raw or files.
func (s *Flag) Set(text string) error {
	name, arg, has := strings.Cut(text, ":")
	rule, known := wire.Split_value["SPLIT_"+strings.ToUpper(name)]
	if !known || name != strings.ToLower(name) {
		return fmt.Errorf("want none, lines, lines:DELIM, fixed:SIZE, raw or files")
	}
	next := Flag{Rule: wire.Split(rule)}
	var err error
	switch next.Rule {
	case wire.Split_SPLIT_LINES:
		if has {
			next.Delimiter, err = parseBytes(arg)
		}
	case wire.Split_SPLIT_FIXED:
		next.Record, err = config.Size(arg)
		if err != nil || next.Record == 0 {
			err = fmt.Errorf("want fixed:SIZE with the bytes of a record, 1 or more")
		}
	default:
		if has {
			err = fmt.Errorf("%s takes nothing behind it", name)
		}
	}
	if err == nil {
		*s = next
	}
	return err
}

// Delimiter is a flag for bytes; nil when it is not given.
type Delimiter []byte

// Type names what the flag takes.
func (d *Delimiter) Type() string { return "DELIM" }

// String returns what Set reads.
func (d *Delimiter) String() string { return escapeBytes(*d) }

// Set reads one byte or more, with escapes.
func (d *Delimiter) Set(s string) error {
	b, err := parseBytes(s)
	*d = b
	return err
}

var escapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '0': 0, '\\': '\\'}

// parseBytes reads one byte or more with the escapes that a shell cannot pass.
func parseBytes(s string) ([]byte, error) {
	if s == "" {
		return nil, fmt.Errorf(`the delimiter is empty: give one byte or more, such as ; or \0`)
	}
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		rest := s[i+1:]
		if rest == "" {
			return nil, fmt.Errorf(`a backslash ends the delimiter: write \\ for one`)
		}
		if c, known := escapes[rest[0]]; known {
			b = append(b, c)
			i++
			continue
		}
		if len(rest) >= 3 && rest[0] == 'x' {
			if v, err := strconv.ParseUint(rest[1:3], 16, 8); err == nil {
				b = append(b, byte(v))
				i += 3
				continue
			}
		}
		return nil, fmt.Errorf(`\%c is not known: want \n, \t, \r, \0, \\ or \xHH`, []rune(rest)[0])
	}
	return b, nil
}

// escapeBytes returns what parseBytes reads as b.
func escapeBytes(b []byte) string {
	var s bytes.Buffer
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		switch {
		case b[i] == '\\':
			s.WriteString(`\\`)
		case b[i] == '\n':
			s.WriteString(`\n`)
		case b[i] == '\t':
			s.WriteString(`\t`)
		case r == utf8.RuneError && n == 1, !strconv.IsPrint(r):
			for _, c := range b[i : i+n] {
				fmt.Fprintf(&s, `\x%02x`, c)
			}
		default:
			s.WriteRune(r)
		}
		i += n
	}
	return s.String()
}
