package simulate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/cmd/headrace/outfile"
	"headrace/cmd/headrace/traces"
	"headrace/policy"
	"headrace/sim"
)

// usualPolicies are compared unless something else is asked for.
var usualPolicies = cli.Texts([]policy.Name{policy.Kill, policy.Wait, policy.Suspend, policy.Checkpoint, policy.Adaptive, policy.Cost})

// simFlags are what is tried on what, and where the results go.
type simFlags struct {
	trace             string
	load              traces.Flags
	policies, storage []string
	media             string
	cluster           clusterFlags
	wanted            load
	skipTooLarge      bool
	nodesFor          string
	jobs              uint
	html, json        string
	csv, cdf          string
	tradeoff          string
	from, against     string
}

// verb runs sim.
type verb struct{ *cli.App }

// Verb returns the verb sim.
func Verb(app *cli.App) *cobra.Command {
	a := verb{app}
	var f simFlags
	cmd := &cobra.Command{
		Use:   "sim --trace SOURCE",
		Short: "Tell what policies and storage would do to a cluster's work",
		Long: `Sim runs the tasks of a trace on a cluster that does not exist, under the very
policies that run live, once for each policy and each kind of storage, and
compares them: wasted work, response times, energy, what is written and read.
It needs no daemon, no root and no cluster.

A trace is one of these; without the format in front it is told by the name:

` + traces.SourceForms + `

Kill and wait do not use storage and run once. Swap lies on the storage, unless
--swap-rate says how fast it is. What storage can do is measured: see --media.`,
		Example: `  headrace sim --trace synthetic:google-day --out report.html
  headrace sim --trace csv:tasks.csv.gz --nodes 200 --cores 16 --memory 64G --policy kill,cost --storage ssd
  headrace sim --trace csv:tasks.csv.gz --nodes 180x16:64G,8x64:512G:gpu=8
  headrace sim --trace yarn:rm-logs --nodes 40 --cores 32 --memory 128G --start 8h --for 4h --json results.json
  headrace sim --from results.json --out report.html
  headrace sim --from results.json --against before.json`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.from != "" {
				return a.again(cmd.Context(), &f, cmd)
			}
			return a.sim(cmd.Context(), &f, cmd.Flags().Changed)
		},
	}
	f.define(cmd)
	return cmd
}

func (f *simFlags) define(cmd *cobra.Command) {
	flags, media := cmd.Flags(), sim.DefaultMeasurements().Names()
	flags.SortFlags = false
	flags.StringVar(&f.trace, "trace", "", "the `SOURCE` of the tasks: see above")
	flags.StringSliceVar(&f.policies, "policy", usualPolicies, "the `POLICIES` to compare")
	flags.StringSliceVar(&f.storage, "storage", nil, "the `MEDIA` that checkpoints are kept on: "+strings.Join(media, ", ")+" (default: "+strings.Join(usualMedia, ", ")+")")
	flags.StringVar(&f.media, "media", "", "a `FILE` with measurements of storage, to take instead of those that come with this program")
	f.cluster.define(cmd)
	flags.StringVar(&f.nodesFor, "nodes-for", "", "find how few nodes are enough for a `GOAL` such as 'production 95% < 10m'")
	f.load.Define(cmd)
	flags.Var(&f.wanted, "load", "stretch the times between submissions so that tasks ask for this share of the CPUs, such as 90%")
	flags.BoolVar(&f.skipTooLarge, "skip-too-large", false, "leave out tasks that fit on no node or in no queue, and gangs that do not fit on all together")
	flags.UintVar(&f.jobs, "jobs", 0, "run this `NUMBER` at a time (default: as many as there are processors)")
	flags.StringVar(&f.html, "out", "", "a `FILE` for the page")
	flags.StringVar(&f.json, "json", "", "a `FILE` for all results, from which --from makes the report again")
	flags.StringVar(&f.csv, "csv", "", "a `FILE` for the figures as CSV, a row for each run")
	flags.StringVar(&f.cdf, "cdf", "", "a `FILE` for the distributions of response as CSV")
	flags.StringVar(&f.tradeoff, "tradeoff", "", "a `FILE` for a picture of waste against response, as SVG")
	flags.StringVar(&f.from, "from", "", "run nothing: report on this `FILE`, written by --json")
	flags.StringVar(&f.against, "against", "", "compare with this `FILE`, written by --json before")
	cli.CompleteLists(cmd, "policy", cli.Texts(policy.Names())...)
	cli.CompleteLists(cmd, "storage", media...)
	traces.CompleteSources(cmd, "trace")
}

// sim runs everything and reports on it.
func (a verb) sim(ctx context.Context, f *simFlags, changed func(string) bool) error {
	measured, err := readMeasurements(f.media)
	if err != nil {
		return err
	}
	s := simulation{run: sim.Run}
	config, err := f.cluster.config(changed)
	if err != nil {
		return err
	}
	var wanted *goal
	if f.nodesFor != "" {
		if wanted, err = f.search(changed); err != nil {
			return err
		}
	}
	if s.groups, err = f.plan(measured); err != nil {
		return err
	}
	if err := f.checkFiles(); err != nil {
		return err
	}
	before, err := readResults("--against", f.against)
	if err != nil {
		return err
	}
	if s.workload, err = traces.Load(ctx, a.App, f.trace, &f.load); err != nil {
		return outfile.NothingWritten(ctx, err)
	}
	if err := f.cluster.place(&config, s.workload.Cluster); err != nil {
		return err
	}
	config.Seed = f.load.Seed
	if err := config.Validate(); err != nil {
		return cli.UsageErrorf("%w", err)
	}
	a.Notes(sim.Ignores(s.workload, &config))
	notes, err := f.adjust(s.workload, &config)
	if err != nil {
		return err
	}
	a.Notes(notes)
	s.configure = func(r simRun) (sim.Config, error) {
		c := config
		c.Policy.Policy = r.policy
		if r.nodes > 0 {
			c.Nodes = r.nodes
		}
		err := measured.Apply(&c, r.medium)
		return c, err
	}
	s.jobs = f.runsAtATime(len(s.groups))
	results, failed := a.watched(ctx, &s, func() ([]*sim.Result, error) {
		if wanted == nil {
			return s.results(ctx)
		}
		tried, found, err := s.findNodes(ctx, *wanted, config.Nodes)
		a.Notes(found)
		return tried, err
	})
	if len(results) == 0 {
		return outfile.NothingWritten(ctx, failed)
	}
	if ctx.Err() != nil {
		// What has ended is reported all the same; a second interrupt ends that, too.
		ctx = context.WithoutCancel(ctx)
		failed = cli.Exit(cli.ExitInterrupted, fmt.Errorf("interrupted: reported are the %d of %d runs that had ended", len(results), s.watch.todo))
	}
	return errors.Join(a.report(ctx, f, results, before, aboutRuns(s.workload, measured)), failed)
}

// plan returns what has to be run.
func (f *simFlags) plan(measured sim.Measurements) ([][]simRun, error) {
	policies, err := parsePolicies(f.policies)
	if err != nil {
		return nil, err
	}
	media, err := chooseMedia(measured.Names(), f.storage)
	if err != nil {
		return nil, err
	}
	if len(f.cluster.sizes) < 2 {
		return planRuns(policies, media), nil
	}
	var groups [][]simRun
	for _, group := range planRuns(policies, media) {
		for _, nodes := range f.cluster.sizes {
			sized := slices.Clone(group)
			for i := range sized {
				sized[i].nodes = nodes
			}
			groups = append(groups, sized)
		}
	}
	return groups, nil
}

// runsAtATime returns how many groups of runs the machine has processors for. Memory is
// no bound: a run holds little more than the tasks that wait or run at one time.
func (f *simFlags) runsAtATime(groups int) int {
	if f.jobs > 0 {
		return min(int(f.jobs), groups)
	}
	return min(runtime.GOMAXPROCS(0), groups)
}

// search returns what --nodes-for asks for, and chooses what is compared by it.
func (f *simFlags) search(changed func(string) bool) (*goal, error) {
	g, err := parseGoal(f.nodesFor)
	switch {
	case err != nil:
		return nil, err
	case len(f.cluster.sizes) > 1 || len(f.cluster.kinds) > 0:
		return nil, cli.UsageErrorf("--nodes-for finds the number of nodes, all alike: give one number of --nodes to begin with, or none")
	case f.wanted > 0:
		return nil, cli.UsageErrorf("--load is a share of a cluster whose size --nodes-for is to find: leave one of them out")
	}
	if !changed("policy") {
		f.policies = enoughPolicies
	}
	if !changed("storage") {
		f.storage = enoughMedia
	}
	return &g, nil
}

// watched runs a simulation, and shows how far it is.
func (a verb) watched(ctx context.Context, s *simulation, run func() ([]*sim.Result, error)) ([]*sim.Result, error) {
	bar := a.Bar()
	defer bar.Done()
	s.watch = &simWatch{bar: bar, out: a.Err, now: time.Now}
	for _, group := range s.groups {
		s.watch.todo += len(group)
	}
	return run()
}
