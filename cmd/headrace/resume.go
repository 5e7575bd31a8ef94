package main

import (
	"context"

	"github.com/spf13/cobra"

	"headrace/wire"
)

func resumeVerb(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "resume ID...",
		Short: "Let suspended or held tasks go on",
		Long: `Resume lets a suspended task go on where it was, and lets a task start that was
submitted with --held.`,
		Example: `  headrace resume nightly`,
		Args:    takes(1, -1, "the id of a task"),
		ValidArgsFunction: a.completeTasks(func(t *wire.Task) bool {
			return t.State == "suspended" || t.Held && !ended(t)
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.actOnEach(cmd, args, func(ctx context.Context, d *daemon, id string) (*wire.Task, error) {
				return d.Resume(ctx, &wire.VerbRequest{Id: id})
			}, tellState)
		},
	}
}
