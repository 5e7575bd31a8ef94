package yarn

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"headrace/trace/input"
)

// What marks the lines of a ResourceManager's log that say something of containers
// and applications. All other lines are skipped.
const (
	logTransition = " Container Transitioned from "
	logAllocated  = "OPERATION=AM Allocated Container"
	logReleased   = "OPERATION=AM Released Container"
	logSubmitted  = "OPERATION=Submit Application Request"
	logCapacity   = "Assigned container container_"
	logPreempted  = "AM container preempted, current appAttemptId="
	logSummary    = "ApplicationSummary: appId="
)

// logReader reads the lines of a log.
type logReader struct {
	y    *records
	line int
	text string
}

func (y *records) readLog(m *input.Meter, r io.Reader) error {
	in := bufio.NewReaderSize(r, input.MaxLine)
	l := &logReader{y: y}
	for {
		text, err := in.ReadSlice('\n')
		l.line++
		long := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && err != io.EOF && !long {
			return fmt.Errorf("trace: line %d: %w", l.line, err)
		}
		if bytes.Contains(text, []byte("container")) || bytes.Contains(text, []byte("Container")) || bytes.Contains(text, []byte("pplication")) {
			m.Record()
			l.text = strings.TrimRight(string(text), "\r\n")
			if err := l.read(); err != nil {
				return err
			}
		}
		for long {
			// The end of a line that is too long is of no interest.
			_, err = in.ReadSlice('\n')
			long = errors.Is(err, bufio.ErrBufferFull)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("trace: line %d: %w", l.line, err)
		}
	}
}

// read reads one line.
func (l *logReader) read() error {
	s := l.text
	switch {
	case strings.Contains(s, logTransition):
		return l.transition()
	case strings.Contains(s, logAllocated), strings.Contains(s, logReleased):
		if strings.Contains(s, "RESULT=SUCCESS") {
			return l.resource(auditField(s, "CONTAINERID"), auditField(s, "RESOURCE"))
		}
	case strings.Contains(s, logCapacity):
		_, rest, _ := strings.Cut(s, "Assigned container ")
		id, rest, _ := strings.Cut(rest, " ")
		if capacity, ok := strings.CutPrefix(rest, "of capacity "); ok {
			return l.resource(id, capacity)
		}
	case strings.Contains(s, logPreempted):
		_, rest, _ := strings.Cut(s, "containerId=")
		id, rest, _ := strings.Cut(rest, ",")
		c, err := l.container(id)
		if err == nil {
			c.preempted = true
			err = l.resource(id, strings.TrimPrefix(rest, " resource="))
		}
		return err
	case strings.Contains(s, logSubmitted):
		if strings.Contains(s, "RESULT=SUCCESS") {
			return l.submitted()
		}
	case strings.Contains(s, logSummary):
		return l.summary()
	}
	return nil
}

// transition: TIME ... CONTAINER Container Transitioned from A to B
func (l *logReader) transition() error {
	before, after, _ := strings.Cut(l.text, logTransition)
	c, err := l.container(before[strings.LastIndexByte(before, ' ')+1:])
	if err != nil {
		return err
	}
	at, err := l.time()
	if err != nil {
		return err
	}
	_, state, _ := strings.Cut(after, " to ")
	state, _, _ = strings.Cut(state, " ")
	switch state {
	case "ALLOCATED":
		c.logAllocated = at
	case "RUNNING":
		c.logRun = at
	case "COMPLETED", "KILLED", "RELEASED", "EXPIRED":
		c.logDone = max(c.logDone, at)
	case "NEW", "RESERVED", "ACQUIRED":
	default:
		return l.wrong("state", state, "not one of a container's")
	}
	return nil
}

func (l *logReader) container(id string) (*container, error) {
	key, ok := parseContainer(id)
	if !ok {
		return nil, l.wrong("container", id, "want container_TIME_NUMBER_ATTEMPT_CONTAINER")
	}
	return l.y.container(key), nil
}

// resource: <memory:1024, vCores:1>, perhaps with more. Older versions do not say it
// everywhere.
func (l *logReader) resource(id, text string) error {
	c, err := l.container(id)
	if err != nil || !strings.HasPrefix(text, "<") {
		return err
	}
	inside, _, _ := strings.Cut(text[1:], ">")
	for field := range strings.SplitSeq(inside, ", ") {
		name, value, _ := strings.Cut(field, ":")
		to, most := &c.mb, int64(maxMB)
		switch name {
		case "memory":
		case "vCores":
			to, most = &c.vcores, maxCores
		default:
			continue
		}
		v, err := strconv.ParseInt(value, 10, 64)
		if err != nil || v < 0 || v > most {
			return l.wrong(name, value, fmt.Sprintf("want a number of 0 to %d", most))
		}
		*to = v
	}
	return nil
}

func (l *logReader) submitted() error {
	id := auditField(l.text, "APPID")
	key, ok := parseApp(id)
	if !ok {
		return l.wrong("APPID", id, "want application_TIME_NUMBER")
	}
	at, err := l.time()
	if err != nil {
		return err
	}
	a := l.y.app(key)
	a.logSubmitted = at
	if queue := auditField(l.text, "QUEUENAME"); queue != "" && a.queue == "" {
		a.queue = input.Shown(queue)
	}
	return nil
}

// auditField returns what follows KEY= in a line of the RMAuditLogger, whose fields are
// separated by tabs, which some tools make several spaces.
func auditField(line, key string) string {
	_, s, ok := strings.Cut(line, key+"=")
	if !ok {
		return ""
	}
	s, _, _ = strings.Cut(s, "\t")
	s, _, _ = strings.Cut(s, "  ")
	return s
}

// summary: the fields of an application when it has ended, separated by commas; those
// in values have a backslash before them.
func (l *logReader) summary() error {
	_, s, _ := strings.Cut(l.text, "ApplicationSummary: ")
	var a application
	ok := false
	numbers := map[string]*int64{"submitTime": &a.submitted, "startTime": &a.started, "launchTime": &a.launched, "finishTime": &a.finished,
		"memorySeconds": &a.memorySeconds, "vcoreSeconds": &a.vcoreSeconds, "preemptedVcoreSeconds": &a.preemptedVcoreSeconds,
		"preemptedNonAMContainers": &a.preemptions}
	for field := range commaFields(s) {
		key, value, _ := strings.Cut(field, "=")
		switch to := numbers[key]; {
		case to != nil:
			v, err := strconv.ParseInt(value, 10, 64)
			if err != nil || strings.HasSuffix(key, "Time") && v > maxTime {
				return l.wrong(key, value, "want a whole number, times in milliseconds")
			}
			*to = max(0, v)
		case key == "appId":
			if a.id, ok = parseApp(value); !ok {
				return l.wrong(key, value, "want application_TIME_NUMBER")
			}
		case key == "name":
			a.name = input.Shown(value)
		case key == "queue":
			a.queue = input.Shown(value)
		case key == "user":
			a.user = input.Shown(value)
		}
	}
	l.y.app(a.id).merge(&a)
	return l.zone(a.finished)
}

// zone finds out how far the clock of the log is ahead of UTC: an application's summary
// is written when it has finished, or again, maybe days later, by a ResourceManager that starts.
func (l *logReader) zone(finished int64) error {
	const quarter = float64(15 * time.Minute / time.Millisecond)
	at, err := l.time()
	const day = int64(24 * time.Hour / time.Millisecond)
	if err != nil || finished == 0 || l.y.zoneKnown || max(at-finished, finished-at) > day {
		return err
	}
	l.y.zone = int64(math.Round(float64(at-finished)/quarter) * quarter)
	l.y.zoneKnown = true
	return nil
}

// commaFields cuts at commas without a backslash before them, and removes the
// backslashes.
func commaFields(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var field []byte
		for i := 0; i < len(s); i++ {
			switch {
			case s[i] == '\\' && i+1 < len(s):
				i++
				field = append(field, s[i])
			case s[i] == ',':
				if !yield(string(field)) {
					return
				}
				field = field[:0]
			default:
				field = append(field, s[i])
			}
		}
		yield(string(field))
	}
}

// time returns that at the beginning of the line, as if it were UTC: 2021-11-23
// 10:06:29,404, or without milliseconds.
func (l *logReader) time() (int64, error) {
	s := l.text
	const seconds = "2006-01-02 15:04:05"
	if len(s) > len(seconds) {
		b := []byte(s[:len(seconds)])
		if b[10] == 'T' {
			b[10] = ' '
		}
		if t, err := time.Parse(seconds, string(b)); err == nil && t.UnixMilli() > 0 && t.UnixMilli() < maxTime {
			ms := int64(0)
			if rest := s[len(seconds):]; len(rest) > 3 && (rest[0] == ',' || rest[0] == '.') && input.Digits(rest[1:4]) {
				ms, _ = strconv.ParseInt(rest[1:4], 10, 64)
			}
			return t.UnixMilli() + ms, nil
		}
	}
	return 0, l.wrong("time", s[:min(len(s), len(seconds))], "want a line that begins like 2006-01-02 15:04:05,000")
}

func (l *logReader) wrong(field, value, reason string) error {
	return &input.SyntaxError{Line: l.line, Field: field, Value: input.Cut(value), Reason: reason}
}
