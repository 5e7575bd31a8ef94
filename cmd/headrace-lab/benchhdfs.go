package main

import (
	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/lab/exp/hdfs"
)

func benchHDFSVerb(a *app) *cobra.Command {
	var o hdfs.Options
	cmd := &cobra.Command{
		Use:   "hdfs",
		Short: "Jobs on a real HDFS: inputs on disk, warmed, and in memory beforehand",
		Long: `Hdfs starts a real HDFS and YARN on this machine, three machines with a modelled
disk each, and runs jobs of MapReduce and queries of Spark SQL: with nothing of
Headrace, with Headrace, and with all inputs in memory beforehand. It needs root,
FUSE, Java, and the jars that "make java" gathers (HEADRACE_HADOOP names another
directory).

  swim       jobs of a day of Facebook's cluster, which read, shuffle and write
  sort       Hadoop's own sort
  wordcount  Hadoop's word count at six sizes, also with a delay
  queries    queries of TPC-H`,
		Example: `  headrace-lab bench hdfs
  headrace-lab bench hdfs --quick --html out/hdfs.html
  headrace-lab bench hdfs --only swim,sort --repeats 5
  headrace-lab bench hdfs --only swim --modes stock,warmed --jobs 60 --span 3m
  headrace-lab bench hdfs --from out/hdfs.json --markdown out/hdfs.md`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Output, o.Version = a.output(), cli.Version
			return hdfs.Measure(cmd.Context(), o)
		},
	}
	experimentFlags(cmd, &o.Options)
	flags := cmd.Flags()
	flags.Lookup("solo-flag").Usage = "one more `FLAG` for the node daemons; may be repeated"
	flags.StringSliceVar(&o.Only, "only", nil, "the parts to run: "+cli.List(hdfs.Parts)+" (default: all)")
	flags.StringSliceVar(&o.Modes, "modes", nil, "what to compare: "+cli.List(hdfs.Modes)+" (default: all)")
	flags.IntVar(&o.Jobs, "jobs", 0, "how many jobs of the day (default 24; 6 with --quick)")
	flags.DurationVar(&o.Span, "span", 0, "the time in which they are submitted (default 100s; 6s with --quick)")
	flags.IntVar(&o.Replication, "replication", 1, "how many machines have each block of the inputs of MapReduce's jobs")
	cli.CompleteValues(cmd, "only", hdfs.Parts...)
	cli.CompleteValues(cmd, "modes", hdfs.Modes...)
	return cmd
}
