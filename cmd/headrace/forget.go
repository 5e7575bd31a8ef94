package main

import (
	"context"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/wire"
)

func forgetVerb(a taskVerbs) *cobra.Command {
	return &cobra.Command{
		Use:        "forget ID...",
		SuggestFor: []string{"rm", "remove", "delete", "clean"},
		Short:      "Remove ended tasks with their logs and checkpoints",
		Long: `Forget removes everything that is kept about a task that has ended: its record,
its logs, its checkpoints.`,
		Example:           `  headrace forget t12 t13`,
		Args:              cli.Takes(1, -1, "the id of a task"),
		ValidArgsFunction: a.completeTasks(ended),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.actOnEach(cmd, nil, args, sideBySide, func(ctx context.Context, d *daemon, id string) (*wire.Task, error) {
				task, err := d.Get(ctx, &wire.GetRequest{Id: id})
				if err != nil {
					return nil, err
				}
				_, err = d.Forget(ctx, &wire.VerbRequest{Id: id})
				return task, err
			}, func(t *wire.Task) string { return t.Id + " forgotten" })
		},
	}
}
