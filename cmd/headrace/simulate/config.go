package simulate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/policy"
	"headrace/sim"
	"headrace/sim/capacity"
	"headrace/trace"
)

// clusterFlags are the cluster and how it is run; what is not said is what the
// trace says, or sim.DefaultConfig.
type clusterFlags struct {
	nodes, has                         []string
	sizes                              []int // of --nodes, or
	kinds                              []sim.Kind
	cores                              cli.CPUs
	memory, swap, swapRate, store, net cli.Size
	swapGiven                          bool
	idleWatts, peakWatts               float64
	interval                           cli.Span
	known, check                       bool
	scheduler                          string
	queues, properties                 []string
	victims                            string
	minRun, ageing                     cli.Rule
	disk, shared, cache, warm          cli.Size
	replicas                           uint
	lead                               cli.Span
	byResidency                        bool
}

func (f *clusterFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	d := sim.DefaultConfig()
	flags.StringSliceVar(&f.nodes, "nodes", nil, "the cluster has this `NUMBER` of nodes; several: each is tried; NUMBERxCORES:MEMORY[:gpu=8] for each kind where they are not alike; @FILE: a line for each (default: as the trace says)")
	flags.Var(&f.cores, "cores", "the CPUs of a node (default: as the trace says)")
	flags.Var(&f.memory, "memory", "the memory of a node (default: as the trace says)")
	flags.StringSliceVar(&f.has, "node-has", nil, "what a node has of what is counted beside these: `NAME=NUMBER`, such as gpu=8 (default: such needs are not counted)")
	flags.Var(&f.swap, "swap", "the swap of a node; 0: none (default: as much as it has memory)")
	flags.Var(&f.swapRate, "swap-rate", "what swap writes and reads in a second (default: as the storage; that is where swap lies)")
	flags.Var(&f.store, "store", "the room of a node for checkpoints (default "+cli.SizeText(d.Node.Store)+")")
	flags.Var(&f.net, "net", "what a node can send in a second; 0: tasks never move (default "+cli.SizeText(int64(d.Node.Net))+")")
	flags.Float64Var(&f.idleWatts, "idle-watts", d.Power.Idle, "the `WATTS` that a node draws when nothing runs")
	flags.Float64Var(&f.peakWatts, "peak-watts", d.Power.Peak, "the `WATTS` that it draws when all CPUs are busy")
	flags.Var(&f.interval, "interval", "the least time from one decision to the next (default "+d.Interval.String()+")")
	flags.StringVar(&f.scheduler, "scheduler", ownScheduler, "who decides when tasks run: "+spokenSchedulers+", YARN's, with whose victims the policy deals")
	flags.StringSliceVar(&f.queues, "queues", nil, "capacity: its `QUEUES`, each NAME=CAPACITY:PRIORITIES[:MAXIMUM[:PRIORITY]] (default low=10:0-8,high=90:9-11)")
	flags.StringSliceVar(&f.properties, "property", nil, "capacity: a `NAME=VALUE` of yarn-site.xml, such as max_wait_before_kill=5000; may be repeated")
	flags.BoolVar(&f.known, "known", false, "tasks say how much of them is done")
	flags.StringVar(&f.victims, "victims", "", "the `ORDER` of who makes room first: "+cli.List(policy.VictimOrders())+" (default: by policy)")
	flags.Var(&f.minRun, "min-run", "how long a task runs between two preemptions; 0: no such rule (default 5s)")
	flags.Var(&f.ageing, "ageing", "how long a task waits for its priority to rise by one; 0: no such rule (default 10m)")
	flags.BoolVar(&f.check, "check", false, "verify while it runs that nothing is lost or used twice")
	cli.CompleteValues(cmd, "victims", cli.Texts(policy.VictimOrders())...)
	cli.CompleteValues(cmd, "scheduler", ownScheduler, yarnScheduler)
	f.defineReading(cmd, d.Reading)
}

// defineReading defines what matters to tasks that have an input.
func (f *clusterFlags) defineReading(cmd *cobra.Command, d sim.Reading) {
	flags := cmd.Flags()
	flags.Var(&f.disk, "disk", "inputs: what a disk reads in a second for one reader; 0: inputs take no time (default "+cli.SizeText(int64(d.Disk))+")")
	flags.Var(&f.shared, "disk-shared", "inputs: what it reads for several together when nobody puts them in order (default "+cli.SizeText(int64(d.Shared))+")")
	flags.UintVar(&f.replicas, "replicas", uint(d.Replicas), "inputs: a block lies on this `NUMBER` of nodes")
	flags.Var(&f.cache, "cache", "inputs: the page cache of a node (default "+cli.SizeText(d.Cache)+")")
	flags.Var(&f.warm, "warm", "inputs: how much of that is filled ahead of readers; 0: nothing (default "+cli.SizeText(d.Buffer)+")")
	flags.Var(&f.lead, "lead", "inputs: how long before its tasks a job is announced, so that its input can be warmed")
	flags.BoolVar(&f.byResidency, "by-residency", d.ByResidency, "inputs: tasks go where theirs is in memory")
}

// config returns that of every run, without the cluster. changed tells which flags were
// given.
func (f *clusterFlags) config(changed func(string) bool) (sim.Config, error) {
	c := sim.DefaultConfig()
	c.Check, c.KnowShare = f.check, f.known
	c.Power = sim.Power{Idle: f.idleWatts, Peak: f.peakWatts}
	c.Policy.MinRun, c.Policy.Ageing = time.Duration(f.minRun), time.Duration(f.ageing)
	c.Reading.ByResidency, c.Reading.Replicas, c.Reading.Lead = f.byResidency, int(f.replicas), time.Duration(f.lead)
	for _, set := range []struct {
		flag string
		to   func()
	}{
		{"swap", func() { c.Node.Swap, f.swapGiven = int64(f.swap), true }},
		{"swap-rate", func() { c.Node.SwapOut, c.Node.SwapIn = float64(f.swapRate), float64(f.swapRate) }},
		{"store", func() { c.Node.Store = int64(f.store) }},
		{"net", func() { c.Node.Net = float64(f.net) }},
		{"interval", func() { c.Interval = time.Duration(f.interval) }},
		{"disk", func() { c.Reading.Disk = float64(f.disk) }},
		{"disk-shared", func() { c.Reading.Shared = float64(f.shared) }},
		{"cache", func() { c.Reading.Cache, c.Reading.Buffer = int64(f.cache), min(c.Reading.Buffer, int64(f.cache)) }},
		{"warm", func() { c.Reading.Buffer = int64(f.warm) }},
	} {
		if changed(set.flag) {
			set.to()
		}
	}
	switch {
	case c.Power.Idle > c.Power.Peak:
		return c, cli.UsageErrorf("--idle-watts %v is more than --peak-watts %v", c.Power.Idle, c.Power.Peak)
	case c.Reading.Buffer > c.Reading.Cache:
		return c, cli.UsageErrorf("--warm %s is more than the page cache, --cache %s", cli.SizeText(c.Reading.Buffer), cli.SizeText(c.Reading.Cache))
	}
	err := errors.Join(f.schedule(&c, changed), f.parseNodes())
	if err != nil {
		return c, err
	}
	if len(f.has) > 0 {
		if c.Node.Counted, err = parseCounted(f.has); err != nil {
			return c, cli.UsageErrorf("--node-has %w", err)
		}
	}
	if c.Policy.VictimOrder, err = policy.ParseVictimOrder(f.victims); err != nil {
		return c, cli.UsageErrorf("--victims: %w", err)
	}
	if err := c.Policy.Validate(); err != nil {
		return c, cli.UsageErrorf("%w", err)
	}
	return c, nil
}

// The values of --scheduler.
const (
	ownScheduler     = "headrace"
	yarnScheduler    = "capacity"
	spokenSchedulers = ownScheduler + " or " + yarnScheduler
)

// schedule says who schedules.
func (f *clusterFlags) schedule(c *sim.Config, changed func(string) bool) (err error) {
	switch f.scheduler {
	case ownScheduler:
		for _, flag := range []string{"queues", "property"} {
			if changed(flag) {
				return cli.UsageErrorf("--%s is about --scheduler %s", flag, yarnScheduler)
			}
		}
		return nil
	case yarnScheduler:
	default:
		return cli.UsageErrorf("--scheduler %q: there are %s and %s", f.scheduler, ownScheduler, yarnScheduler)
	}
	yarn := capacity.DefaultConfig()
	if len(f.queues) > 0 {
		if yarn.Queues, err = capacity.ParseQueues(f.queues); err != nil {
			return cli.UsageErrorf("--queues: %w", err)
		}
	}
	for _, p := range f.properties {
		name, value, _ := strings.Cut(p, "=")
		if err := yarn.Set(name, value); err != nil {
			return cli.UsageErrorf("--property %w", err)
		}
	}
	if err := yarn.Validate(); err != nil {
		return cli.UsageErrorf("%w", err)
	}
	if !changed("interval") {
		c.Interval = yarn.Heartbeat // so that all nodes have theirs at once
	}
	c.Capacity = &yarn
	return nil
}

// place says what cluster it is: the one that the trace ran on, but for what was given.
func (f *clusterFlags) place(c *sim.Config, on trace.Cluster) error {
	if len(f.kinds) > 0 {
		f.placeKinds(c)
		return nil
	}
	c.Nodes, c.Node.CPUs, c.Node.Memory = on.Nodes, on.CPUs, on.Memory
	if len(f.sizes) > 0 {
		c.Nodes = f.sizes[0]
	}
	if f.cores > 0 {
		c.Node.CPUs = float64(f.cores)
	}
	if f.memory > 0 {
		c.Node.Memory = int64(f.memory)
	}
	if !f.swapGiven {
		c.Node.Swap = c.Node.Memory
	}
	var missing []string
	for _, need := range []struct {
		flag string
		have bool
	}{{"--nodes", c.Nodes > 0}, {"--cores", c.Node.CPUs > 0}, {"--memory", c.Node.Memory > 0}} {
		if !need.have {
			missing = append(missing, need.flag)
		}
	}
	if len(missing) > 0 {
		return cli.UsageErrorf("the trace does not say what cluster it is for: give %s", Spoken(missing))
	}
	return nil
}

// Spoken returns a list as it is said: a, b and c.
func Spoken(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// parsePolicies reads the names of policies; each is taken once.
func parsePolicies(names []string) ([]policy.Name, error) {
	var policies []policy.Name
	for _, name := range names {
		p, err := policy.ParsePolicy(name)
		if err != nil || name == "" {
			return nil, cli.UsageErrorf("--policy %q: there are %s", name, cli.List(policy.Names()))
		}
		if !slices.Contains(policies, p) {
			policies = append(policies, p)
		}
	}
	if len(policies) == 0 {
		return nil, cli.UsageErrorf("--policy: name one or more of %s", cli.List(policy.Names()))
	}
	return policies, nil
}

// readMeasurements returns what is known of storage and of the costs of mechanisms:
// from a file, or without one what comes with this program.
func readMeasurements(path string) (sim.Measurements, error) {
	if path == "" {
		return sim.DefaultMeasurements(), nil
	}
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return sim.Measurements{}, fmt.Errorf("--media %s: there is no such file; headrace-lab bench preempt --media writes one", path)
		}
		return sim.Measurements{}, fmt.Errorf("--media: %w", err)
	}
	defer f.Close()
	m, err := sim.ReadMeasurements(f)
	if err != nil {
		return m, fmt.Errorf("--media %s: %w", path, err)
	}
	return m, nil
}

// usualMedia are compared unless something else is asked for. What is measured on
// one machine only (disk) is not among them.
var usualMedia = []string{"hdd", "ssd", "nvm"}

// chooseMedia takes those of the known media that are named. If none is, it takes the
// usual ones, or all where those are not known.
func chooseMedia(known, names []string) ([]string, error) {
	if len(names) == 0 {
		usual := slices.DeleteFunc(slices.Clone(usualMedia), func(m string) bool { return !slices.Contains(known, m) })
		if len(usual) == 0 {
			return known, nil
		}
		return usual, nil
	}
	var chosen []string
	for _, name := range names {
		i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, strings.TrimSpace(name)) })
		if i < 0 {
			return nil, cli.UsageErrorf("--storage %q: there are %s; others can be described in a file for --media", name, strings.Join(known, ", "))
		}
		if !slices.Contains(chosen, known[i]) {
			chosen = append(chosen, known[i])
		}
	}
	return chosen, nil
}
