package main

import (
	"context"

	"github.com/spf13/cobra"

	"headrace/wire"
)

func killVerb(a *app) *cobra.Command {
	var grace span
	cmd := &cobra.Command{
		Use:   "kill ID...",
		Short: "End tasks for good",
		Long: `Kill ends all processes of a task for good: SIGTERM, a grace, SIGKILL. A task
that waits or is checkpointed is ended as well. Its logs stay until headrace
forget.`,
		Example: `  headrace kill nightly
  headrace kill --grace 30s t12 t13`,
		Args:              takes(1, -1, "the id of a task"),
		ValidArgsFunction: a.completeTasks(notEnded),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.actOnEach(cmd, args, func(ctx context.Context, d *daemon, id string) (*wire.Task, error) {
				return d.Kill(ctx, &wire.VerbRequest{Id: id, Grace: grace.seconds()})
			}, tellState)
		},
	}
	cmd.Flags().Var(&grace, "grace", "time between SIGTERM and SIGKILL (0s: the daemon's default)")
	return cmd
}
