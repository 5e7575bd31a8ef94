package limits

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"headrace"
	"headrace/config"
	"headrace/report"
)

// None is the value of a limit in bytes or numbers that limits nothing.
const None = math.MaxInt64

// Limits are what one user may take.
type Limits struct {
	// Priority is the greatest that the user's tasks may have.
	Priority headrace.Priority
	// Slots and Memory, in bytes, are of all running tasks together; Slots is
	// infinite where there is no limit.
	Slots  float64
	Memory int64
	// Running is how many tasks may run at a time, Waiting how many may wait.
	Running, Waiting int64
	// SpecBytes is the size of commands, environments and paths of inputs of all tasks that
	// have not ended, in bytes.
	SpecBytes int64
	// LogBytes is what the logs of all tasks may hold on the disk, those of ended
	// tasks that are still kept among them.
	LogBytes int64
	// CheckpointBytes is what the checkpoints of all tasks may hold, in bytes, not counting what only older ones need.
	CheckpointBytes int64
	// Grace is the longest that the user may ask for at a suspend or a kill: while it
	// lasts the task runs on, and nothing else can be done to it.
	Grace time.Duration
}

// Unlimited returns the limits of root and of the daemon's own user.
func Unlimited() Limits { return unlimited.limits() }

// The keys of a section of limits. defaults are in the same order.
const (
	priority = iota
	slots
	memory
	running
	waiting
	specBytes
	logBytes
	checkpointBytes
	grace // in seconds
	keys
)

// values are limits by key; +Inf is none, NaN is not said.
type values [keys]float64

var keyNames = [keys]string{"priority", "slots", "memory", "running", "waiting", "spec-bytes", "log-bytes", "checkpoint-bytes", "grace"}

// Names returns the keys, in the order in which they are shown.
func Names() []string { return keyNames[:] }

var inf = math.Inf(1)

var (
	unlimited = values{float64(headrace.MaxPriority), inf, inf, inf, inf, inf, inf, inf, inf}
	// defaults leave the production band to root and to whom the file gives it, and
	// let nobody fill the queue, the daemon's memory or the disk, or keep a slot from
	// others for long.
	defaults = values{float64(headrace.High), inf, inf, inf, 10_000, 64e6, 10e9, 100e9, 60}
	unsaid   = func() (v values) {
		for i := range v {
			v[i] = math.NaN()
		}
		return v
	}()
)

// parse reads the value of a key; "none" is no limit.
func parse(key int, s string) (float64, error) {
	if s == "none" || s == "unlimited" {
		return unlimited[key], nil
	}
	switch key {
	case priority:
		p, err := headrace.ParsePriority(s)
		if err != nil {
			return 0, errors.New("want free, low, normal, high, production, a number from 0 to 11, or none")
		}
		return float64(p), nil
	case slots:
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(v) || v < 0 || v > 1e6 {
			return 0, errors.New("want a number of CPUs, such as 4 or 0.5, or none")
		}
		return v, nil
	case running, waiting:
		v, err := strconv.ParseUint(s, 10, 31)
		if err != nil {
			return 0, errors.New("want a number of tasks, such as 100, or none")
		}
		return float64(v), nil
	case grace:
		v, err := time.ParseDuration(s)
		if err != nil || v < 0 {
			return 0, errors.New("want a time such as 30s or 5m, or none")
		}
		return v.Seconds(), nil
	}
	v, err := config.Size(s)
	if err != nil {
		return 0, fmt.Errorf("%w, or none", err)
	}
	return float64(v), nil
}

// format returns the opposite of parse, for people.
func format(key int, v float64) string {
	switch {
	case key == priority:
		return headrace.Priority(v).String()
	case math.IsInf(v, 1):
		return "none"
	case key == memory || key == specBytes || key == logBytes || key == checkpointBytes:
		return report.Bytes(int64(v))
	case key == grace:
		return seconds(v).String()
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// seconds returns a time of so many; of infinitely many the longest there is.
func seconds(v float64) time.Duration {
	if v *= float64(time.Second); v < math.MaxInt64 {
		return time.Duration(v)
	}
	return math.MaxInt64
}

// or returns v with what it does not say taken from w.
func (v values) or(w values) values {
	for k := range v {
		if math.IsNaN(v[k]) {
			v[k] = w[k]
		}
	}
	return v
}

// most returns the more generous of v and w, key by key.
func (v values) most(w values) values {
	for k := range v {
		if math.IsNaN(v[k]) || v[k] < w[k] {
			v[k] = w[k]
		}
	}
	return v
}

// least returns the stricter of v and w, key by key.
func (v values) least(w values) values {
	for k := range v {
		if math.IsNaN(v[k]) || v[k] > w[k] {
			v[k] = w[k]
		}
	}
	return v
}

func (v values) limits() Limits {
	whole := func(k int) int64 {
		if v[k] >= None {
			return None
		}
		return int64(v[k])
	}
	return Limits{
		Priority: headrace.Priority(v[priority]), Slots: v[slots], Memory: whole(memory),
		Running: whole(running), Waiting: whole(waiting), SpecBytes: whole(specBytes), LogBytes: whole(logBytes),
		CheckpointBytes: whole(checkpointBytes),
		Grace:           seconds(v[grace]),
	}
}

// Use is what a user has in the queue already.
type Use struct {
	// Waiting tasks are those that have not ended and do not run.
	Waiting   int64
	SpecBytes int64
	// CheckpointBytes are in checkpoints.
	CheckpointBytes int64
}

// Ask is what somebody wants to hand in: so many tasks that are alike.
type Ask struct {
	Tasks     int64
	Priority  headrace.Priority
	CPUs      float64
	Memory    int64
	SpecBytes int64 // of all of them
}

// Refuse says why tasks cannot be accepted, by which limit, and what can be done
// about it; nil when they can. who is the name of the user, file where limits are
// set.
func (l Limits) Refuse(who, file string, a Ask, u Use) error {
	over := func(key int, format string, args ...any) error { return refusal(key, who, file, format, args...) }
	switch {
	case a.Priority > l.Priority:
		return over(priority, "priority %s is above %s, the greatest for %s; ask for %s or less", a.Priority, l.Priority, who, l.Priority)
	case a.CPUs > l.Slots:
		return over(slots, "%v cpus, but all tasks of %s together may have %v; ask for fewer", a.CPUs, who, l.Slots)
	case a.Memory > l.Memory:
		return over(memory, "%s of memory, but all tasks of %s together may have %s; ask for less", report.Bytes(a.Memory), who, report.Bytes(l.Memory))
	case l.Running == 0:
		return over(running, "%s may not run tasks here", who)
	case u.Waiting+a.Tasks > l.Waiting:
		return over(waiting, "%s has %d tasks waiting, and may have %d; wait until some have started or kill some", who, u.Waiting, l.Waiting)
	case u.SpecBytes+a.SpecBytes > l.SpecBytes:
		return over(specBytes, "commands, environments and paths of inputs of the tasks of %s take %s already, and may take %s; wait until some have ended, or hand in less environment, or directories in place of files",
			who, report.Bytes(u.SpecBytes), report.Bytes(l.SpecBytes))
	}
	return nil
}

// RefuseGrace says why somebody may not ask for a grace; nil when that is so.
func (l Limits) RefuseGrace(who, file string, asked time.Duration) error {
	if asked <= l.Grace {
		return nil
	}
	return refusal(grace, who, file, "a grace of %v: others may wait for its room meanwhile; %s may ask for %v", asked, who, l.Grace)
}

// RefuseCheckpoint says why a task of so much memory may not be checkpointed; nil when it may.
func (l Limits) RefuseCheckpoint(who, file string, bytes int64, u Use) error {
	if u.CheckpointBytes+bytes <= l.CheckpointBytes {
		return nil
	}
	return refusal(checkpointBytes, who, file, "checkpoints of %s hold %s already, and may hold %s; restore or kill some of those tasks",
		who, report.Bytes(u.CheckpointBytes), report.Bytes(l.CheckpointBytes))
}

// RefuseSuspend says why a task of so much memory may not be suspended by hand, by a user
// who has that held so already; nil when it may.
func (l Limits) RefuseSuspend(who, file string, bytes, held int64) error {
	if bytes <= l.Memory-held {
		return nil
	}
	return refusal(memory, who, file, "what %s has suspended holds %s of memory already, and may hold %s; checkpoint or kill it instead, or have others go on",
		who, report.Bytes(held), report.Bytes(l.Memory))
}

func refusal(key int, who, file, format string, args ...any) error {
	return &Refusal{Key: keyNames[key], text: fmt.Sprintf(format, args...) +
		fmt.Sprintf(" (limit %s of %s; root can raise it in %s)", keyNames[key], who, file)}
}

// Refusal is an error that names the limit that something would go beyond.
type Refusal struct {
	// Key is the limit, as the file calls it.
	Key  string
	text string
}

func (r *Refusal) Error() string { return r.text }

// Rows returns the limits in force, for people: a line of names, then who and the
// limits of each.
func (t *Table) Rows() [][]string {
	rows := [][]string{append([]string{"limits of"}, keyNames[:]...)}
	add := func(who string, v values) {
		row := []string{who}
		for k, x := range v {
			if math.IsNaN(x) {
				row = append(row, "")
				continue
			}
			row = append(row, format(k, x))
		}
		rows = append(rows, row)
	}
	add("everybody", t.all)
	for _, s := range t.order {
		add(strings.TrimPrefix(s, section+" "), t.said[s])
	}
	return rows
}
