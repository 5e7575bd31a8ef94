package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
)

// maxYarnRecord is the most bytes that one application or container may have in
// JSON.
const maxYarnRecord = 4 << 20

// maxYarnDepth is how deep objects may be inside each other.
const maxYarnDepth = 50

// exitPreempted is the exit status of a container that was preempted
// (ContainerExitStatus.PREEMPTED).
const exitPreempted = -102

// yarnJSON reads what the REST APIs of the ResourceManager and of the application
// history answer: objects in the field "app" are applications, those in "container"
// containers, wherever these fields are.
type yarnJSON struct {
	y     *yarnRecords
	m     *meter
	dec   *json.Decoder
	lines *lineTracker
}

func (y *yarnRecords) readJSON(m *meter, r io.Reader) error {
	lines := &lineTracker{recordBound: recordBound{r: r, most: maxYarnRecord, left: maxYarnRecord}}
	j := &yarnJSON{y: y, m: m, dec: json.NewDecoder(lines), lines: lines}
	j.dec.UseNumber()
	for {
		switch err := j.value("", 0); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// value reads the next value, which is that of a field.
func (j *yarnJSON) value(field string, depth int) error {
	if depth > maxYarnDepth {
		return j.wrong("", "", fmt.Sprintf("more than %d objects inside each other", maxYarnDepth))
	}
	tok, err := j.token()
	if err != nil {
		if err == io.EOF && depth > 0 {
			err = j.failure(io.ErrUnexpectedEOF)
		}
		return err
	}
	switch tok {
	case json.Delim('['):
		for j.dec.More() {
			if err := j.value(field, depth+1); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		switch field {
		case "app":
			return j.app()
		case "container":
			return j.container()
		}
		for j.dec.More() {
			key, err := j.token()
			if err != nil {
				return err
			}
			if err := j.value(fmt.Sprint(key), depth+1); err != nil {
				return err
			}
		}
	default:
		return nil
	}
	_, err = j.closing()
	return err
}

func (j *yarnJSON) closing() (json.Token, error) {
	tok, err := j.token()
	if err == io.EOF {
		err = j.failure(io.ErrUnexpectedEOF)
	}
	return tok, err
}

func (j *yarnJSON) token() (json.Token, error) {
	j.lines.next(j.dec.InputOffset())
	tok, err := j.dec.Token()
	if err != nil && err != io.EOF {
		err = j.failure(err)
	}
	return tok, err
}

// fields gives each field of the object that has just begun to set.
func (j *yarnJSON) fields(set func(key string, value json.RawMessage) error) error {
	for j.dec.More() {
		key, err := j.closing()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := j.dec.Decode(&value); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return j.failure(err)
		}
		if err := set(fmt.Sprint(key), value); err != nil {
			return err
		}
	}
	_, err := j.closing()
	return err
}

func (j *yarnJSON) app() error {
	j.m.record()
	a := yarnApp{}
	found := false
	numbers := map[string]*int64{"priority": &a.priority, "startedTime": &a.started, "submittedTime": &a.submitted, "launchTime": &a.launched,
		"finishedTime": &a.finished, "elapsedTime": &a.elapsed, "memorySeconds": &a.memorySeconds, "vcoreSeconds": &a.vcoreSeconds,
		"preemptedVcoreSeconds": &a.preemptedVcoreSeconds, "numNonAMContainerPreempted": &a.preemptions}
	err := j.fields(func(key string, value json.RawMessage) (err error) {
		switch to := numbers[key]; {
		case to != nil:
			*to, err = j.number(key, value)
		case key == "id" || key == "appId":
			var s string
			if s, err = j.text(key, value); err == nil {
				if a.id, found = parseYarnApp(s); !found {
					err = j.wrong(key, s, "want application_TIME_NUMBER")
				}
			}
		case key == "name":
			a.name, err = j.text(key, value)
		case key == "queue":
			a.queue, err = j.text(key, value)
		}
		return err
	})
	if err == nil && !found {
		err = j.wrong("", "", "an application without id")
	}
	if err != nil {
		return err
	}
	a.name, a.queue = shown(a.name), shown(a.queue)
	j.y.app(a.id).merge(&a)
	return nil
}

func (j *yarnJSON) container() error {
	j.m.record()
	c := yarnContainer{}
	found := false
	exit := int64(0)
	numbers := map[string]*int64{"allocatedMB": &c.mb, "allocatedVCores": &c.vcores, "priority": &c.priority,
		"startedTime": &c.started, "finishedTime": &c.finished, "containerExitStatus": &exit}
	err := j.fields(func(key string, value json.RawMessage) (err error) {
		switch to := numbers[key]; {
		case to != nil:
			*to, err = j.number(key, value)
		case key == "containerId" || key == "id":
			var s string
			if s, err = j.text(key, value); err == nil {
				if c.id, found = parseYarnContainer(s); !found {
					err = j.wrong(key, s, "want container_TIME_NUMBER_ATTEMPT_CONTAINER")
				}
			}
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !found:
		return j.wrong("", "", "a container without containerId")
	case c.mb < 0 || c.mb > maxYarnMB || c.vcores < 0 || c.vcores > maxYarnCores:
		return j.wrong("", "", fmt.Sprintf("a container of %d MB and %d cores", c.mb, c.vcores))
	}
	c.preempted = exit == exitPreempted
	j.y.container(c.id).merge(&c)
	return nil
}

// maxYarnMB and maxYarnCores are what a container may have at most, maxYarnTime the
// last time, which is in the year 2286.
const (
	maxYarnMB    = 1 << 30
	maxYarnCores = 1 << 20
	maxYarnTime  = 9_999_999_999_999
)

// number reads a whole number, which older versions put in quotes. What is negative
// is not known, and 0, but for the exit status.
func (j *yarnJSON) number(key string, value json.RawMessage) (int64, error) {
	s := strings.Trim(string(value), `"`)
	if s == "null" {
		return 0, nil
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, j.wrong(key, s, "want a whole number")
	}
	if strings.HasSuffix(key, "Time") && v > maxYarnTime {
		return 0, j.wrong(key, s, "not a time in milliseconds")
	}
	if v < 0 && key != "containerExitStatus" {
		v = 0
	}
	return v, nil
}

func (j *yarnJSON) text(key string, value json.RawMessage) (string, error) {
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return "", j.wrong(key, cut(string(value)), "want a text")
	}
	return s, nil
}

func (j *yarnJSON) wrong(field, value, reason string) error {
	return &SyntaxError{Line: j.lines.line(j.dec.InputOffset()), Field: field, Value: cut(value), Reason: reason}
}

// failure returns an error of the decoder, with the line.
func (j *yarnJSON) failure(err error) error {
	var se *json.SyntaxError
	line := j.lines.line(j.dec.InputOffset())
	switch {
	case errors.Is(err, errLongRecord):
		return &SyntaxError{Line: line, Reason: fmt.Sprintf("a value or record of more than %d bytes", maxYarnRecord)}
	case errors.As(err, &se):
		return &SyntaxError{Line: line, Reason: "no JSON: " + se.Error()}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &SyntaxError{Line: line, Reason: "the file ends in the middle: is it complete?"}
	}
	return fmt.Errorf("trace: line %d: %w", line, err)
}

// merge takes over what is known of an application that may be in several answers.
func (a *yarnApp) merge(b *yarnApp) {
	if b.name != "" {
		a.name = b.name
	}
	if b.queue != "" {
		a.queue = b.queue
	}
	for _, v := range [...]struct{ to, from *int64 }{{&a.priority, &b.priority}, {&a.started, &b.started}, {&a.submitted, &b.submitted},
		{&a.launched, &b.launched}, {&a.finished, &b.finished}, {&a.elapsed, &b.elapsed}, {&a.memorySeconds, &b.memorySeconds},
		{&a.vcoreSeconds, &b.vcoreSeconds}, {&a.preemptedVcoreSeconds, &b.preemptedVcoreSeconds}, {&a.preemptions, &b.preemptions}} {
		*v.to = max(*v.to, *v.from)
	}
}

// merge takes over what is known of a container.
func (c *yarnContainer) merge(b *yarnContainer) {
	for _, v := range [...]struct{ to, from *int64 }{{&c.mb, &b.mb}, {&c.vcores, &b.vcores}, {&c.priority, &b.priority},
		{&c.started, &b.started}, {&c.finished, &b.finished}} {
		*v.to = max(*v.to, *v.from)
	}
	c.preempted = c.preempted || b.preempted
}

// lineTracker knows in which line a byte is, of those that were read and not yet left
// behind.
type lineTracker struct {
	recordBound
	read  int64
	ends  []int64 // of the lines read ahead
	lines int     // that end before these
}

func (l *lineTracker) Read(p []byte) (int, error) {
	n, err := l.recordBound.Read(p)
	for i, c := range p[:n] {
		if c == '\n' {
			l.ends = append(l.ends, l.read+int64(i))
		}
	}
	l.read += int64(n)
	return n, err
}

// next says that what is before offset is of no interest any more: a new record may
// begin.
func (l *lineTracker) next(offset int64) {
	l.left = l.most
	n := sort.Search(len(l.ends), func(i int) bool { return l.ends[i] >= offset })
	if n > 0 {
		l.lines += n
		l.ends = l.ends[:copy(l.ends, l.ends[n:])]
	}
}

// line returns the line of a byte, from 1.
func (l *lineTracker) line(offset int64) int {
	return 1 + l.lines + sort.Search(len(l.ends), func(i int) bool { return l.ends[i] >= offset })
}
