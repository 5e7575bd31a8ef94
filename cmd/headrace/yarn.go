package main

import (
	"os"

	"github.com/spf13/cobra"

	"headrace/bench/yarn"
	"headrace/policy"
)

func yarnVerb(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "yarn",
		Short:   "Headrace in YARN: the demo",
		Example: `  headrace yarn demo`,
		Args:    noVerb,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(yarnDemoVerb(a))
	return cmd
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
  bin/headrace yarn demo
  bin/headrace yarn demo --policy checkpoint`,
		Args:              takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if _, err := policy.ParsePolicy(o.Policy); err != nil {
				return usageErrorf("--policy: %w", err)
			}
			if o.Binary, err = os.Executable(); err != nil {
				return err
			}
			out := a.benchOutput()
			o.Stdout, o.Stderr, o.Terminal, o.Live = out.Stdout, out.Stderr, out.Terminal, out.Live
			return yarn.Demo(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Policy, "policy", string(policy.Suspend), "how containers give way: "+list(policy.Names()))
	flags.StringVar(&o.Dir, "dir", "", "a `DIR` for everything temporary (default: by machine)")
	completeValues(cmd, "policy", texts(policy.Names())...)
	return cmd
}
