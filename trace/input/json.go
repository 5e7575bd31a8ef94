package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
)

// Objects returns the objects of a stream of JSON: one after the other, or in lists. Where
// an object has a list in the field called in, the objects of that are meant and not the one
// that has it. One object may have so many bytes at most. An error is the last element:
// *SyntaxError, but for those of r.
func Objects[T any](r io.Reader, most int, in string) iter.Seq2[Record[T], error] {
	return func(yield func(Record[T], error) bool) {
		lines := &LineTracker{Bound: Bound{R: r, Most: most, Remaining: most}}
		o := &objects[T]{dec: json.NewDecoder(lines), lines: lines, in: in, yield: func(v Record[T]) bool { return yield(v, nil) }}
		for {
			if on, err := o.next(); err == io.EOF || err == nil && !on {
				return
			} else if err != nil {
				yield(Record[T]{}, err)
				return
			}
		}
	}
}

// Each does it with all Objects, which m counts.
func Each[T any](m *Meter, r io.Reader, most int, in string, do func(*Record[T]) error) error {
	for o, err := range Objects[T](r, most, in) {
		if err != nil {
			return err
		}
		m.Record()
		if err := do(&o); err != nil {
			return err
		}
	}
	return nil
}

// Record is one object, and the line in which it ends.
type Record[T any] struct {
	Value T
	line  int
}

// Wrong returns an error about a field of it.
func (r *Record[T]) Wrong(field, value, reason string) error {
	return &SyntaxError{Line: r.line, Field: field, Value: Cut(value), Reason: reason}
}

type objects[T any] struct {
	dec   *json.Decoder
	lines *LineTracker
	in    string
	yield func(Record[T]) bool
}

// next reads a value that is not in any other, and reports whether to go on.
func (o *objects[T]) next() (bool, error) {
	o.lines.Next(o.dec.InputOffset())
	tok, err := o.dec.Token()
	switch {
	case err == io.EOF:
		return false, io.EOF
	case err != nil:
		return false, o.failure(err)
	case tok == json.Delim('['):
		return o.list()
	case tok != json.Delim('{'):
		return false, o.wrong("want an object or a list of objects")
	}
	// Whether it has the list is known at its end only.
	whole, found := bytes.NewBufferString("{"), false
	for o.dec.More() {
		key, err := o.dec.Token()
		if err != nil {
			return false, o.failure(err)
		}
		if o.in != "" && key == o.in {
			if tok, err := o.dec.Token(); err != nil || tok != json.Delim('[') {
				if err == nil {
					err = o.wrong(fmt.Sprintf("want a list in the field %s", o.in))
				}
				return false, o.failure(err)
			}
			if on, err := o.list(); err != nil || !on {
				return on, err
			}
			found = true
			continue
		}
		var value json.RawMessage
		if err := o.dec.Decode(&value); err != nil {
			return false, o.failure(err)
		}
		if found {
			continue
		}
		if whole.Len() > 1 {
			whole.WriteByte(',')
		}
		name, _ := json.Marshal(key)
		whole.Write(name)
		whole.WriteByte(':')
		whole.Write(value)
	}
	if _, err := o.dec.Token(); err != nil {
		return false, o.failure(err)
	}
	if found {
		return true, nil
	}
	whole.WriteByte('}')
	var v T
	if err := json.Unmarshal(whole.Bytes(), &v); err != nil {
		return false, o.failure(err)
	}
	return o.yield(Record[T]{v, o.lines.Line(o.dec.InputOffset())}), nil
}

// list reads to the end of a list.
func (o *objects[T]) list() (bool, error) {
	for o.dec.More() {
		o.lines.Next(o.dec.InputOffset())
		var v T
		if err := o.dec.Decode(&v); err != nil {
			return false, o.failure(err)
		}
		if !o.yield(Record[T]{v, o.lines.Line(o.dec.InputOffset())}) {
			return false, nil
		}
	}
	if _, err := o.dec.Token(); err != nil {
		return false, o.failure(err)
	}
	return true, nil
}

func (o *objects[T]) wrong(reason string) error {
	return &SyntaxError{Line: o.lines.Line(o.dec.InputOffset()), Reason: reason}
}

func (o *objects[T]) failure(err error) error {
	var se *SyntaxError
	var js *json.SyntaxError
	var jt *json.UnmarshalTypeError
	switch {
	case errors.As(err, &se):
		return err
	case errors.Is(err, ErrLongRecord):
		return o.wrong(fmt.Sprintf("an object of more than %d bytes", o.lines.Most))
	case errors.As(err, &jt):
		return &SyntaxError{Line: o.lines.Line(o.dec.InputOffset()), Field: jt.Field, Value: jt.Value, Reason: "not of the type that is meant to be there"}
	case errors.As(err, &js):
		return o.wrong("no JSON: " + js.Error())
	case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
		return o.wrong("the file ends in the middle: is it complete?")
	case errors.Is(err, errScalar):
		return o.wrong(err.Error())
	}
	return fmt.Errorf("trace: line %d: %w", o.lines.Line(o.dec.InputOffset()), err)
}

// Scalar is a number or a text, which programs write with quotes or without; empty: none.
type Scalar string

var errScalar = errors.New("an object or list where a number or a text is meant to be")

// UnmarshalJSON takes numbers, texts, true, false and null.
func (s *Scalar) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case '{', '[':
		return errScalar
	case '"':
		return json.Unmarshal(b, (*string)(s))
	}
	if *s = Scalar(b); *s == "null" {
		*s = ""
	}
	return nil
}

// Whole returns a whole number; otherwise for none.
func (s Scalar) Whole(otherwise int64) (int64, error) {
	if s == "" {
		return otherwise, nil
	}
	if v, err := strconv.ParseInt(string(s), 10, 64); err == nil {
		return v, nil
	}
	v, ok := s.Float()
	if !ok || v != float64(int64(v)) || v > 1<<53 || v < -(1<<53) {
		return 0, errors.New("want a whole number")
	}
	return int64(v), nil
}

// Float returns a number, and whether it is one.
func (s Scalar) Float() (float64, bool) {
	if strings.Trim(string(s), "0123456789.eE+-") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(s), 64)
	return v, err == nil
}
