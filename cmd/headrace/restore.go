package main

import (
	"context"

	"github.com/spf13/cobra"

	"headrace/wire"
)

func restoreVerb(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "restore ID...",
		Short: "Bring checkpointed tasks back",
		Long: `Restore brings a checkpointed task back where it was. The newest checkpoint that
is intact is used.`,
		Example: `  headrace restore nightly`,
		Args:    takes(1, -1, "the id of a task"),
		ValidArgsFunction: a.completeTasks(func(t *wire.Task) bool {
			return t.State == "checkpointed"
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.actOnEach(cmd, args, func(ctx context.Context, d *daemon, id string) (*wire.Task, error) {
				return d.Restore(ctx, &wire.VerbRequest{Id: id})
			}, tellState)
		},
	}
}
