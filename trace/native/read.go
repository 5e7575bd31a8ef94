package native

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headrace/trace/input"
	"headrace/trace/workload"

	"headrace"
)

var errSeconds = errors.New("want seconds: digits, and up to nine more after a point")

// csvReader reads tasks into a sink.
type csvReader struct {
	in     *csv.Reader
	bound  *input.Bound
	to     workload.Sink
	column [len(csvColumns)]int // where each is, -1: not there
	jobs   map[string]*csvOwner
	files  map[string]int32

	line   int
	record []string
	err    error
}

// csvOwner is a job and the number that its next task has if it says none.
type csvOwner struct {
	number, next int32
}

func Read(m *input.Meter, r io.Reader, to workload.Sink) (workload.About, error) {
	bound := &input.Bound{R: r, Most: input.MaxLine}
	c := &csvReader{in: csv.NewReader(bound), bound: bound, to: to, jobs: map[string]*csvOwner{}, files: map[string]int32{}}
	c.in.ReuseRecord = true
	if err := c.header(); err != nil {
		return workload.About{}, err
	}
	for {
		bound.Left = bound.Most
		record, err := c.in.Read()
		if err == io.EOF {
			return workload.About{Recorded: c.column[csvPreempted] >= 0}, nil
		}
		if err != nil {
			return workload.About{}, c.failure(err)
		}
		m.Record()
		c.line, _ = c.in.FieldPos(0)
		c.record = record
		t := c.task()
		if c.err != nil {
			return workload.About{}, c.err
		}
		if err := to.Task(t); err != nil {
			return workload.About{}, err
		}
	}
}

// failure returns an error of the reader with the line.
func (c *csvReader) failure(err error) error {
	var pe *csv.ParseError
	switch {
	case errors.Is(err, input.ErrLongRecord):
		return &input.SyntaxError{Line: c.line + 1, Reason: fmt.Sprintf("longer than %d bytes: this is no trace", c.bound.Most)}
	case errors.As(err, &pe) && errors.Is(pe.Err, csv.ErrFieldCount):
		return &input.SyntaxError{Line: pe.Line, Reason: fmt.Sprintf("not as many fields as the header has, %d", c.in.FieldsPerRecord)}
	case errors.As(err, &pe):
		return &input.SyntaxError{Line: pe.Line, Reason: pe.Err.Error()}
	}
	return fmt.Errorf("trace: after line %d: %w", c.line, err)
}

func (c *csvReader) header() error {
	c.bound.Left = c.bound.Most
	names, err := c.in.Read()
	if err == io.EOF {
		return &input.SyntaxError{Line: 1, Reason: "empty: want a line with the names of columns"}
	}
	if err != nil {
		return c.failure(err)
	}
	c.line = 1
	for i := range c.column {
		c.column[i] = -1
	}
	for i, name := range names {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		at := slices.Index(csvColumns[:], name)
		switch {
		case at < 0:
			return &input.SyntaxError{Line: 1, Field: "column", Value: input.Cut(name), Reason: "not known; there are " + strings.Join(csvColumns[:], ", ")}
		case c.column[at] >= 0:
			return &input.SyntaxError{Line: 1, Field: "column", Value: name, Reason: "there twice"}
		}
		c.column[at] = i
	}
	for _, need := range []int{csvJob, csvSubmit, csvRun} {
		if c.column[need] < 0 {
			return &input.SyntaxError{Line: 1, Reason: fmt.Sprintf("no column %s: want at least job, submit_s and run_s", csvColumns[need])}
		}
	}
	return nil
}

// task reads what is there; err says if anything is wrong.
func (c *csvReader) task() workload.Task {
	t := workload.Task{
		Submit:   c.seconds(csvSubmit),
		Run:      c.seconds(csvRun),
		Priority: headrace.Priority(c.number(csvPriority, int64(headrace.Normal), int64(headrace.MaxPriority))),
		Class:    uint8(c.number(csvClass, 0, workload.Classes-1)),
		CPUs:     c.float(csvCPUs, 1),
		Memory:   c.number(csvMemory, 1<<30, math.MaxInt64),
		Grow:     c.float(csvGrow, 0),
		Dirty:    c.float(csvDirty, 0),
	}
	t.Preempted = int32(c.number(csvPreempted, 0, math.MaxInt32))
	t.Lost = c.seconds(csvLost)
	name := c.name(csvJob)
	if name == "" {
		c.wrong(csvJob, name, "empty")
	}
	file := c.name(csvFile)
	t.Offset, t.Input = c.number(csvOffset, 0, math.MaxInt64), c.number(csvInput, 0, math.MaxInt64)
	size := c.number(csvFileBytes, 0, math.MaxInt64)
	switch {
	case file == "" && (t.Offset > 0 || t.Input > 0 || size > 0):
		c.wrong(csvFile, file, "empty, but something is read")
	case t.Input > math.MaxInt64-t.Offset:
		c.wrong(csvInput, c.field(csvInput), "too many after offset")
	}
	index := c.number(csvTask, -1, math.MaxInt32)
	if c.err != nil {
		return t
	}
	t.Job, t.Index = c.owner(name, int32(index))
	if file != "" {
		t.File = c.input(file)
		c.to.Size(t.File, max(size, t.Offset+t.Input))
	}
	return t
}

// owner returns the number of a job, and of its task: index, or the next one if that is
// negative.
func (c *csvReader) owner(name string, index int32) (int32, int32) {
	o := c.jobs[name]
	if o == nil {
		name = strings.Clone(name)
		o = &csvOwner{number: c.to.Job(name)}
		c.jobs[name] = o
	}
	if index < 0 {
		index = o.next
	}
	if index < math.MaxInt32 {
		o.next = index + 1
	}
	return o.number, index
}

func (c *csvReader) input(name string) int32 {
	f, ok := c.files[name]
	if !ok {
		name = strings.Clone(name)
		f = c.to.File(name)
		c.files[name] = f
	}
	return f
}

// field returns what a column holds, empty when there is no such column.
func (c *csvReader) field(column int) string {
	if at := c.column[column]; at >= 0 {
		return c.record[at]
	}
	return ""
}

func (c *csvReader) name(column int) string {
	s := c.field(column)
	if !utf8.ValidString(s) {
		c.wrong(column, s, "not UTF-8")
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		c.wrong(column, s, "has a control character")
	}
	return s
}

// number reads a whole number of 0 to most; an empty field is otherwise.
func (c *csvReader) number(column int, otherwise, most int64) int64 {
	s := c.field(column)
	if s == "" {
		return otherwise
	}
	if !input.Digits(s) {
		c.wrong(column, s, "want a whole number, 0 or more")
		return 0
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v > most {
		c.wrong(column, s, fmt.Sprintf("more than %d", most))
		return 0
	}
	return v
}

func (c *csvReader) float(column int, otherwise float32) float32 {
	s := c.field(column)
	if s == "" {
		return otherwise
	}
	v, err := strconv.ParseFloat(s, 32)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		c.wrong(column, s, "want a number, 0 or more")
	}
	return float32(v)
}

func (c *csvReader) seconds(column int) time.Duration {
	s := c.field(column)
	if s == "" && column == csvLost {
		return 0
	}
	d, err := parseSeconds(s)
	if err != nil {
		c.wrong(column, s, err.Error())
	}
	return d
}

// wrong keeps the first error of a line.
func (c *csvReader) wrong(column int, value, reason string) {
	if c.err == nil {
		c.err = &input.SyntaxError{Line: c.line, Field: csvColumns[column], Value: input.Cut(value), Reason: reason}
	}
}
