package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

func drainVerb(a clusterVerbs) *cobra.Command {
	var f askFlags
	var end bool
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Have all containers go on and none give way any more, to remove Headrace",
		Long: `Drain has the manager let every suspended and checkpointed container go on,
whether its scheduler has room for it or not, also those that a person holds, and
has none give way any more. It returns when all of them run. So Headrace can be
taken away from a cluster and nothing stays behind that is stopped.

It holds until drain --end, or until the manager is started again without --drain.
Machines get more to do for a while than their scheduler has given out.`,
		Example: `  headrace cluster drain --token-file /etc/headrace/token
  headrace cluster drain --end`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.clusterClient(&f)
			if err != nil {
				return err
			}
			return a.drain(cmd.Context(), client, &f, end)
		},
	}
	f.define(cmd)
	cmd.Flags().BoolVar(&end, "end", false, "end it: containers give way again")
	return cmd
}

// drain asks the manager again and again until nothing is left.
func (a clusterVerbs) drain(ctx context.Context, client wireconnect.ManagerServiceClient, f *askFlags, end bool) error {
	said := ""
	for {
		call, cancel := context.WithTimeout(ctx, cli.AnswerTime)
		res, err := client.Drain(call, &wire.DrainRequest{End: end})
		cancel()
		switch {
		case err != nil && ctx.Err() == nil:
			return noManager(f.manager, err)
		case err != nil:
			return err
		case end:
			_, err := fmt.Fprintln(a.Out, "containers give way again")
			return err
		case res.Left == 0 && res.Away == 0:
			_, err := fmt.Fprintln(a.Out, "all containers run, and none gives way")
			return err
		case res.Left == 0:
			return fmt.Errorf("%d containers are on machines that nothing is heard of: start headrace node there, or headrace cluster forget NODE", res.Away)
		}
		if now := fmt.Sprintf("%d containers do not run yet", res.Left); now != said {
			said = now
			a.Say("%s", now)
			for _, p := range res.Problems {
				a.Say("%s", p)
			}
		}
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func forgetNodeVerb(a clusterVerbs) *cobra.Command {
	var f askFlags
	cmd := &cobra.Command{
		Use:               "forget NODE",
		Short:             "Forget a node that is away, such as one that was renamed",
		Long:              `Forget removes a node that is away, and what the manager knows of its containers. A node that comes back is taken in again.`,
		Example:           `  headrace cluster forget old-name.example`,
		Args:              cli.Takes(1, 1, "the name of a node"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.clusterClient(&f)
			if err != nil {
				return err
			}
			call, cancel := context.WithTimeout(cmd.Context(), cli.AnswerTime)
			defer cancel()
			if _, err := client.Forget(call, &wire.ForgetNodeRequest{Node: args[0]}); err != nil {
				return noManager(f.manager, err)
			}
			_, err = fmt.Fprintln(a.Out, args[0]+" forgotten")
			return err
		},
	}
	f.define(cmd)
	return cmd
}
