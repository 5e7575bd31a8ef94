package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"headrace"
	"headrace/cli"
	"headrace/wire"
	"headrace/wire/convert"
)

func resumeVerb(a taskVerbs) *cobra.Command {
	var force bool
	var many several
	const is = "is suspended or held"
	want := func(t *wire.Task) bool { return convert.In(t, headrace.Suspended) || t.Held && !ended(t) }
	cmd := &cobra.Command{
		Use:        "resume ID...",
		SuggestFor: []string{"continue", "cont", "unpause", "thaw", "start"},
		Short:      "Let suspended or held tasks go on",
		Long: `Resume lets a suspended task go on where it was, and lets a task start that was
submitted with --held. A container of another scheduler, such as YARN, goes on when
that has room for it: the exit code is 5 as long as it has none. With --force it
goes on at once; where there is a manager only root may have that.

In place of ids, --job, --user and --all name all tasks that are suspended or held,
also those that are held because they were checkpointed by hand.`,
		Example: `  headrace resume nightly
  headrace resume --job j7
  headrace resume --force container_1700000000000_0042_01_000007`,
		Args:              cli.Takes(0, -1, ""),
		ValidArgsFunction: a.completeTasks(want),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := many.words(a, cmd, args, is, want)
			if err != nil {
				return err
			}
			return a.actOnEach(cmd, &many, ids, sideBySide, func(ctx context.Context, d *daemon, id string) (*wire.Task, error) {
				return goesOn(d.Resume(ctx, &wire.VerbRequest{Id: id, Force: force}))
			}, tellState)
		},
	}
	forceFlag(cmd, &force)
	many.define(cmd, is)
	return cmd
}

func forceFlag(cmd *cobra.Command, force *bool) {
	cmd.Flags().BoolVar(force, "force", false, "a container of another scheduler: at once, whether that has room for it or not")
}

// goesOn makes an error of the answer that a container waits for its scheduler.
func goesOn(t *wire.Task, err error) (*wire.Task, error) {
	if err != nil || t.Hosting == nil || !convert.In(t, headrace.Suspended, headrace.Checkpointed) {
		return t, err
	}
	by := t.Hosting.Scheduler
	return t, cli.Exit(cli.ExitWaits, errors.New(cli.OneLine(fmt.Sprintf("%s is %s, and waits until %s has room for it; by headrace resume --force %s root has it go on at once",
		t.Id, convert.StateName(t), by, t.Id))))
}
