package main

import (
	"errors"
	"flag"
	"os"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/lab/exp/preempt"
	"headrace/lab/trial"
	"headrace/lab/work"
)

func benchVerb(a *app) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "bench",
		Short: "Measure this machine: the experiments",
		Example: `  headrace-lab bench preempt
  headrace-lab bench preempt --quick --html out/preempt.html`,
	}, benchPreemptVerb(a), benchReadVerb(a), benchWarmVerb(a), benchOrderVerb(a), benchSimVerb(a), benchYarnVerb(a), benchHDFSVerb(a), benchShareVerb(a), benchDFSVerb(a))
}

func benchPreemptVerb(a *app) *cobra.Command {
	var o preempt.Options
	var bytes cli.Size
	cmd := &cobra.Command{
		Use:   "preempt",
		Short: "The experiments on preemption, side by side in one run",
		Long: `Preempt starts daemons of its own, one for each policy, lets an urgent task
arrive while another runs, and measures what that does to both. It needs root,
because it makes a swap file and storage of given speeds; it removes them again.

  a  light tasks
  b  both tasks with large dirty memory, under a limit that forces one out
  c  checkpoints to storage of several bandwidths
  d  a second checkpoint after a tenth of the memory has changed`,
		Example: `  headrace-lab bench preempt
  headrace-lab bench preempt --only a,d --repeats 3
  headrace-lab bench preempt --only c --no-progress
  headrace-lab bench preempt --html out/preempt.html --json out/preempt.json
  headrace-lab bench preempt --from out/preempt.json --markdown out/preempt.md
  headrace-lab bench preempt --from out/preempt.json --media media.json`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Output = a.output()
			o.Size = int64(bytes)
			return preempt.Measure(cmd.Context(), o)
		},
	}
	experimentFlags(cmd, &o.Options)
	flags := cmd.Flags()
	flags.Lookup("quick").Usage = "the smallest sizes and fewest points: minutes, not measurements"
	flags.Lookup("repeats").Usage = "how often each policy runs at each point (default 5; 2 with --quick)"
	flags.Lookup("seed").Usage = "orders the policies and fills the memories"
	flags.StringSliceVar(&o.Only, "only", nil, "the experiments to run: a, b, c, d (default: all)")
	flags.Var(&bytes, "size", "the memory of a large task (default: by machine)")
	progressFlag(cmd, &o.Options)
	flags.StringVar(&o.Media, "media", "", "a `FILE` for the speeds of storage and the costs of mechanisms, for headrace sim")
	cli.CompleteValues(cmd, "only", preempt.Experiments...)
	return cmd
}

// progressFlag is for experiments whose daemons weigh how long tasks have left.
func progressFlag(cmd *cobra.Command, o *trial.Options) {
	cmd.Flags().BoolVar(&o.NoProgress, "no-progress", false, "tasks do not tell how much of them is done, as most programs do not")
}

// placeFlags are where an experiment works and with what daemons.
func placeFlags(cmd *cobra.Command, dir *string, soloFlags *[]string) {
	cmd.Flags().StringVar(dir, "dir", "", "a `DIR` on a disk for everything temporary (default: by machine)")
	cmd.Flags().StringArrayVar(soloFlags, "solo-flag", nil, "one more `FLAG` for the daemons; may be repeated")
}

// benchTaskVerb returns what the tasks of the experiments run; people do not.
func benchTaskVerb() *cobra.Command {
	return &cobra.Command{
		Use:                "bench-task KIND [FLAG...]",
		Short:              "A workload of the experiments",
		Example:            `  headrace-lab bench-task dirty -h`,
		Args:               cobra.ArbitraryArgs,
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := work.Task(args, os.Stdout); !errors.Is(err, flag.ErrHelp) {
				return err
			}
			return nil
		},
	}
}
