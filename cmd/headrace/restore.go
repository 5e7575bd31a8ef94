package main

import (
	"context"

	"github.com/spf13/cobra"

	"headrace"
	"headrace/cli"
	"headrace/wire"
	"headrace/wire/convert"
)

func restoreVerb(a taskVerbs) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "restore ID...",
		Short: "Bring checkpointed tasks back",
		Long: `Restore brings a checkpointed task back where it was. The newest checkpoint that
is intact is used. Of a container of another scheduler it is as with resume.`,
		Example: `  headrace restore nightly`,
		Args:    cli.Takes(1, -1, "the id of a task"),
		ValidArgsFunction: a.completeTasks(func(t *wire.Task) bool {
			return convert.In(t, headrace.Checkpointed)
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.actOnEach(cmd, nil, args, sideBySide, func(ctx context.Context, d *daemon, id string) (*wire.Task, error) {
				return goesOn(d.Restore(ctx, &wire.VerbRequest{Id: id, Force: force}))
			}, tellState)
		},
	}
	forceFlag(cmd, &force)
	return cmd
}
