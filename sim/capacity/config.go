package capacity

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"headrace"
)

// Config is how YARN and the plug-in are set up. Use DefaultConfig and change it.
type Config struct {
	Queues []Queue `json:"queues"`
	// Heartbeat is the time between two of a node, at which it gives room away.
	Heartbeat time.Duration `json:"heartbeat"`
	// Monitor is the time between two looks at who has to give way. Warning is how long
	// a container has from its choice until it is killed.
	Monitor time.Duration `json:"monitor"`
	Warning time.Duration `json:"warning"`
	// PerRound is the share of the cluster that one look takes back at most;
	// NaturalTermination the part that it takes of what a queue has too much, and
	// Ignored how much more than its guarantee a queue may have, as a part of that.
	PerRound           float64 `json:"per_round"`
	NaturalTermination float64 `json:"natural_termination"`
	Ignored            float64 `json:"ignored"`
	// IntraQueue has applications make room for others of their queue that have a
	// higher priority.
	IntraQueue bool `json:"intra_queue"`
	// Elsewhere is how long what is put aside waits for room on its own node before it
	// may go on on another one; 0: it never does.
	Elsewhere time.Duration `json:"elsewhere"`
}

// Queue is one queue. Capacity and Maximum are shares of the cluster in percent: what
// it is guaranteed, which may be nothing, and the most that it may have.
type Queue struct {
	Name     string  `json:"name"`
	Capacity float64 `json:"capacity"`
	Maximum  float64 `json:"maximum"`
	// Priority is that of the queue among queues.
	Priority int `json:"priority"`
	// Least and Most are the priorities of the tasks that it takes.
	Least headrace.Priority `json:"least"`
	Most  headrace.Priority `json:"most"`
}

// Refuses reports whether even the whole maximum of q is too little for a task, on a cluster with so many CPUs and so
// much memory.
func (q *Queue) Refuses(cpus float64, memory int64, allCPUs float64, allMemory int64) bool {
	most := amount{allCPUs, allMemory}.times(q.Maximum / 100)
	return !amount{cpus, memory}.fits(most)
}

// QueueOf returns the queue that takes a priority; nil if none does.
func (c *Config) QueueOf(p headrace.Priority) *Queue {
	for i := range c.Queues {
		if q := &c.Queues[i]; q.Least <= p && p <= q.Most {
			return q
		}
	}
	return nil
}

// DefaultConfig returns what YARN does when nothing is said, with two queues: almost
// everything belongs to the urgent one, and the other may use what that does not.
func DefaultConfig() Config {
	return Config{
		Queues: []Queue{
			{Name: "low", Capacity: 10, Maximum: 100, Least: headrace.Free, Most: headrace.High},
			{Name: "high", Capacity: 90, Maximum: 100, Least: headrace.High + 1, Most: headrace.MaxPriority},
		},
		Heartbeat: time.Second, Monitor: 3 * time.Second, Warning: 15 * time.Second,
		PerRound: 0.1, NaturalTermination: 0.2, Ignored: 0.1,
	}
}

// Validate says what is wrong with c, all of it, or returns nil.
func (c Config) Validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("capacity scheduler: "+format, args...))
		}
	}
	need(c.Heartbeat > 0, "heartbeat %v: want more than 0", c.Heartbeat)
	need(c.Monitor > 0, "monitoring interval %v: want more than 0", c.Monitor)
	need(c.Warning >= 0 && c.Elsewhere >= 0, "times cannot be negative")
	need(c.PerRound > 0 && c.PerRound <= 1, "preemption per round %v: want more than 0 and at most 1", c.PerRound)
	need(c.NaturalTermination > 0 && c.NaturalTermination <= 1, "natural termination %v: want more than 0 and at most 1", c.NaturalTermination)
	need(c.Ignored >= 0 && !math.IsInf(c.Ignored, 1), "ignored over capacity %v: want 0 or more", c.Ignored)
	sum, names := 0.0, map[string]bool{}
	var takes [headrace.MaxPriority + 1]int
	for _, q := range c.Queues {
		need(q.Name != "" && !names[q.Name], "queue %q: want a name of its own", q.Name)
		names[q.Name] = true
		need(q.Capacity >= 0 && q.Maximum > 0 && q.Maximum >= q.Capacity && q.Maximum <= 100,
			"queue %s has a capacity of %v %% and a maximum of %v %%: want 0 or more, a maximum above 0 and no less than the capacity, and at most 100", q.Name, q.Capacity, q.Maximum)
		need(q.Least <= q.Most && q.Most <= headrace.MaxPriority, "queue %s takes priorities %d to %d: want 0 to %d", q.Name, uint8(q.Least), uint8(q.Most), headrace.MaxPriority)
		for p := q.Least; p <= min(q.Most, headrace.MaxPriority); p++ {
			takes[p]++
		}
		sum += q.Capacity
	}
	need(math.Abs(sum-100) < 1e-6, "the capacities of queues add up to %v %%: want 100", sum)
	for p, n := range takes {
		need(n == 1, "%d queues take tasks of priority %d: want one", n, p)
	}
	return errors.Join(errs...)
}

// ParseQueues reads queues, each as NAME=CAPACITY:PRIORITIES, to which may be added its
// maximum and its own priority: high=90:9-11:100:1.
func ParseQueues(texts []string) ([]Queue, error) {
	var queues []Queue
	for _, text := range texts {
		q, err := parseQueue(text)
		if err != nil {
			return nil, fmt.Errorf("queue %q: want NAME=CAPACITY:PRIORITIES[:MAXIMUM[:PRIORITY]], such as high=90:9-11:100:1: %w", text, err)
		}
		queues = append(queues, q)
	}
	return queues, nil
}

func parseQueue(text string) (q Queue, err error) {
	name, rest, _ := strings.Cut(text, "=")
	parts := strings.Split(rest, ":")
	if len(parts) < 2 || len(parts) > 4 {
		return q, fmt.Errorf("it has %d parts", len(parts))
	}
	parts = append(parts, []string{"100", "0"}[len(parts)-2:]...)
	q.Name = name
	from, to, span := strings.Cut(parts[1], "-")
	if !span {
		to = from
	}
	errs := make([]error, 5)
	q.Capacity, errs[0] = strconv.ParseFloat(parts[0], 64)
	q.Least, errs[1] = headrace.ParsePriority(from)
	q.Most, errs[2] = headrace.ParsePriority(to)
	q.Maximum, errs[3] = strconv.ParseFloat(parts[2], 64)
	q.Priority, errs[4] = strconv.Atoi(parts[3])
	return q, errors.Join(errs...)
}

// settings are the properties that Set knows, by YARN's names and our own.
var settings = map[string]func(*Config, string) error{
	"yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": millis(func(c *Config) *time.Duration { return &c.Heartbeat }),
	preemption + "monitoring_interval":                        millis(func(c *Config) *time.Duration { return &c.Monitor }),
	preemption + "max_wait_before_kill":                       millis(func(c *Config) *time.Duration { return &c.Warning }),
	preemption + "total_preemption_per_round":                 share(func(c *Config) *float64 { return &c.PerRound }),
	preemption + "natural_termination_factor":                 share(func(c *Config) *float64 { return &c.NaturalTermination }),
	preemption + "max_ignored_over_capacity":                  share(func(c *Config) *float64 { return &c.Ignored }),
	"headrace.elsewhere.after-ms":                             millis(func(c *Config) *time.Duration { return &c.Elsewhere }),
	preemption + "intra-queue-preemption.enabled": func(c *Config, v string) (err error) {
		c.IntraQueue, err = strconv.ParseBool(v)
		return err
	},
}

const preemption = "yarn.resourcemanager.monitor.capacity.preemption."

func millis(of func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.ParseUint(v, 10, 31)
		*of(c) = time.Duration(n) * time.Millisecond
		return err
	}
}

func share(of func(*Config) *float64) func(*Config, string) (err error) {
	return func(c *Config, v string) (err error) {
		*of(c), err = strconv.ParseFloat(v, 64)
		return err
	}
}

// Set sets a property by the name that it has in yarn-site.xml, or by the last parts of
// that.
func (c *Config) Set(property, value string) error {
	for name, set := range settings {
		if name != property && !strings.HasSuffix(name, "."+property) {
			continue
		}
		if err := set(c, value); err != nil {
			return fmt.Errorf("%s: %q is no value for it: %w", property, value, err)
		}
		return nil
	}
	return fmt.Errorf("%s: there are %s", property, strings.Join(slices.Sorted(maps.Keys(settings)), ", "))
}
