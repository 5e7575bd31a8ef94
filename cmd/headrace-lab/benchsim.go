package main

import (
	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/lab/exp/sim"
	"headrace/lab/shapes"
	"headrace/policy"
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
  headrace-lab bench sim --only shapes --shape gpus --load 120 --seed 1128 --repeats 1 --moved 20
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
	shapeFlags(cmd, &o.Shapes)
	flags.StringVar(&o.Media, "media", "", "a `FILE` of bench preempt --media (default: what comes with the program)")
	flags.StringVar(&o.Tradeoff, "tradeoff", "", "a `FILE` for a picture of who waits on the shapes with GPUs and gangs, as SVG")
	cli.CompleteValues(cmd, "only", sim.Experiments...)
	return cmd
}

// shapeFlags adds the flags that say what the experiment shapes runs.
func shapeFlags(cmd *cobra.Command, o *sim.ShapeOptions) {
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Names, "shape", nil, "the `SHAPES` to run (default: all)")
	flags.Float64SliceVar(&o.Loads, "load", nil, "what shapes are run at, in `PERCENT` of what their clusters have (default 70,90,105,120)")
	flags.IntVar(&o.Tasks, "tasks", 0, "how many tasks each shape has (default 1000; 60 with --quick)")
	flags.IntVar(&o.Moved, "moved", 0, "how many `TIMES` each shape is run again with each job moved by up to 5 s")
	flags.IntSliceVar(&o.Priorities, "priorities", nil, "the priorities of low, middle and urgent jobs of shapes (default 0,4,9)")
	flags.StringVar((*string)(&o.Victims), "victims", "", "the `ORDER` of who makes room first under the policy cost on shapes: "+cli.List(policy.VictimOrders())+" (default: its own)")
	flags.Float64Var(&o.Doubling, "doubling", 0, "by how many `STEPS` of priority a second weighs twice as much for the policy cost on shapes (default 6); -1: all weigh the same")
	cli.CompleteValues(cmd, "victims", cli.Texts(policy.VictimOrders())...)
	var names []string
	for _, x := range shapes.All() {
		names = append(names, x.Name)
	}
	cli.CompleteValues(cmd, "shape", names...)
}
