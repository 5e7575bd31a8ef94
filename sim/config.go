package sim

import (
	"errors"
	"fmt"
	"math"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/sim/capacity"
	"headrace/trace"
)

// Config is a cluster and how it is run. Use DefaultConfig and change it.
type Config struct {
	// Nodes is how many there are, each like Node, unless there are several Kinds.
	Nodes int  `json:"nodes"`
	Node  Node `json:"node"`
	// Kinds are the nodes where they are not all alike. Nodes is the number of them all, and
	// CPUs, Memory, Swap and Counted of Node do not count.
	Kinds []Kind `json:"kinds,omitempty"`
	// Medium holds the checkpoints, on every node one.
	Medium Medium `json:"medium"`
	Costs  Costs  `json:"costs"`
	Power  Power  `json:"power"`
	// Reading is how inputs are read; tasks without an input do not care.
	Reading Reading `json:"reading"`

	Policy policy.Config `json:"policy"`
	// Capacity has YARN's CapacityScheduler decide who runs, and Policy only how who has
	// to make room gives way; nil: the scheduler of the daemon decides.
	Capacity *capacity.Config `json:"capacity,omitempty"`
	// Interval is the least time from one decision to the next; 0: the daemon of one machine,
	// which decides as soon as something has happened.
	Interval time.Duration `json:"interval"`
	// KnowShare: tasks say how much of them is done (headrace.Progress.Share).
	KnowShare bool `json:"know_share"`

	// Seed decides where files lie.
	Seed uint64 `json:"seed"`
	// Check verifies the invariants of the package comment as it runs; a violation
	// ends the run with an error.
	Check bool `json:"-"`
	// Observe, unless nil, is called after each decision, with what the policy saw and
	// what it ordered; both are valid during the call only.
	Observe func(at time.Duration, v *headrace.View, orders []headrace.Order) `json:"-"`
}

// Node is one machine. Bandwidths are in bytes per second.
type Node struct {
	CPUs   float64 `json:"cpus"`
	Memory int64   `json:"memory"`
	Swap   int64   `json:"swap"`
	// Counted is how many it has of what is counted, such as gpu, by name.
	Counted map[string]float64 `json:"counted,omitempty"`
	// SwapOut and SwapIn are the bandwidths of paging, those of the medium where they
	// are 0.
	SwapOut float64 `json:"swap_out"`
	SwapIn  float64 `json:"swap_in"`
	// Net is the bandwidth to other nodes; 0: tasks never move.
	Net float64 `json:"net"`
	// Store is the room for checkpoints.
	Store int64 `json:"store"`
}

// Medium is what checkpoints are kept on, as it was measured.
type Medium struct {
	// Name is hdd, ssd, nvm or whatever the file of measurements calls it.
	Name string `json:"name"`
	// Write and Read are the bandwidths of whole dumps and restores, in bytes per
	// second.
	Write float64 `json:"write"`
	Read  float64 `json:"read"`
	// DumpOverhead and RestoreOverhead do not depend on the size.
	DumpOverhead    time.Duration `json:"dump_overhead"`
	RestoreOverhead time.Duration `json:"restore_overhead"`
}

// Costs are the times that mechanisms take apart from moving memory, and shares of
// processors, as measured.
type Costs struct {
	Start time.Duration `json:"start"`
	Kill  time.Duration `json:"kill"`
	Stop  time.Duration `json:"stop"`
	// Resume is from the order until the first instruction, without page-ins.
	Resume time.Duration `json:"resume"`
	// Moving is how many processors a dump or a restore keeps busy; for the energy.
	Moving float64 `json:"moving"`
}

// Power is what a node draws, in watts: Idle when nothing runs, Peak when all CPUs
// are busy, in proportion in between (checkpoint-preemption, section 3.3.2).
type Power struct {
	Idle float64 `json:"idle"`
	Peak float64 `json:"peak"`
}

// MaxChain is how many checkpoints of a task build on each other; the next one is
// complete.
const MaxChain = 5

// DefaultConfig returns a cluster of one node, with what was measured of the first
// medium of DefaultMeasurements; a person will want to change it.
func DefaultConfig() Config {
	const gib = 1 << 30
	c := Config{
		Nodes:    1,
		Node:     Node{CPUs: 16, Memory: 96 * gib, Swap: 96 * gib, Net: 125e6, Store: 2048 * gib},
		Power:    Power{Idle: 100, Peak: 250},
		Interval: time.Second,
		Reading:  defaultReading(),
	}
	m := DefaultMeasurements()
	if err := m.Apply(&c, m.Media[0].Name); err != nil {
		panic("sim/media.json: " + err.Error())
	}
	return c
}

// Validate says what is wrong with c, all of it, or returns nil.
func (c Config) Validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("sim: "+format, args...))
		}
	}
	finite := func(v float64) bool { return v > 0 && !math.IsInf(v, 1) }
	need(c.Nodes > 0 && c.Nodes <= mostNodes, "%d nodes: want 1 to %d", c.Nodes, mostNodes)
	sum := 0
	for _, k := range c.AllKinds() {
		need(k.Nodes > 0 && k.Nodes <= mostNodes, "%d nodes: want 1 to %d", k.Nodes, mostNodes)
		need(finite(k.CPUs), "%v CPUs in a node: want more than 0", k.CPUs)
		need(k.Memory > 0, "%d bytes of memory in a node: want more than 0", k.Memory)
		need(k.Swap >= 0, "swap cannot be negative")
		for name, n := range k.Counted {
			need(name != "" && n >= 0 && !math.IsInf(n, 1), "%v of %q in a node: want a name, and 0 or more", n, name)
		}
		sum += k.Nodes
	}
	need(sum == c.Nodes, "%d nodes are of some kind, and there are %d", sum, c.Nodes)
	need(c.Node.Store >= 0, "room for checkpoints cannot be negative")
	need(c.Node.SwapOut >= 0 && c.Node.SwapIn >= 0, "bandwidths of paging cannot be negative")
	need(c.Node.Net >= 0, "bandwidth of the network %v: want 0 or more", c.Node.Net)
	need(finite(c.Medium.Write) && finite(c.Medium.Read), "storage %q: want bandwidths above 0", c.Medium.Name)
	need(c.Medium.DumpOverhead >= 0 && c.Medium.RestoreOverhead >= 0, "storage %q: overheads cannot be negative", c.Medium.Name)
	need(min(c.Costs.Start, c.Costs.Kill, c.Costs.Stop, c.Costs.Resume) >= 0 && c.Costs.Moving >= 0, "costs cannot be negative")
	need(c.Power.Idle >= 0 && c.Power.Peak >= c.Power.Idle, "power %v to %v W: want 0 or more, and no less at the peak", c.Power.Idle, c.Power.Peak)
	need(c.Interval >= 0, "interval %v: want 0 or more", c.Interval)
	c.Reading.validate(need)
	errs = append(errs, c.Policy.Validate())
	if c.Capacity != nil {
		errs = append(errs, c.Capacity.Validate())
	}
	return errors.Join(errs...)
}

const (
	mostNodes = 1_000_000
	year      = 8766 * time.Hour
	mostTime  = 100 * year
)

// check says why w cannot be run on the nodes of c.
func (c Config) check(w *trace.Workload) error {
	if len(w.Tasks) == 0 {
		return errors.New("sim: the workload has no tasks")
	}
	big, ganged := 0, 0
	var work, longest float64 // core-seconds, seconds
	var cpus float32
	var memory int64
	large, refusing := c.TooLarge(w), map[string]bool{}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		switch {
		case i > 0 && t.Submit < w.Tasks[i-1].Submit:
			return fmt.Errorf("sim: task %d of the workload is submitted before the one before it", i)
		case t.Job < 0 || int(t.Job) >= len(w.Jobs):
			return fmt.Errorf("sim: task %d of the workload is of job %d, of which there are %d", i, t.Job, len(w.Jobs))
		case t.User < 0 || int(t.User) > len(w.Users):
			return fmt.Errorf("sim: task %d of the workload is of user %d, of which there are %d", i, t.User, len(w.Users))
		case t.Run < 0 || !(t.CPUs >= 0) || t.Memory < 0 || !(t.Grow >= 0) || !(t.Dirty >= 0) || t.Submit < 0 || t.Priority > headrace.MaxPriority:
			return fmt.Errorf("sim: task %d of the workload, of job %s, has a value that cannot be", i, w.Jobs[t.Job])
		}
		if large(t) {
			big++
			if t.Gang != 0 {
				ganged++
			}
			if queue := c.Refusing(t); queue != "" {
				refusing[queue] = true
			}
			cpus, memory = max(cpus, t.CPUs), max(memory, t.Memory)
		}
		work += t.Run.Seconds() * float64(t.CPUs)
		longest = max(longest, t.Run.Seconds())
	}
	// Four times, because work may be done again.
	took := w.Tasks[len(w.Tasks)-1].Submit.Seconds() + longest + 4*work/c.CPUs()
	if took > mostTime.Seconds() {
		return fmt.Errorf("sim: the workload would take about %.0f years: the simulator's clock has %.0f", took/year.Seconds(), mostTime.Hours()/year.Hours())
	}
	if big > 0 {
		together := ""
		if ganged > 0 {
			together = fmt.Sprintf(", or are of a gang (%d) that does not fit on all %d nodes together", ganged, c.Nodes)
		}
		if len(refusing) > 0 {
			together += fmt.Sprintf(", or ask for more than the maximum of their queue (%s)", sorted(refusing))
		}
		return fmt.Errorf("sim: %d of %d tasks fit on no node%s, the largest with %.3g CPUs and %d MiB: a node has %s; give nodes at least as much, or leave these tasks out (--skip-too-large)",
			big, len(w.Tasks), together, cpus, memory>>20, c.Sizes())
	}
	return c.checkReading(w)
}
