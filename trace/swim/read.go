package swim

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"time"

	"headrace/trace/input"
)

// fields are the names of those that must be there.
var fields = [...]string{"name", "submitted", "gap", "input", "shuffle", "output"}

// mostFields is with the two paths and one that is empty in the published files.
const mostFields = len(fields) + 3

// Read returns the jobs of a SWIM trace. It reads r as far as the sequence is used,
// and a little ahead. Errors are those of r, with the line, and *SyntaxError.
func Read(r io.Reader) Jobs {
	last := time.Duration(0)
	return input.Lines(r, func(p *input.Parser, text []byte) (Job, error) {
		j, err := parseJob(p, text, last)
		last = j.Submit
		return j, err
	})
}

// parseJob reads a line; the job of the line before was submitted at last.
func parseJob(p *input.Parser, text []byte, last time.Duration) (Job, error) {
	var f [mostFields][]byte
	n := 0
	for rest, more := text, true; more; n++ {
		if n == mostFields {
			return Job{}, p.Wrong("", nil, fmt.Sprintf("%d fields, want %d to %d", bytes.Count(text, []byte("\t"))+1, len(fields), mostFields))
		}
		f[n], rest, more = bytes.Cut(rest, []byte("\t"))
	}
	if n < len(fields) {
		return Job{}, p.Wrong("", nil, fmt.Sprintf("%d fields, want %d to %d, separated by tabs", n, len(fields), mostFields))
	}
	var j Job
	var err error
	if j.ID, err = p.Text("name", f[0]); err != nil {
		return Job{}, err
	}
	if j.ID == "" {
		return Job{}, p.Wrong("name", f[0], "empty")
	}
	if j.Submit, err = submitted(p, f[1], last); err != nil {
		return Job{}, err
	}
	for i, to := range []*int64{new(int64), &j.Input, &j.Shuffle, &j.Output} {
		if *to, err = p.Number(fields[2+i], f[2+i], math.MaxInt64); err != nil {
			return Job{}, err
		}
	}
	if j.InputPath, err = p.Text("input path", f[6]); err != nil {
		return Job{}, err
	}
	if j.OutputPath, err = p.Text("output path", f[7]); err != nil {
		return Job{}, err
	}
	if len(f[8]) > 0 {
		return Job{}, p.Wrong("last field", f[8], "want nothing after the output path")
	}
	return j, nil
}

func submitted(p *input.Parser, b []byte, last time.Duration) (time.Duration, error) {
	s, err := p.Number("submitted", b, math.MaxInt64/int64(time.Second))
	if err != nil {
		return 0, err
	}
	at := time.Duration(s) * time.Second
	if at < last {
		return 0, p.Wrong("submitted", b, fmt.Sprintf("before the job of the line before, which was submitted at %d", int64(last/time.Second)))
	}
	return at, nil
}
