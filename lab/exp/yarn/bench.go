package yarn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"headrace/cli"
	"headrace/lab/rig"
	"headrace/lab/trial"
	"headrace/lab/yarn"
)

// bench runs the experiments on YARN. It has one cluster at a time.
type bench struct {
	o     *Options
	res   *Results
	h     *rig.Bench
	group *rig.Group // of all processes of clusters

	cluster *yarn.Cluster
	masters *yarn.Masters
	setup   yarnSetup // of the cluster
	daemons string    // policy and store of Headrace's; empty: there are none

	places    map[string]yarnPlace // stores
	storeDirs []string             // of the daemons, for checkpoints
	runs      int                  // so far; numbers names
}

// yarnSetup is a cluster that can serve several runs.
type yarnSetup struct {
	mode  yarn.Mode
	nodes int
	// memory of a node in MB.
	memory int
}

// yarnTime is a bound for a pair or a workload that does not come to an end.
const (
	pairTime     = 5 * time.Minute
	workloadTime = 20 * time.Minute
)

// heartbeatHere is that of the NodeManagers.
const heartbeatHere = 200 * time.Millisecond

// ignoredHere is how much more than it is entitled to a queue may have.
const ignoredHere = 0.2

// yarnProperties change YARN's defaults where jobs of high priority would not have it
// on a small cluster. A queue may have a little more than it is entitled to, because
// containers are large. And the queue of high priority gets what becomes free: by
// YARN's default a container that was just killed would be started again, because its
// queue has nothing any more, and killed again.
var yarnProperties = map[string]string{
	"yarn.resourcemanager.monitor.capacity.preemption.max_ignored_over_capacity": strconv.FormatFloat(ignoredHere, 'g', -1, 64),
	"yarn.scheduler.capacity.root.ordering-policy":                               "priority-utilization",
	"yarn.scheduler.capacity.root.high.priority":                                 "1",
}

// minRunHere is how long a container that came back runs at least; tasks are short
// here.
const minRunHere = "1s"

func modeOf(policy string) yarn.Mode {
	switch policy {
	case "wait":
		return yarn.Wait
	case "kill":
		return yarn.Kill
	}
	return yarn.Headrace
}

// ready has the cluster of a setup run, with Headrace's daemons as they are to be.
func (b *bench) ready(ctx context.Context, s yarnSetup, policy, store string) error {
	if b.cluster != nil && b.setup != s {
		if err := b.stop(); err != nil {
			return err
		}
	}
	if b.cluster == nil {
		if err := b.start(ctx, s); err != nil {
			return err
		}
	}
	if s.mode != yarn.Headrace {
		return nil
	}
	wanted := policy + " " + store
	if b.daemons == wanted {
		return nil
	}
	if b.daemons != "" {
		if err := errors.Join(b.cluster.StopDaemons(), b.dropStores()); err != nil {
			return err
		}
	}
	b.daemons = wanted
	flags, err := b.nodeFlags(ctx, s.nodes, policy, store)
	if err != nil {
		return err
	}
	return b.cluster.StartDaemons(ctx, policy, func(node int) []string { return flags[node] })
}

func (b *bench) start(ctx context.Context, s yarnSetup) (err error) {
	b.h.Say(0, "starting YARN, %v", s.mode)
	wrap := b.group.Enter(&exec.Cmd{}).Args
	b.cluster, err = yarn.Start(ctx, yarn.Options{Mode: s.mode, Jars: b.o.Jars, Dir: b.h.Disk.Dir, Nodes: s.nodes, Memory: s.memory,
		Heartbeat: heartbeatHere, Properties: yarnProperties, Wrap: wrap, Binary: b.h.Programs.Headrace, NoDaemons: true,
		ManagerFlags: []string{"--min-run", minRunHere}, NodeFlags: append([]string{"--no-warm"}, b.o.SoloFlags...)})
	if err != nil {
		return err
	}
	b.setup, b.daemons = s, ""
	if err := b.cluster.LogMarks(ctx); err != nil {
		return err
	}
	b.masters, err = b.cluster.Masters(ctx)
	return err
}

// stop ends the cluster, if there is one. What it has left behind is an error.
func (b *bench) stop() error {
	if b.cluster == nil {
		return nil
	}
	err := errors.Join(b.cluster.Stop(), b.dropStores())
	b.cluster, b.masters = nil, nil
	return err
}

// abandon ends a cluster in which something has gone wrong.
func (b *bench) abandon() error {
	if b.cluster == nil {
		return nil
	}
	err := errors.Join(b.cluster.Abandon(), b.dropStores())
	b.cluster, b.masters = nil, nil
	return err
}

// entry is one run of a plan.
type entry struct {
	setup         yarnSetup
	policy, store string
	kind          string // Case of a pair
	run           func(context.Context, *bench) (Run, error)
	bound         time.Duration
}

func (e entry) String() string {
	s := Run{Policy: e.policy, Store: e.store}.called()
	if e.kind != "" {
		s += ", " + e.kind
	}
	return s
}

// repeat carries out all entries once per repeat, each time in another order in which
// those that can share a cluster follow each other.
func (b *bench) repeat(ctx context.Context, experiment string, repeats int, entries []entry) error {
	return trial.Rounds[entry, Run]{Repeats: repeats, Seed: b.o.Seed, Entries: entries, Say: b.h.Say, Name: "(" + experiment + ") ",
		Order: func(r *rand.Rand) []int { return shuffled(entries, r) },
		Run:   func(e entry) (Run, error) { return b.once(ctx, e) },
		Keep: func(e entry, x Run, t trial.Turn) {
			x.Experiment, x.Policy, x.Store, x.Case = experiment, e.policy, e.store, e.kind
			x.Repeat, x.Order, x.Failure = t.Repeat, t.Order, t.Failure
			b.res.Runs = append(b.res.Runs, x)
		},
	}.Do(ctx, &b.res.Circumstances)
}

// shuffled returns an order of the entries in which those of one setup are together.
func shuffled(entries []entry, r *rand.Rand) []int {
	out := r.Perm(len(entries))
	place := map[yarnSetup]int{}
	for _, i := range out {
		if _, ok := place[entries[i].setup]; !ok {
			place[entries[i].setup] = len(place)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return place[entries[a].setup] - place[entries[b].setup] })
	return out
}

// once does one run. After one that has failed nothing of it is left, nor of the
// cluster.
func (b *bench) once(ctx context.Context, e entry) (Run, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.bound, fmt.Errorf("%w: not over after %v", rig.ErrWrong, e.bound))
	defer cancel()
	b.runs++
	if err := b.ready(ctx, e.setup, e.policy, e.store); err != nil {
		return Run{}, errors.Join(err, b.abandon())
	}
	warm := b.cool(e.store)
	r, err := e.run(ctx, b)
	warm()
	if err == nil {
		err = b.cluster.AwaitIdle(ctx)
	}
	if err != nil {
		if keep := os.Getenv(keepYarnEnv); keep != "" {
			err = errors.Join(err, b.keepLogs(keep))
		}
		return r, errors.Join(err, b.abandon())
	}
	return r, nil
}

// keepYarnEnv names the variable with a directory in which the logs of clusters are
// kept in which a run has failed; empty: nowhere.
const keepYarnEnv = "HEADRACE_YARN_KEEP"

func (b *bench) keepLogs(dir string) error {
	return os.CopyFS(filepath.Join(dir, fmt.Sprint("run", b.runs)), os.DirFS(filepath.Join(b.cluster.Dir, "log")))
}

// yarnTask is the command of a task as bash reads it, with its answer.
type yarnTask struct {
	rig.Job
	// accounts is the directory in which each attempt has its account.
	accounts string
	// mark is a file that the first task makes when so much is done; empty: none.
	mark  string
	share float64
}

// command runs in a container. Attempts are told apart by their containers.
func (t yarnTask) command(lab string) string {
	var args []string
	if t.mark != "" {
		args = append(args, "--mark", fmt.Sprintf("%g:%s", t.share, t.mark))
	}
	return fmt.Sprintf("GOGC=100 GOMAXPROCS=1 exec %s --account %s/$HEADRACE_TASK.$CONTAINER_ID %s", cli.CommandLine([]string{lab, "bench-task", t.Args[0]}),
		cli.CommandLine([]string{t.accounts}), cli.CommandLine(append(args, t.Args[1:]...)))
}
