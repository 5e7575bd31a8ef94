package google2019

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"headrace"
	"headrace/trace/google"
	"headrace/trace/input"
	"headrace/trace/workload"
)

// maxObject is the most bytes of one event in JSON.
const maxObject = 1 << 20

// event is an event of an instance or of a collection, as both tables have it.
type event struct {
	Time           input.Scalar `json:"time"`
	Type           input.Scalar `json:"type"`
	Collection     input.Scalar `json:"collection_id"`
	CollectionType input.Scalar `json:"collection_type"`
	Class          input.Scalar `json:"scheduling_class"`
	Priority       input.Scalar `json:"priority"`
	Instance       input.Scalar `json:"instance_index"`
	Machine        input.Scalar `json:"machine_id"`
	Request        struct {
		CPUs   input.Scalar `json:"cpus"`
		Memory input.Scalar `json:"memory"`
	} `json:"resource_request"`
	User        string         `json:"user"`
	LogicalName string         `json:"collection_logical_name"`
	AllocSet    input.Scalar   `json:"alloc_collection_id"`
	StartAfter  []input.Scalar `json:"start_after_collection_ids"`
}

// record is an event, and how to say what is wrong with it.
type record struct {
	event
	wrong func(field, value, reason string) error
}

// kinds are the events by their names and published numbers.
var kinds = []string{"SUBMIT", "QUEUE", "ENABLE", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST", "UPDATE_PENDING", "UPDATE_RUNNING"}

// meant are the same in the trace of 2011; -1 has no meaning there.
var meant = []int{int(google.Submit), -1, -1, int(google.Schedule), int(google.Evict), int(google.Fail), int(google.Finish), int(google.Kill), int(google.Lost),
	int(google.UpdatePending), int(google.UpdateRunning)}

// lead is the time that the published times begin with; those of the end are the greatest
// that there is.
const lead = 600 * time.Second

// collection is what is known of a job beside its tasks.
type collection struct {
	name, user string
	after      []int64
}

// Read reads a directory with files instance_events* and maybe collection_events* into a
// sink. Tasks are made of events as in the trace of 2011 (google.Fold).
func Read(m *input.Meter, name string, g workload.Given, part workload.Part, to workload.Sink) (a workload.About, err error) {
	if err := g.Check(); err != nil {
		return a, err
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return a, fmt.Errorf("trace: %w", err)
	case !info.IsDir():
		return a, fmt.Errorf("trace: %s is a file: want the directory that has instance_events in it", name)
	}
	dir := m.Below(name)
	instances, err := files(dir, "instance_events")
	if err == nil && len(instances) == 0 {
		err = errors.New("there are no files instance_events*, as JSON lines or CSV, with .gz or without")
	}
	if err != nil {
		return a, fmt.Errorf("trace: %s: %w", name, err)
	}
	others, err := files(dir, "collection_events")
	if err != nil {
		return a, fmt.Errorf("trace: %s: %w", name, err)
	}
	m.Expect(dir, slices.Concat(instances, others))
	r := &reader{m: m, dir: dir, collections: map[int64]*collection{}}
	if a, err = r.all(instances, others, g, part, to); err != nil {
		return a, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

// all reads the files of both tables.
func (r *reader) all(instances, others []string, g workload.Given, part workload.Part, to workload.Sink) (a workload.About, err error) {
	if err := r.readCollections(others); err != nil {
		return a, err
	}
	fold := google.NewFold(google.Options{CPUs: g.CPUs, Memory: g.Memory, Assumed: g.Assumed}, part.From, part.For)
	if err := r.tasks(fold, instances, part.Names, to); err != nil {
		return a, err
	}
	a.Recorded, a.Outcome = true, fold.Outcome
	fold.Notes(&a)
	a.NoteSome(workload.Noted{N: r.allocs, Text: "events are of alloc sets, which reserve for tasks: left out"})
	return a, nil
}

// jobName returns the name of a job for people: its number, and its own name where that is
// known.
func (r *reader) jobName(id int64) string {
	if c := r.collections[id]; c != nil && c.name != "" {
		return fmt.Sprintf("%d:%s", id, c.name)
	}
	return strconv.FormatInt(id, 10)
}

// files returns those of a table, in order.
func files(dir fs.FS, table string) ([]string, error) {
	var found []string
	for _, pattern := range []string{table + "*", table + "/*"} {
		names, err := fs.Glob(dir, pattern)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if format(n) != "" {
				found = append(found, n)
			}
		}
	}
	return found, nil
}

// format returns how a file is read, by its name; empty: not at all.
func format(name string) string {
	switch path.Ext(strings.TrimSuffix(name, ".gz")) {
	case ".json", ".jsonl", ".ndjson":
		return "json"
	case ".csv":
		return "csv"
	}
	return ""
}

type reader struct {
	m           *input.Meter
	dir         fs.FS
	collections map[int64]*collection
	allocs      int64
}

// events returns the events of files, one after the other.
func (r *reader) events(names []string) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		for _, name := range names {
			on := true
			err := input.Open(r.dir, name, func(in io.Reader) error {
				read := readJSON
				if format(name) == "csv" {
					read = readCSV
				}
				for e, err := range read(in) {
					if err != nil {
						return fmt.Errorf("%s: %w", name, err)
					}
					r.m.Record()
					inFile := e.wrong
					e.wrong = func(field, value, reason string) error {
						return fmt.Errorf("%s: %w", name, inFile(field, value, reason))
					}
					if on = yield(e, nil); !on {
						return nil
					}
				}
				return nil
			})
			if err != nil {
				yield(record{}, err)
			}
			if err != nil || !on {
				return
			}
		}
	}
}

func readJSON(in io.Reader) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		for o, err := range input.Objects[event](in, maxObject, "") {
			if !yield(record{o.Value, o.Wrong}, err) {
				return
			}
		}
	}
}

// readCSV reads a table; resource_request may be two columns, with a point, an underscore or
// nothing before their names.
func readCSV(in io.Reader) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		for row, err := range input.Table(in, ',', nil) {
			var e record
			if err == nil && !row.Has("collection_id") {
				err = row.Wrong("", "", "the first line does not name the column collection_id: want a table as BigQuery exports it")
			}
			if err == nil {
				get := func(names ...string) input.Scalar { return input.Scalar(row.Get(names...)) }
				e.event = event{Time: get("time"), Type: get("type"), Collection: get("collection_id"), CollectionType: get("collection_type"),
					Class: get("scheduling_class"), Priority: get("priority"), Instance: get("instance_index"), Machine: get("machine_id"),
					AllocSet: get("alloc_collection_id"), User: row.Get("user"), LogicalName: row.Get("collection_logical_name")}
				e.Request.CPUs = get("resource_request.cpus", "resource_request_cpus", "cpus")
				e.Request.Memory = get("resource_request.memory", "resource_request_memory", "memory")
				e.wrong = row.Wrong
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// whole reads a whole number of 0 to most; negative ones are 0.
func (e *record) whole(field string, s input.Scalar, most int64) (int64, error) {
	v, err := s.Whole(0)
	if err != nil || v > most {
		return 0, e.wrong(field, string(s), fmt.Sprintf("want a whole number, at most %d", most))
	}
	return max(v, 0), nil
}

// share reads a share of a machine; none is 0.
func (e *record) share(field string, s input.Scalar) (float64, error) {
	if s == "" {
		return 0, nil
	}
	v, ok := s.Float()
	if !ok || v < 0 || v > 1000 { // some ask for more than there is
		return 0, e.wrong(field, string(s), "want a share of the largest machine, such as 0.25")
	}
	return v, nil
}

// kind reads the type of an event, by its number or name.
func (e *record) kind() (int, error) {
	if i := slices.Index(kinds, strings.ToUpper(string(e.Type))); i >= 0 {
		return i, nil
	}
	if v, err := e.Type.Whole(-1); err == nil && v >= 0 && int(v) < len(kinds) {
		return int(v), nil
	}
	return 0, e.wrong("type", string(e.Type), "want one of "+strings.Join(kinds, ", ")+", or its number")
}

// alloc reports whether it is about an alloc set.
func (e *record) alloc() bool {
	return e.CollectionType == "1" || strings.EqualFold(string(e.CollectionType), "ALLOC_SET")
}

// priority returns what a priority of 0 to 450 becomes: the tiers keep their order, and the
// bands are those of Headrace: free, best effort and mid in the middle, production above.
func priority(p int64) headrace.Priority {
	switch {
	case p < 25:
		return 0
	case p <= 99:
		return 1
	case p <= 109:
		return 2
	case p <= 112:
		return 3 // best-effort batch
	case p <= 115:
		return 4
	case p <= 117:
		return 6 // mid
	case p <= 119:
		return 7
	case p < 200:
		return 9 // production
	case p < 360:
		return 10
	}
	return headrace.MaxPriority // monitoring
}

// readCollections reads names, users and dependencies of jobs.
func (r *reader) readCollections(names []string) error {
	for e, err := range r.events(names) {
		if err != nil {
			return err
		}
		if e.alloc() {
			continue
		}
		id, err := e.whole("collection_id", e.Collection, math.MaxInt64)
		if err != nil {
			return err
		}
		c := r.collections[id]
		if c == nil {
			c = &collection{}
			r.collections[id] = c
		}
		if c.name == "" {
			c.name = input.Shown(e.LogicalName)
		}
		if c.user == "" {
			c.user = input.Shown(e.User)
		}
		if len(c.after) == 0 {
			for _, s := range e.StartAfter {
				before, err := e.whole("start_after_collection_ids", s, math.MaxInt64)
				if err != nil {
					return err
				}
				c.after = append(c.after, before)
			}
		}
	}
	return nil
}

// tasks gives the tasks to a sink, and the names of their jobs if they matter.
func (r *reader) tasks(fold *google.Fold, files []string, named bool, to workload.Sink) error {
	jobs := int32(0)
	stages := map[int64]int32{}
	stage := func(id int64) int32 {
		if stages[id] == 0 {
			stages[id] = to.Stage()
		}
		return stages[id]
	}
	before := map[int64]bool{} // collections that others start after
	for _, c := range r.collections {
		for _, b := range c.after {
			before[b] = true
		}
	}
	users := []int32{}
	own := []int32{} // stages of jobs
	for t, err := range fold.Tasks(r.foldable(files)) {
		if err != nil {
			return err
		}
		for ; jobs <= t.Job; jobs++ {
			id, name := fold.JobID(jobs), ""
			if named {
				name = r.jobName(id)
			}
			to.Job(name)
			user, s := int32(0), int32(0)
			if c := r.collections[id]; c != nil {
				user = to.User(c.user)
				if len(c.after) > 0 {
					s = stage(id)
				}
				for _, b := range c.after {
					to.After(s, stage(b))
				}
			}
			if before[id] {
				s = stage(id)
			}
			users, own = append(users, user), append(own, s)
		}
		t.User, t.Stage = users[t.Job], own[t.Job]
		if err := to.Task(t); err != nil {
			return err
		}
	}
	return nil
}

// foldable returns events of instances in the form of those of 2011.
func (r *reader) foldable(names []string) iter.Seq2[google.Event, error] {
	return func(yield func(google.Event, error) bool) {
		last := time.Duration(0)
		for e, err := range r.events(names) {
			var v google.Event
			meaning := -1
			switch {
			case err != nil:
			case e.alloc():
				r.allocs++
				continue
			default:
				v, meaning, err = e.old()
			}
			if err == nil && meaning < 0 {
				continue
			}
			if err == nil && v.At < last {
				err = e.wrong("time", string(e.Time), "earlier than the event before: want all events in the order of time, over all files")
			}
			last = v.At
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// old returns an event as one of 2011, and its meaning there, -1 if it has none.
func (e *record) old() (v google.Event, meaning int, err error) {
	kind, err := e.kind()
	if err != nil {
		return v, -1, err
	}
	if meaning = meant[kind]; meaning < 0 {
		return v, -1, nil
	}
	v.Kind = google.Kind(meaning)
	var at, index, class, urgent int64
	for _, f := range []struct {
		to    *int64
		field string
		s     input.Scalar
		most  int64
	}{
		{&at, "time", e.Time, math.MaxInt64}, {&v.Job, "collection_id", e.Collection, math.MaxInt64}, {&index, "instance_index", e.Instance, math.MaxInt32},
		{&v.Machine, "machine_id", e.Machine, math.MaxInt64}, {&class, "scheduling_class", e.Class, int64(workload.Classes) - 1}, {&urgent, "priority", e.Priority, 1 << 20},
	} {
		if *f.to, err = e.whole(f.field, f.s, f.most); err != nil {
			return v, -1, err
		}
	}
	v.Task, v.Class, v.Priority, v.Within = int32(index), uint8(class), priority(urgent), int32(urgent)
	v.At = google.After
	if at < int64(google.After/time.Microsecond) {
		v.At = max(0, time.Duration(at)*time.Microsecond-lead)
	}
	if v.CPUs, err = e.share("resource_request.cpus", e.Request.CPUs); err == nil {
		v.Memory, err = e.share("resource_request.memory", e.Request.Memory)
	}
	return v, meaning, err
}
