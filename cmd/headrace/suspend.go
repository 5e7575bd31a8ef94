package main

import (
	"context"

	"github.com/spf13/cobra"

	"headrace"
	"headrace/cli"
	"headrace/wire"
	"headrace/wire/convert"
)

func suspendVerb(a taskVerbs) *cobra.Command {
	var grace cli.Span
	var many several
	cmd := &cobra.Command{
		Use:        "suspend ID...",
		Short:      "Stop the processes of tasks; their memory stays theirs",
		SuggestFor: []string{"stop", "pause", "hold", "freeze"},
		Long: `Suspend stops all processes of a task. Its memory stays its own and goes to
swap when somebody needs the room. The task stays suspended until resumed by
headrace resume. The command returns when every process has been seen stopped. One
that waits or is checkpointed is held: it does not start or come back meanwhile.

In place of ids, --job, --user and --all name all tasks that have not ended.`,
		Example: `  headrace suspend nightly
  headrace suspend --grace 2s t12 t13
  headrace suspend --all`,
		Args: cli.Takes(0, -1, ""),
		ValidArgsFunction: a.completeTasks(func(t *wire.Task) bool {
			return convert.In(t, headrace.Running, headrace.Pending)
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := many.words(a, cmd, args, isNotOver, notEnded)
			if err != nil {
				return err
			}
			return a.actOnEach(cmd, &many, ids, sideBySide, func(ctx context.Context, d *daemon, id string) (*wire.Task, error) {
				return d.Suspend(ctx, &wire.VerbRequest{Id: id, Grace: grace.Seconds()})
			}, tellState)
		},
	}
	cmd.Flags().Var(&grace, "grace", "how long its own handlers of SIGTSTP get (0s: the daemon's default)")
	many.define(cmd, isNotOver)
	return cmd
}
