package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"time"
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

// fields are the names of those that must be there.
var fields = [...]string{"name", "submitted", "gap", "input", "shuffle", "output"}

// mostFields is with the two paths and one that is empty in the published files.
const mostFields = len(fields) + 3

// Read returns the jobs of a SWIM trace. It reads r as far as the sequence is used,
// and a little ahead. Errors are those of r, with the line, and *SyntaxError.
func Read(r io.Reader) Jobs { return readLines(r, (*parser).job) }

// readLines returns what parse makes of each line that is not empty. An error is the
// last element.
func readLines[T any](r io.Reader, parse func(p *parser, text []byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		p := parser{r: bufio.NewReaderSize(r, MaxLine)}
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

type parser struct {
	r    *bufio.Reader
	line int
	last time.Duration
}

// nextLine returns the next line that is not empty, without its end, or io.EOF. It is
// valid until the next call.
func (p *parser) nextLine() ([]byte, error) {
	for {
		p.line++
		text, err := p.r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, p.wrong("", nil, fmt.Sprintf("longer than %d bytes: this is no trace", MaxLine))
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

func (p *parser) job(text []byte) (Job, error) {
	var f [mostFields][]byte
	n := 0
	for rest, more := text, true; more; n++ {
		if n == mostFields {
			return Job{}, p.wrong("", nil, fmt.Sprintf("%d fields, want %d to %d", bytes.Count(text, []byte("\t"))+1, len(fields), mostFields))
		}
		f[n], rest, more = bytes.Cut(rest, []byte("\t"))
	}
	if n < len(fields) {
		return Job{}, p.wrong("", nil, fmt.Sprintf("%d fields, want %d to %d, separated by tabs", n, len(fields), mostFields))
	}
	var j Job
	var err error
	if j.ID, err = p.text("name", f[0]); err != nil {
		return Job{}, err
	}
	if j.ID == "" {
		return Job{}, p.wrong("name", f[0], "empty")
	}
	if j.Submit, err = p.submitted(f[1]); err != nil {
		return Job{}, err
	}
	for i, to := range []*int64{new(int64), &j.Input, &j.Shuffle, &j.Output} {
		if *to, err = p.number(fields[2+i], f[2+i], math.MaxInt64); err != nil {
			return Job{}, err
		}
	}
	if j.InputPath, err = p.text("input path", f[6]); err != nil {
		return Job{}, err
	}
	if j.OutputPath, err = p.text("output path", f[7]); err != nil {
		return Job{}, err
	}
	if len(f[8]) > 0 {
		return Job{}, p.wrong("last field", f[8], "want nothing after the output path")
	}
	return j, nil
}

func (p *parser) submitted(b []byte) (time.Duration, error) {
	s, err := p.number("submitted", b, math.MaxInt64/int64(time.Second))
	if err != nil {
		return 0, err
	}
	at := time.Duration(s) * time.Second
	if at < p.last {
		return 0, p.wrong("submitted", b, fmt.Sprintf("before the job of the line before, which was submitted at %d", int64(p.last/time.Second)))
	}
	p.last = at
	return at, nil
}

// number reads a whole number of 0 to most.
func (p *parser) number(field string, b []byte, most int64) (int64, error) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, p.wrong(field, b, "want a whole number, 0 or more")
		}
	}
	if len(b) == 0 {
		return 0, p.wrong(field, b, "want a whole number, 0 or more")
	}
	v, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || v > most {
		return 0, p.wrong(field, b, fmt.Sprintf("more than %d", most))
	}
	return v, nil
}

// text refuses what cannot be shown.
func (p *parser) text(field string, b []byte) (string, error) {
	if !utf8.Valid(b) {
		return "", p.wrong(field, b, "not UTF-8")
	}
	if bytes.ContainsFunc(b, unicode.IsControl) {
		return "", p.wrong(field, b, "has a control character")
	}
	return string(b), nil
}

func (p *parser) wrong(field string, value []byte, reason string) error {
	const most = 60
	if len(value) > most {
		value = append(value[:most:most], "..."...)
	}
	return &SyntaxError{Line: p.line, Field: field, Value: string(value), Reason: reason}
}
