package trace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode"
)

// yarnRecords is what was found of applications and containers, in whatever order
// the files have it. Times are milliseconds: since 1970 from the REST API; those of
// logs are of a clock that may be ahead of UTC by zone.
type yarnRecords struct {
	apps       map[yarnAppID]*yarnApp
	containers map[yarnContainerID]*yarnContainer
	zone       int64
	zoneKnown  bool
}

// yarnApp is an application. Numbers are 0 where they are not known.
type yarnApp struct {
	name, queue                        string
	priority                           int64
	submitted, launched, finished      int64
	elapsed                            int64
	memorySeconds, vcoreSeconds        int64 // of containers: MB, vcores
	preemptions, preemptedVcoreSeconds int64
	logSubmitted                       int64
	started                            int64
	id                                 yarnAppID
	containers                         []*yarnContainer
}

// yarnContainer is a container.
type yarnContainer struct {
	id                            yarnContainerID
	mb, vcores, priority          int64
	started, finished             int64
	logAllocated, logRun, logDone int64
	preempted                     bool
}

func newYarnRecords() *yarnRecords {
	return &yarnRecords{apps: map[yarnAppID]*yarnApp{}, containers: map[yarnContainerID]*yarnContainer{}}
}

func (y *yarnRecords) app(id yarnAppID) *yarnApp {
	a := y.apps[id]
	if a == nil {
		a = &yarnApp{id: id}
		y.apps[id] = a
	}
	return a
}

func (y *yarnRecords) container(id yarnContainerID) *yarnContainer {
	c := y.containers[id]
	if c == nil {
		c = &yarnContainer{id: id}
		y.containers[id] = c
	}
	return c
}

// yarnKind returns how a file is read, by its name.
func yarnKind(name string) string {
	name = strings.TrimSuffix(path.Base(name), ".gz")
	switch {
	case strings.HasSuffix(name, ".json"):
		return "json"
	case strings.HasSuffix(name, ".log"), strings.Contains(name, ".log."):
		return "log"
	}
	return ""
}

// readYarn reads records of YARN, from a file or from all files below a directory,
// into a sink.
func readYarn(m *meter, name string, o OpenOptions, to sink) (about, error) {
	a := about{Name: "yarn:" + name, Recorded: true}
	if err := o.Yarn.check(); err != nil {
		return a, err
	}
	y := newYarnRecords()
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return a, fmt.Errorf("trace: %w", err)
	case info.IsDir():
		err = y.directory(m, name)
	case yarnKind(name) == "":
		return a, fmt.Errorf("trace: %s: want a file that ends in .json or .log (or .log.1 and so on), with .gz or without", name)
	default:
		err = m.withFile(name, func(r io.Reader) error { return y.file(m, name, r) })
	}
	if err != nil {
		return a, err
	}
	if len(y.apps) == 0 && len(y.containers) == 0 {
		return a, fmt.Errorf("trace: %s: there are no applications and no containers in it", name)
	}
	return a, y.tasks(&o.Yarn, o.mostTasks(), to, &a)
}

func (y *yarnRecords) directory(m *meter, name string) error {
	dir := meteredFS{os.DirFS(name), m}
	var files []string
	err := fs.WalkDir(dir.FS, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && yarnKind(p) != "" {
			files = append(files, p)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = errors.New("there are no files *.json or *.log, with .gz or without")
	}
	if err != nil {
		return fmt.Errorf("trace: %s: %w", name, err)
	}
	m.expect(dir, files)
	for _, f := range files {
		err := withFile(dir, f, func(r io.Reader) error { return y.file(m, f, r) })
		if err != nil {
			return fmt.Errorf("%s: %w", path.Join(name, f), err)
		}
	}
	return nil
}

func (y *yarnRecords) file(m *meter, name string, r io.Reader) error {
	if yarnKind(name) == "json" {
		return y.readJSON(m, r)
	}
	return y.readLog(m, r)
}

// yarnAppID and yarnContainerID are what the names application_TIME_NUMBER and
// container_[eEPOCH_]TIME_NUMBER_ATTEMPT_CONTAINER say.
type yarnAppID struct{ cluster, number int64 }

type yarnContainerID struct {
	app                    yarnAppID
	epoch, attempt, number int64
}

func (id yarnAppID) String() string { return fmt.Sprintf("application_%d_%04d", id.cluster, id.number) }

func parseYarnApp(s string) (id yarnAppID, ok bool) {
	rest, ok := strings.CutPrefix(s, "application_")
	return id, ok && yarnNumbers(rest, &id.cluster, &id.number)
}

func parseYarnContainer(s string) (id yarnContainerID, ok bool) {
	rest, ok := strings.CutPrefix(s, "container_")
	if e, after, found := strings.Cut(rest, "_"); found && strings.HasPrefix(e, "e") {
		if !yarnNumbers(e[1:], &id.epoch) {
			return id, false
		}
		rest = after
	}
	return id, ok && yarnNumbers(rest, &id.app.cluster, &id.app.number, &id.attempt, &id.number)
}

// yarnNumbers reads numbers that are joined by underscores.
func yarnNumbers(s string, to ...*int64) bool {
	for i, v := range to {
		field, rest, more := strings.Cut(s, "_")
		if more != (i < len(to)-1) || !digits(field) || len(field) > 18 {
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
func (a *yarnApp) jobName() string {
	if a.name == "" {
		return a.id.String()
	}
	return a.id.String() + ":" + a.name
}

// shown makes a name one that can be shown, and not too long.
func shown(name string) string {
	const most = 100
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "..."
	}
	return name
}
