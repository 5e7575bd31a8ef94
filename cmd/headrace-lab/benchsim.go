package main

import (
	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/lab/exp/sim"
)

func benchSimVerb(a *app) *cobra.Command {
	var o sim.Options
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "The published figures on simulated clusters, and how far to trust them",
		Long: `Sim runs the policies on clusters that do not exist: a day like that of Google's
cluster with checkpoints on slow, faster and fast storage, and a day of Facebook's
with inputs read cold, warmed and in order. It measures how far the simulator is off
the real daemon. Only calibration needs root.

  3            kill, checkpoint, suspend and cost on the day (figure 3)
  5            adaptive against always checkpointing (figure 5)
  cost         what the policy cost wastes, and what it costs urgent jobs
  seeds        all of that for several days
  swim         what warming and order gain
  ignem        what warming gains with ignem's workload, at its scale
  quartet      the second of two jobs on the same file, at quartet's scale
  shapes       cost against kill, suspend and checkpoint on work that nobody tuned on
  calibration  the same small workload live and simulated`,
		Example: `  headrace-lab bench sim
  headrace-lab bench sim --quick --html out/sim.html
  headrace-lab bench sim --only 3,5,cost --media media.json
  headrace-lab bench sim --only shapes --seed 100 --repeats 2 --tasks 500
  headrace-lab bench sim --from out/sim.json --markdown out/sim.md`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Output, o.Version = a.output(), cli.Version
			return sim.Measure(cmd.Context(), o)
		},
	}
	experimentFlags(cmd, &o.Options)
	flags := cmd.Flags()
	flags.Lookup("seed").Usage = "of the first day and of shapes; the next ones have the numbers after it"
	flags.Lookup("repeats").Usage = "how many seeds days and shapes have, and how often the calibration runs (default 5; 2 with --quick)"
	flags.StringSliceVar(&o.Only, "only", nil, "the experiments to run: "+cli.List(sim.Experiments)+" (default: all)")
	flags.StringVar(&o.Trace, "trace", "", "the `TRACE` of the day (default synthetic:google-day)")
	flags.StringVar(&o.Swim, "swim", "", "the `TRACE` for reading (default swim:facebook-day)")
	flags.Float64Var(&o.Scale, "scale", 0, "the size of the day, if it is synthetic (default 1; 0.02 with --quick)")
	flags.IntVar(&o.ShapeTasks, "tasks", 0, "how many tasks each shape has (default 1000; 60 with --quick)")
	flags.StringVar(&o.Media, "media", "", "a `FILE` of bench preempt --media (default: what comes with the program)")
	flags.StringVar(&o.Tradeoff, "tradeoff", "", "a `FILE` for a picture of who waits on the shapes with GPUs and gangs, as SVG")
	cli.CompleteValues(cmd, "only", sim.Experiments...)
	return cmd
}
