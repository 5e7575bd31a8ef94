package main

import (
	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/lab/exp/read"
)

func benchReadVerb(a *app) *cobra.Command {
	var o read.Options
	cmd := &cobra.Command{
		Use:   "read",
		Short: "Many readers on one disk: regions of their own, or a stream",
		Long: `Read lets several consumers and several jobs read files at the same time, each
its own regions or from a stream of Headrace, and measures throughput, seeks,
the spread of their ends and processor time, beside those of cat. It does so on
a modelled hard disk and on a device of this machine. It needs root.

  consumers  1 to 16 consumers of one file
  own        1 to 8 jobs on files of their own
  shared     1 to 8 jobs at once on one file
  spread     2 and 8 jobs that come to one file one after another
  slow       8 consumers of one file, one of them slow`,
		Example: `  headrace-lab bench read
  headrace-lab bench read --quick --html out/read.html
  headrace-lab bench read --only consumers,slow --places modelled
  headrace-lab bench read --from out/read.json --markdown out/read.md`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Output = a.output()
			return read.Measure(cmd.Context(), o)
		},
	}
	experimentFlags(cmd, &o.Options)
	cmd.Flags().StringSliceVar(&o.Only, "only", nil, "the parts to run: "+cli.List(read.Parts)+" (default: all)")
	cmd.Flags().StringSliceVar(&o.Places, "places", nil, "where to read: modelled, device (default: both)")
	cli.CompleteValues(cmd, "only", read.Parts...)
	cli.CompleteValues(cmd, "places", "modelled", "device")
	return cmd
}
