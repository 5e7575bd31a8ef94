package main

import (
	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/lab/exp/yarn"
)

func benchYarnVerb(a *app) *cobra.Command {
	var o yarn.Options
	cmd := &cobra.Command{
		Use:   "yarn",
		Short: "YARN's preemption as it is, and with Headrace",
		Long: `Yarn starts a real ResourceManager and real NodeManagers on this machine, with
stock preemption, without any, and with Headrace's plug-ins and daemons, and lets
jobs of high priority take the place of others. It measures response, work that was
lost, processor time that was wasted, and energy by the papers' model. It needs
root, Java, and the jars that "make java" gathers (HEADRACE_HADOOP names another
directory).

  p  a pair: a low-priority job, and an urgent one when half of it is done
  w  a workload of 40 jobs in two priorities, made from a day of Facebook's cluster`,
		Example: `  headrace-lab bench yarn
  headrace-lab bench yarn --quick --html out/yarn.html
  headrace-lab bench yarn --only p --policies kill,suspend --repeats 5
  headrace-lab bench yarn --only w --scale 2.5
  headrace-lab bench yarn --from out/yarn.json --markdown out/yarn.md
  headrace-lab bench yarn --from out/yarn.json --calibrate`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Output, o.Version = a.output(), cli.Version
			return yarn.Measure(cmd.Context(), o)
		},
	}
	experimentFlags(cmd, &o.Options)
	flags := cmd.Flags()
	flags.Lookup("repeats").Usage = "how often a pair runs under each policy (default 3; 1 with --quick)"
	flags.Lookup("solo-flag").Usage = "one more `FLAG` for the node daemons; may be repeated"
	progressFlag(cmd, &o.Options)
	flags.StringSliceVar(&o.Only, "only", nil, "the experiments to run: p, w (default: both)")
	flags.StringSliceVar(&o.Policies, "policies", nil, "the policies to compare: wait, kill, suspend, checkpoint, adaptive, cost (default: all, wait with p only)")
	flags.IntVar(&o.Workloads, "workloads", 1, "how often the workload runs under each policy")
	flags.Float64Var(&o.Scale, "scale", 1, "how much longer tasks are, and gaps between jobs")
	flags.BoolVar(&o.Calibrate, "calibrate", false, "show what the simulator makes of the workload, and how far that is off")
	cli.CompleteValues(cmd, "only", yarn.Experiments...)
	cli.CompleteValues(cmd, "policies", yarn.Policies...)
	return cmd
}
