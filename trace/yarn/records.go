package yarn

import (
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"headrace/trace/input"
	"headrace/trace/workload"
)

// records is what was found of applications and containers, in whatever order
// the files have it. Times are milliseconds: since 1970 from the REST API; those of
// logs are of a clock that may be ahead of UTC by zone.
type records struct {
	apps       map[appID]*application
	containers map[containerID]*container
	zone       int64
	zoneKnown  bool
}

// application is an application. Numbers are 0 where they are not known.
type application struct {
	name, queue, user                  string
	priority                           int64
	submitted, launched, finished      int64
	elapsed                            int64
	memorySeconds, vcoreSeconds        int64 // of containers: MB, vcores
	preemptions, preemptedVcoreSeconds int64
	logSubmitted                       int64
	started                            int64
	id                                 appID
	containers                         []*container
}

// container is a container.
type container struct {
	id                            containerID
	mb, vcores, priority          int64
	started, finished             int64
	logAllocated, logRun, logDone int64
	preempted                     bool
}

func newRecords() *records {
	return &records{apps: map[appID]*application{}, containers: map[containerID]*container{}}
}

func (y *records) app(id appID) *application {
	a := y.apps[id]
	if a == nil {
		a = &application{id: id}
		y.apps[id] = a
	}
	return a
}

func (y *records) container(id containerID) *container {
	c := y.containers[id]
	if c == nil {
		c = &container{id: id}
		y.containers[id] = c
	}
	return c
}

// kindOf returns how a file is read, by its name.
func kindOf(name string) string {
	name = strings.TrimSuffix(path.Base(name), ".gz")
	switch {
	case strings.HasSuffix(name, ".json"):
		return "json"
	case strings.HasSuffix(name, ".log"), strings.Contains(name, ".log."):
		return "log"
	}
	return ""
}

// Read reads records of YARN, from a file or from all files below a directory,
// into a sink.
func Read(m *input.Meter, name string, o Options, part workload.Part, to workload.Sink) (workload.About, error) {
	a := workload.About{Name: "yarn:" + name, Recorded: true}
	if err := o.check(); err != nil {
		return a, err
	}
	y := newRecords()
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return a, fmt.Errorf("trace: %w", err)
	case info.IsDir():
		err = m.WithDirectory(name, func(file string) bool { return kindOf(file) != "" }, "*.json or *.log", func(file string, r io.Reader) error { return y.file(m, file, r) })
	case kindOf(name) == "":
		return a, fmt.Errorf("trace: %s: want a file that ends in .json or .log (or .log.1 and so on), with .gz or without", name)
	default:
		err = m.WithFile(name, func(r io.Reader) error { return y.file(m, name, r) })
	}
	if err != nil {
		return a, err
	}
	if len(y.apps) == 0 && len(y.containers) == 0 {
		return a, fmt.Errorf("trace: %s: there are no applications and no containers in it", name)
	}
	return a, y.tasks(&o, part.Tasks, to, &a)
}

func (y *records) file(m *input.Meter, name string, r io.Reader) error {
	if kindOf(name) == "json" {
		return y.readJSON(m, r)
	}
	return y.readLog(m, r)
}

// appID and containerID are what the names application_TIME_NUMBER and
// container_[eEPOCH_]TIME_NUMBER_ATTEMPT_CONTAINER say.
type appID struct{ cluster, number int64 }

type containerID struct {
	app                    appID
	epoch, attempt, number int64
}

func (id appID) String() string { return fmt.Sprintf("application_%d_%04d", id.cluster, id.number) }

func parseApp(s string) (id appID, ok bool) {
	rest, ok := strings.CutPrefix(s, "application_")
	return id, ok && numbers(rest, &id.cluster, &id.number)
}

func parseContainer(s string) (id containerID, ok bool) {
	rest, ok := strings.CutPrefix(s, "container_")
	if e, after, found := strings.Cut(rest, "_"); found && strings.HasPrefix(e, "e") {
		if !numbers(e[1:], &id.epoch) {
			return id, false
		}
		rest = after
	}
	return id, ok && numbers(rest, &id.app.cluster, &id.app.number, &id.attempt, &id.number)
}

// numbers reads numbers that are joined by underscores.
func numbers(s string, to ...*int64) bool {
	for i, v := range to {
		field, rest, more := strings.Cut(s, "_")
		if more != (i < len(to)-1) || !input.Digits(field) || len(field) > 18 {
			return false
		}
		*v = 0
		for _, c := range []byte(field) {
			*v = *v*10 + int64(c-'0')
		}
		s = rest
	}
	return true
}

// jobName returns the name of an application for people, and unique.
func (a *application) jobName() string {
	if a.name == "" {
		return a.id.String()
	}
	return a.id.String() + ":" + a.name
}
