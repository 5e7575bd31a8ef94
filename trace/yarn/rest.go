package yarn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"headrace/trace/input"
	"headrace/trace/workload"
)

// maxRecord is the most bytes that one application or container may have in
// JSON.
const maxRecord = 4 << 20

// maxDepth is how deep objects may be inside each other.
const maxDepth = 50

// exitPreempted is the exit status of a container that was preempted
// (ContainerExitStatus.PREEMPTED).
const exitPreempted = -102

// restReader reads what the REST APIs of the ResourceManager and of the application
// history answer: objects in the field "app" are applications, those in "container"
// containers, wherever these fields are.
type restReader struct {
	y     *records
	m     *input.Meter
	dec   *json.Decoder
	lines *input.LineTracker
}

func (y *records) readJSON(m *input.Meter, r io.Reader) error {
	lines := &input.LineTracker{Bound: input.Bound{R: r, Most: maxRecord, Remaining: maxRecord}}
	j := &restReader{y: y, m: m, dec: json.NewDecoder(lines), lines: lines}
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
func (j *restReader) value(field string, depth int) error {
	if depth > maxDepth {
		return j.wrong("", "", fmt.Sprintf("more than %d objects inside each other", maxDepth))
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

func (j *restReader) closing() (json.Token, error) {
	tok, err := j.token()
	if err == io.EOF {
		err = j.failure(io.ErrUnexpectedEOF)
	}
	return tok, err
}

func (j *restReader) token() (json.Token, error) {
	j.lines.Next(j.dec.InputOffset())
	tok, err := j.dec.Token()
	if err != nil && err != io.EOF {
		err = j.failure(err)
	}
	return tok, err
}

// fields gives each field of the object that has just begun to set.
func (j *restReader) fields(set func(key string, value json.RawMessage) error) error {
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

func (j *restReader) app() error {
	j.m.Record()
	a := application{}
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
				if a.id, found = parseApp(s); !found {
					err = j.wrong(key, s, "want application_TIME_NUMBER")
				}
			}
		case key == "name":
			a.name, err = j.text(key, value)
		case key == "queue":
			a.queue, err = j.text(key, value)
		case key == "user":
			a.user, err = j.text(key, value)
		}
		return err
	})
	if err == nil && !found {
		err = j.wrong("", "", "an application without id")
	}
	if err != nil {
		return err
	}
	a.name, a.queue, a.user = input.Shown(a.name), input.Shown(a.queue), input.Shown(a.user)
	j.y.app(a.id).merge(&a)
	return nil
}

func (j *restReader) container() error {
	j.m.Record()
	c := container{}
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
				if c.id, found = parseContainer(s); !found {
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
	case c.mb < 0 || c.mb > maxMB || c.vcores < 0 || c.vcores > maxCores:
		return j.wrong("", "", fmt.Sprintf("a container of %d MB and %d cores", c.mb, c.vcores))
	}
	c.preempted = exit == exitPreempted
	j.y.container(c.id).merge(&c)
	return nil
}

// maxMB and maxCores are what a container may have at most, maxTime the last time and the longest, in milliseconds.
const (
	maxMB    = 1 << 30
	maxCores = 1 << 20
	maxTime  = int64(workload.MaxTime / time.Millisecond)
)

// number reads a whole number, which older versions put in quotes. What is negative
// is not known, and 0, but for the exit status.
func (j *restReader) number(key string, value json.RawMessage) (int64, error) {
	s := strings.Trim(string(value), `"`)
	if s == "null" {
		return 0, nil
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, j.wrong(key, s, "want a whole number")
	}
	if strings.HasSuffix(key, "Time") && v > maxTime {
		return 0, j.wrong(key, s, "not a time in milliseconds")
	}
	if v < 0 && key != "containerExitStatus" {
		v = 0
	}
	return v, nil
}

func (j *restReader) text(key string, value json.RawMessage) (string, error) {
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return "", j.wrong(key, input.Cut(string(value)), "want a text")
	}
	return s, nil
}

func (j *restReader) wrong(field, value, reason string) error {
	return &input.SyntaxError{Line: j.lines.Line(j.dec.InputOffset()), Field: field, Value: input.Cut(value), Reason: reason}
}

// failure returns an error of the decoder, with the line.
func (j *restReader) failure(err error) error {
	var se *json.SyntaxError
	line := j.lines.Line(j.dec.InputOffset())
	switch {
	case errors.Is(err, input.ErrLongRecord):
		return &input.SyntaxError{Line: line, Reason: fmt.Sprintf("a value or record of more than %d bytes", maxRecord)}
	case errors.As(err, &se):
		return &input.SyntaxError{Line: line, Reason: "no JSON: " + se.Error()}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &input.SyntaxError{Line: line, Reason: "the file ends in the middle: is it complete?"}
	}
	return fmt.Errorf("trace: line %d: %w", line, err)
}

// merge takes over what is known of an application that may be in several answers.
func (a *application) merge(b *application) {
	if b.name != "" {
		a.name = b.name
	}
	if b.queue != "" {
		a.queue = b.queue
	}
	if b.user != "" {
		a.user = b.user
	}
	for _, v := range [...]struct{ to, from *int64 }{{&a.priority, &b.priority}, {&a.started, &b.started}, {&a.submitted, &b.submitted},
		{&a.launched, &b.launched}, {&a.finished, &b.finished}, {&a.elapsed, &b.elapsed}, {&a.memorySeconds, &b.memorySeconds},
		{&a.vcoreSeconds, &b.vcoreSeconds}, {&a.preemptedVcoreSeconds, &b.preemptedVcoreSeconds}, {&a.preemptions, &b.preemptions}} {
		*v.to = max(*v.to, *v.from)
	}
}

// merge takes over what is known of a container.
func (c *container) merge(b *container) {
	for _, v := range [...]struct{ to, from *int64 }{{&c.mb, &b.mb}, {&c.vcores, &b.vcores}, {&c.priority, &b.priority},
		{&c.started, &b.started}, {&c.finished, &b.finished}} {
		*v.to = max(*v.to, *v.from)
	}
	c.preempted = c.preempted || b.preempted
}
