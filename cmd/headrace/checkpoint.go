package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"headrace"
	"headrace/cli"
	"headrace/report"
	"headrace/wire"
	"headrace/wire/convert"
)

func checkpointVerb(a taskVerbs) *cobra.Command {
	var store string
	var many several
	const is = "is running or suspended"
	want := func(t *wire.Task) bool { return convert.In(t, headrace.Running, headrace.Suspended) }
	cmd := &cobra.Command{
		Use:   "checkpoint ID...",
		Short: "Write tasks to storage and end their processes",
		Long: `Checkpoint writes the whole state of a task to storage and then ends its
processes, so that it uses neither processor nor memory and outlives a reboot.
It stays there until headrace restore. The command returns when the checkpoint
is durable. If anything goes wrong, the task runs on.

In place of ids, --job, --user and --all name all tasks that are running or
suspended.`,
		Example: `  headrace checkpoint nightly
  headrace checkpoint --store fast t12
  headrace checkpoint --all`,
		Args:              cli.Takes(0, -1, ""),
		ValidArgsFunction: a.completeTasks(func(t *wire.Task) bool { return want(t) && t.NoCheckpoint == "" }),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := many.words(a, cmd, args, is, want)
			if err != nil {
				return err
			}
			return a.actOnEach(cmd, &many, ids, sideBySide, func(ctx context.Context, d *daemon, id string) (*wire.Task, error) {
				return d.Checkpoint(ctx, &wire.VerbRequest{Id: id, Store: store})
			}, tellCheckpoint)
		},
	}
	cmd.Flags().StringVar(&store, "store", "", "the `STORE` to write to (default: the daemon chooses)")
	if err := cmd.RegisterFlagCompletionFunc("store", a.complete(completeStores)); err != nil {
		panic(err) // the flag is defined one line above
	}
	many.define(cmd, is)
	return cmd
}

func tellCheckpoint(t *wire.Task) string {
	c := t.Checkpoint
	if c == nil {
		return tellState(t)
	}
	return fmt.Sprintf("%s: %s written to %s in %s", tellState(t), report.Bytes(c.StoredBytes), c.Store, report.Seconds(c.DumpSeconds))
}

func completeStores(ctx context.Context, d *daemon, _ []string) (names []cobra.Completion, err error) {
	info, err := d.node.Info(ctx, &wire.InfoRequest{})
	for _, s := range info.GetStores() {
		names = append(names, cobra.CompletionWithDesc(s.Name, cli.OneLine(s.Dir)))
	}
	return names, err
}
