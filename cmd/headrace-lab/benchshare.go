package main

import (
	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/lab/exp/share"
)

func benchShareVerb(a *app) *cobra.Command {
	var o share.Options
	cmd := &cobra.Command{
		Use:   "share",
		Short: "Pairs of jobs on the same files of a real HDFS",
		Long: `Share starts a real HDFS and YARN on this machine, three machines with a modelled
disk and a bounded page cache each, and runs pairs of jobs that read the same
files: Spark as it comes (stock), with HDFS's own cache (cached), with what is in
memory first (at-once; ordered: hosts wait a little for what suits them), and with
input read ahead as well (warmed). It needs root, FUSE, Java, and the jars that "make java" and
"make java/sparkyarn/target/built" gather (HEADRACE_HADOOP names another
directory).

  row         two identical jobs of Spark, one after the other, on data that fit
              into the page caches and that do not
  apart       the same, begun some time apart
  frameworks  a job of MapReduce, and after it one of Spark`,
		Example: `  headrace-lab bench share
  headrace-lab bench share --quick --html out/share.html
  headrace-lab bench share --only row --modes stock,ordered --repeats 5
  headrace-lab bench share --from out/share.json --markdown out/share.md`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Output, o.Version = a.output(), cli.Version
			return share.Measure(cmd.Context(), o)
		},
	}
	experimentFlags(cmd, &o.Options)
	flags := cmd.Flags()
	flags.Lookup("solo-flag").Usage = "one more `FLAG` for the node daemons; may be repeated"
	flags.StringSliceVar(&o.Only, "only", nil, "the parts to run: "+cli.List(share.Parts)+" (default: all)")
	flags.StringSliceVar(&o.Modes, "modes", nil, "what to compare: "+cli.List(share.Modes)+" (default: all)")
	cli.CompleteValues(cmd, "only", share.Parts...)
	cli.CompleteValues(cmd, "modes", share.Modes...)
	return cmd
}
