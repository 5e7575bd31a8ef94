package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/lab/exp/order"
	"headrace/lab/exp/warm"
	"headrace/lab/trial"
	"headrace/trace/swim"
)

// experimentFlags are those that the experiments on reading have in common.
func experimentFlags(cmd *cobra.Command, o *trial.Options) {
	flags := cmd.Flags()
	flags.BoolVar(&o.Quick, "quick", false, "the smallest sizes and fewest points: seconds, not measurements")
	flags.IntVar(&o.Repeats, "repeats", 0, "how often everything runs (default 3; 1 with --quick)")
	flags.Uint64Var(&o.Seed, "seed", 1, "orders what is compared")
	flags.StringVar(&o.HTML, "html", "", "a `FILE` for the page")
	flags.StringVar(&o.JSON, "json", "", "a `FILE` for every single measurement, packed if it ends in .gz")
	flags.StringVar(&o.Markdown, "markdown", "", "a `FILE` for the tables as Markdown")
	flags.StringVar(&o.From, "from", "", "run nothing: report on this `FILE`, written by --json")
	placeFlags(cmd, &o.Dir, &o.SoloFlags)
}

// placeFlag is the disk of an experiment that is run on one.
func placeFlag(cmd *cobra.Command, place *string) {
	cmd.Flags().StringVar(place, "place", "modelled", "where the data lie: on a modelled hard disk, or on a device of this machine")
	cli.CompleteValues(cmd, "place", "modelled", "device")
}

func benchWarmVerb(a *app) *cobra.Command {
	var o warm.Options
	var licence bool
	cmd := &cobra.Command{
		Use:   "warm",
		Short: "A day of a cluster: inputs cold, warmed, and in memory beforehand",
		Long: `Warm replays the first jobs of a day of Facebook's cluster, scaled down, with
their inputs on a modelled hard disk: cold, warmed while the jobs wait, warmed
in the order of submission, and with all inputs in memory beforehand. Then it
runs single jobs, with and without a delay that gives warming more time. It
needs root and FUSE for the modelled disk.`,
		Example: `  headrace-lab bench warm
  headrace-lab bench warm --quick --html out/warm.html
  headrace-lab bench warm --jobs 60 --span 10s --repeats 5
  headrace-lab bench warm --from out/warm.json --markdown out/warm.md`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if licence {
				_, err := fmt.Fprint(a.out, swim.License)
				return err
			}
			o.Output = a.output()
			return warm.Measure(cmd.Context(), o)
		},
	}
	experimentFlags(cmd, &o.Options)
	cmd.Flags().IntVar(&o.Jobs, "jobs", 0, "how many jobs of the day (default 150; 20 with --quick)")
	cmd.Flags().DurationVar(&o.Span, "span", 0, "the time in which they are submitted (default 24s; 2s with --quick)")
	placeFlag(cmd, &o.Place)
	cmd.Flags().BoolVar(&licence, "trace-licence", false, "print the licence of the trace and end")
	return cmd
}

func benchOrderVerb(a *app) *cobra.Command {
	var o order.Options
	var memory cli.Size
	cmd := &cobra.Command{
		Use:   "order",
		Short: "Two jobs on the same data: what is in memory goes first, or not",
		Long: `Order runs two identical jobs, one after the other, on data sets of 0.67, 1.33
and 2.67 times the memory that they may use, and measures what of the second
job's reading comes from memory. It needs root and FUSE for the modelled disk,
and a memory cgroup.`,
		Example: `  headrace-lab bench order
  headrace-lab bench order --quick --html out/order.html
  headrace-lab bench order --memory 1G --repeats 5
  headrace-lab bench order --from out/order.json --markdown out/order.md`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Output = a.output()
			o.Memory = int64(memory)
			return order.Measure(cmd.Context(), o)
		},
	}
	experimentFlags(cmd, &o.Options)
	placeFlag(cmd, &o.Place)
	cmd.Flags().Var(&memory, "memory", "what daemon, tasks and page cache have together (default 512M; 128M with --quick)")
	return cmd
}
