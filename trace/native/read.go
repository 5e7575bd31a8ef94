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

var errSeconds = errors.New("want seconds, such as 12.5")

// csvReader reads tasks into a sink.
type csvReader struct {
	in     *csv.Reader
	bound  *input.Bound
	to     workload.Sink
	column [len(csvColumns)]int // where each is, -1: not there
	jobs   map[string]*csvOwner
	files  map[string]int32
	given  *workload.Given
	stages map[string]*csvStageOf
	gangs  map[string]int32
	needs  []csvNeeded
	amount []float32
	passed []string

	line   int
	record []string
	err    error
}

// csvNeeded is a column of a counted resource.
type csvNeeded struct {
	name         string
	at, resource int
}

// csvStageOf is a stage: whether it has tasks, and the last text of those it comes after.
type csvStageOf struct {
	number int32
	there  bool
	after  string
}

// csvOwner is a job and the number that its next task has if it says none.
type csvOwner struct {
	number, next int32
}

// Read reads a file of lines into a sink.
func Read(m *input.Meter, name string, g workload.Given, _ workload.Part, to workload.Sink) (a workload.About, err error) {
	if err := g.Check(); err != nil {
		return a, err
	}
	err = m.WithFile(name, func(r io.Reader) (err error) {
		a, err = read(m, r, &g, to)
		return err
	})
	return a, err
}

func read(m *input.Meter, r io.Reader, g *workload.Given, to workload.Sink) (workload.About, error) {
	bound := &input.Bound{R: r, Most: input.MaxLine}
	c := &csvReader{in: csv.NewReader(bound), bound: bound, to: to, given: g, jobs: map[string]*csvOwner{}, files: map[string]int32{},
		stages: map[string]*csvStageOf{}, gangs: map[string]int32{}}
	c.in.ReuseRecord = true
	if err := c.header(); err != nil {
		return workload.About{}, err
	}
	for {
		bound.Remaining = bound.Most
		record, err := c.in.Read()
		if err == io.EOF {
			return c.about(), nil
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

// about returns what is known in the end.
func (c *csvReader) about() workload.About {
	a := workload.About{Recorded: c.column[csvPreempted] >= 0}
	if len(c.passed) > 0 {
		a.Note("columns that are not known are passed over: %s", strings.Join(c.passed, ", "))
	}
	absent := 0
	for _, s := range c.stages {
		if !s.there {
			absent++
		}
	}
	if absent > 0 {
		a.Note("%d stages that others come after have no tasks: taken to have ended", absent)
	}
	return a
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
	c.bound.Remaining = c.bound.Most
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
		resource, need := strings.CutPrefix(name, csvNeed)
		switch {
		case need:
			if err := c.needed(i, name, resource); err != nil {
				return err
			}
			continue
		case at < 0:
			if len(c.passed) < 20 {
				c.passed = append(c.passed, fmt.Sprintf("%q", input.Cut(name)))
			}
			continue
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

// needed adds a column of a counted resource.
func (c *csvReader) needed(at int, name, resource string) error {
	reason := ""
	switch {
	case resource == "" || !utf8.ValidString(resource) || strings.ContainsFunc(resource, unicode.IsControl):
		reason = "want the name of a resource after the point, such as need.gpu"
	case slices.ContainsFunc(c.needs, func(n csvNeeded) bool { return n.name == name }):
		reason = "there twice"
	default:
		c.needs = append(c.needs, csvNeeded{name, at, c.to.Resource(strings.Clone(resource))})
		return nil
	}
	return &input.SyntaxError{Line: 1, Field: "column", Value: input.Cut(name), Reason: reason}
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
	}
	t = c.given.Task(t)
	t.Grow, t.Dirty = c.float(csvGrow, t.Grow), c.float(csvDirty, t.Dirty)
	t.Preempted = int32(c.number(csvPreempted, 0, math.MaxInt32))
	if lost := c.seconds(csvLost); c.column[csvPreempted] >= 0 {
		t.Lost = lost // without preemptions nothing can have been lost by them
	}
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
	case t.Run > math.MaxInt64-t.Submit:
		c.wrong(csvRun, c.field(csvRun), "too long after submit_s")
	}
	index := c.number(csvTask, -1, math.MaxInt32)
	user, stage, after, gang := c.name(csvUser), c.name(csvStage), c.name(csvAfter), c.name(csvGang)
	switch {
	case strings.Contains(stage, " "):
		c.wrong(csvStage, stage, "has a space: the column after has several stages with spaces between them")
	case stage == "" && after != "":
		c.wrong(csvStage, stage, "empty, but it comes after others")
	}
	need := c.need()
	if c.err != nil {
		return t
	}
	t.Job, t.Index = c.owner(name, int32(index))
	t.User, t.Stage, t.Gang = c.to.User(user), c.stage(stage, after), c.gang(gang)
	t.Need = c.to.Need(need)
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

// need reads the columns of counted resources.
func (c *csvReader) need() []float32 {
	clear(c.amount)
	for _, n := range c.needs {
		if c.record[n.at] == "" {
			continue
		}
		v, ok := parseFloat(c.record[n.at])
		if !ok && c.err == nil {
			c.err = &input.SyntaxError{Line: c.line, Field: n.name, Value: input.Cut(c.record[n.at]), Reason: "want a number, 0 or more"}
		}
		c.amount = workload.Grown(c.amount, n.resource+1)
		c.amount[n.resource] = v
	}
	return c.amount
}

// stage returns the number of a stage that comes after others, 0 for none.
func (c *csvReader) stage(name, after string) int32 {
	if name == "" {
		return 0
	}
	s := c.stageOf(name)
	s.there = true
	if after != s.after {
		// Most lines say the same as the one before.
		s.after = strings.Clone(after)
		for before := range strings.FieldsSeq(after) {
			c.to.After(s.number, c.stageOf(before).number)
		}
	}
	return s.number
}

func (c *csvReader) stageOf(name string) *csvStageOf {
	s := c.stages[name]
	if s == nil {
		s = &csvStageOf{number: c.to.Stage()}
		c.stages[strings.Clone(name)] = s
	}
	return s
}

// gang returns the number of a gang, 0 for none.
func (c *csvReader) gang(name string) int32 {
	if name == "" {
		return 0
	}
	n, ok := c.gangs[name]
	if !ok {
		n = c.to.Gang()
		c.gangs[strings.Clone(name)] = n
	}
	return n
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
	if input.Digits(s) {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil || v > most {
			c.wrong(column, s, fmt.Sprintf("more than %d", most))
			return 0
		}
		return v
	}
	v, ok := plainFloat(s)
	switch {
	case !ok || v != math.Trunc(v):
		c.wrong(column, s, "want a whole number, 0 or more")
	case v >= math.MaxInt64 || int64(v) > most:
		c.wrong(column, s, fmt.Sprintf("more than %d", most))
	default:
		return int64(v)
	}
	return 0
}

func (c *csvReader) float(column int, otherwise float32) float32 {
	s := c.field(column)
	if s == "" {
		return otherwise
	}
	v, ok := parseFloat(s)
	if !ok {
		c.wrong(column, s, "want a number, 0 or more")
	}
	return v
}

func parseFloat(s string) (float32, bool) {
	v, err := strconv.ParseFloat(s, 32)
	return float32(v), err == nil && v >= 0 && !math.IsInf(v, 0)
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
