package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"headrace/sim"
)

// version is that of the file; it changes when older programs would misread it.
const version = 1

// kind is what a file says that it is.
const kind = "headrace simulation"

type file struct {
	Kind    string        `json:"kind"`
	Version int           `json:"version"`
	About   About         `json:"about"`
	Results []*sim.Result `json:"results"`
}

// WriteJSON keeps results and what is known about them, for ReadJSON. There is a
// line for each result.
func WriteJSON(w io.Writer, results []*sim.Result, about About) error {
	known, err := json.Marshal(about)
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"kind\": %q, \"version\": %d,\n\"about\": %s,\n\"results\": [", kind, version, known)
	for i, r := range given(results) {
		text, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("write results: number %d (%q): %w", i+1, policyName(r), err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(text)
	}
	b.WriteString("\n]}\n")
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}

// ReadJSON reads what WriteJSON has written. An error says what is wrong and where,
// but not in which file. Fields that it does not know are passed over.
func ReadJSON(r io.Reader) ([]*sim.Result, About, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, About{}, fmt.Errorf("read results: %w", err)
	}
	var head struct {
		Kind    string `json:"kind"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, About{}, explain(text, err)
	}
	if head.Kind != kind {
		return nil, About{}, fmt.Errorf("kind is %q, want %q: give a file that `headrace sim` has written as JSON", head.Kind, kind)
	}
	if head.Version != version {
		return nil, About{}, fmt.Errorf("version is %d, this program knows %d: simulate again, or use the program that wrote the file", head.Version, version)
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, About{}, explain(text, err)
	}
	if len(f.Results) == 0 {
		return nil, About{}, errors.New("results: there are none")
	}
	for i, r := range f.Results {
		if r == nil {
			return nil, About{}, fmt.Errorf("results: number %d is null", i+1)
		}
		if err := check(r); err != nil {
			return nil, About{}, fmt.Errorf("results: number %d (%q): %w", i+1, policyName(r), err)
		}
	}
	return f.Results, f.About, nil
}

// check finds what no simulation has as its result.
func check(r *sim.Result) error {
	if r.Jobs < 0 || r.Tasks < 0 {
		return fmt.Errorf("%d jobs and %d tasks: want none below zero", r.Jobs, r.Tasks)
	}
	for i, n := range r.Outcome.Times {
		if n < 0 {
			return fmt.Errorf("outcome: %d tasks were preempted %d times: want none below zero", n, i)
		}
	}
	for _, b := range r.Bands {
		for i := 1; i < len(b.Response.At); i++ {
			if b.Response.At[i] < b.Response.At[i-1] {
				return fmt.Errorf("band %q: response falls from %g to %g at place %d: want it to rise", b.Name, b.Response.At[i-1], b.Response.At[i], i)
			}
		}
	}
	return nil
}

// explain names the line of what is wrong.
func explain(text []byte, err error) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return errors.New("the file is empty")
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: %w", line(text, syntax.Offset), err)
	case errors.As(err, &wrong):
		return fmt.Errorf("line %d: %s: is a JSON %s, want %s", line(text, wrong.Offset), wrong.Field, wrong.Value, wrong.Type)
	}
	return err
}

func line(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(max(offset-1, 0), int64(len(text)))], []byte("\n"))
}
