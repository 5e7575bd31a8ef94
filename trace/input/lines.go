package input

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxLine is the longest line that Read accepts, in bytes with its end.
const MaxLine = 64 << 10

// SyntaxError says what is wrong with a trace, and where.
type SyntaxError struct {
	// Line counts from 1.
	Line int
	// Field is what the field is called in the package comment; empty when the
	// line as a whole is wrong. Value is what it holds, cut when it is long.
	Field, Value string
	Reason       string
}

func (e *SyntaxError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("trace: line %d: %s", e.Line, e.Reason)
	}
	return fmt.Sprintf("trace: line %d: %s %q: %s", e.Line, e.Field, e.Value, e.Reason)
}

// Lines returns what parse makes of each line that is not empty. An error is the
// last element.
func Lines[T any](r io.Reader, parse func(p *Parser, text []byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		p := Parser{r: bufio.NewReaderSize(r, MaxLine)}
		for {
			text, err := p.nextLine()
			if err == io.EOF {
				return
			}
			var v T
			if err == nil {
				v, err = parse(&p, text)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

type Parser struct {
	r    *bufio.Reader
	line int
}

// nextLine returns the next line that is not empty, without its end, or io.EOF. It is
// valid until the next call.
func (p *Parser) nextLine() ([]byte, error) {
	for {
		p.line++
		text, err := p.r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, p.Wrong("", nil, fmt.Sprintf("longer than %d bytes: this is no trace", MaxLine))
		case err != nil && err != io.EOF:
			return nil, fmt.Errorf("trace: line %d: %w", p.line, err)
		case err == io.EOF && len(text) == 0:
			return nil, io.EOF
		}
		text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
		if len(text) > 0 {
			return text, nil
		}
	}
}

// Number reads a whole number of 0 to most.
func (p *Parser) Number(field string, b []byte, most int64) (int64, error) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, p.Wrong(field, b, "want a whole number, 0 or more")
		}
	}
	if len(b) == 0 {
		return 0, p.Wrong(field, b, "want a whole number, 0 or more")
	}
	v, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || v > most {
		return 0, p.Wrong(field, b, fmt.Sprintf("more than %d", most))
	}
	return v, nil
}

// Text refuses what cannot be shown.
func (p *Parser) Text(field string, b []byte) (string, error) {
	if !utf8.Valid(b) {
		return "", p.Wrong(field, b, "not UTF-8")
	}
	if bytes.ContainsFunc(b, unicode.IsControl) {
		return "", p.Wrong(field, b, "has a control character")
	}
	return string(b), nil
}

func (p *Parser) Wrong(field string, value []byte, reason string) error {
	const most = 60
	if len(value) > most {
		value = append(value[:most:most], "..."...)
	}
	return &SyntaxError{Line: p.line, Field: field, Value: string(value), Reason: reason}
}

// Commas cuts a line into exactly as many fields as f has.
func (p *Parser) Commas(text []byte, f [][]byte) error {
	last := len(f) - 1
	for n := range f {
		end := bytes.IndexByte(text, ',')
		if n == last && end < 0 {
			f[n] = text
			return nil
		}
		if n == last || end < 0 {
			return p.Wrong("", nil, fmt.Sprintf("%d fields, want %d, separated by commas", n+1+bytes.Count(text, []byte(",")), len(f)))
		}
		f[n], text = text[:end], text[end+1:]
	}
	return nil
}

// FieldReader reads fields until one is wrong.
type FieldReader struct {
	P      *Parser
	Names  []string
	Fields [][]byte
	Err    error
}

func (r *FieldReader) Number(i int, most int64) (v int64) {
	if r.Err == nil {
		v, r.Err = r.P.Number(r.Names[i], r.Fields[i], most)
	}
	return v
}

// Share reads a share of a machine; an empty field is 0.
func (r *FieldReader) Share(i int) (v float64) {
	if r.Err == nil && len(r.Fields[i]) > 0 {
		v, r.Err = r.P.share(r.Names[i], r.Fields[i])
	}
	return v
}

func (r *FieldReader) Text(i int) (v string) {
	if r.Err == nil {
		v, r.Err = r.P.Text(r.Names[i], r.Fields[i])
	}
	return v
}

// share reads a share of a machine.
func (p *Parser) share(field string, b []byte) (float64, error) {
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, p.Wrong(field, b, "want a number from 0 to 1")
	}
	return v, nil
}

func Digits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// Cut shortens what is shown of a field.
func Cut(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// Shown makes a name one that can be shown, and not too long.
func Shown(name string) string {
	const most = 100
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "..."
	}
	return name
}
