package main

import (
	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/lab/exp/dfs"
)

func benchDFSVerb(a *app) *cobra.Command {
	var o dfs.Options
	cmd := &cobra.Command{
		Use:   "dfs",
		Short: "The file system beside a real HDFS, on the same disks",
		Long: `Dfs starts a real HDFS and the file system of Headrace on this machine, on the
same modelled disks, and has the same clients, Hadoop's own, use both. It needs
root, FUSE, Java, and the jars that "make java" gathers (HEADRACE_HADOOP names
another directory).

  read    16 readers side by side, on one node
  names   operations on names by 64 threads
  write   4 and 16 writers, three copies on four nodes
  loss    a node is killed under readers and writers
  device  readers and writers on a disk of this machine, without a model`,
		Example: `  headrace-lab bench dfs
  headrace-lab bench dfs --quick --html out/dfs.html
  headrace-lab bench dfs --only read,write --repeats 5
  headrace-lab bench dfs --from out/dfs.json --markdown out/dfs.md`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Output, o.Version = a.output(), cli.Version
			return dfs.Measure(cmd.Context(), o)
		},
	}
	experimentFlags(cmd, &o.Options)
	flags := cmd.Flags()
	flags.Lookup("solo-flag").Usage = "one more `FLAG` for headrace dfs start; may be repeated"
	flags.StringSliceVar(&o.Only, "only", nil, "the parts to run: "+cli.List(dfs.Parts)+" (default: all)")
	flags.StringSliceVar(&o.Systems, "systems", nil, "what to compare: "+cli.List(dfs.Systems)+" (default: both)")
	cli.CompleteValues(cmd, "only", dfs.Parts...)
	cli.CompleteValues(cmd, "systems", dfs.Systems...)
	return cmd
}
