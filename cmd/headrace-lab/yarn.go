package main

import (
	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/lab/yarn"
	"headrace/policy"
)

func yarnVerb(a *app) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "yarn",
		Short:   "Headrace in YARN: the demo, and what makes clusters start quickly",
		Example: `  headrace-lab yarn demo`,
	}, yarnDemoVerb(a), yarnArchiveVerb())
}

func yarnDemoVerb(a *app) *cobra.Command {
	var o yarn.DemoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch YARN's containers give way and go on",
		Long: `Demo starts a real YARN on this machine, twice: once as it is, once with Headrace. A
job fills it, an urgent one arrives, and what happens to both is shown. At the end
there is a table. It takes about a minute and a half and cleans up.

It needs a JDK and the jars that "make java" gathers: call it in the source tree, or
name java/cluster/target/hadoop in HEADRACE_HADOOP.`,
		Example: `  make build java
  bin/headrace-lab yarn demo
  bin/headrace-lab yarn demo --policy checkpoint`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := policy.ParsePolicy(o.Policy); err != nil {
				return cli.UsageErrorf("--policy: %w", err)
			}
			out := a.output()
			o.Stdout, o.Stderr, o.Terminal, o.Live = out.Stdout, out.Stderr, out.Terminal, out.Live
			return yarn.Demo(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Policy, "policy", string(policy.Suspend), "how containers give way: "+cli.List(policy.Names()))
	flags.StringVar(&o.Dir, "dir", "", "a `DIR` for everything temporary (default: by machine)")
	cli.CompleteValues(cmd, "policy", cli.Texts(policy.Names())...)
	return cmd
}

func yarnArchiveVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "archive",
		Short: "Archive Hadoop's classes, so that clusters start with less work",
		Long: `Archive has Java archive the classes of the jars that "make java" gathers. It is kept in the
user's cache with a copy of the jars, for all checkouts.
Clusters of tests, of the demo and of experiments then take a third less processor time
to start. Where the archive is there, nothing is done.`,
		Example:           `  bin/headrace-lab yarn archive`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			jars, err := yarn.Find()
			if err != nil {
				return err
			}
			return jars.Archive(cmd.Context(), "")
		},
	}
}
