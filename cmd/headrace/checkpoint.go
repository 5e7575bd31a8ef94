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
	cmd := &cobra.Command{
		Use:   "checkpoint ID...",
		Short: "Write tasks to storage and end their processes",
		Long: `Checkpoint writes the whole state of a task to storage and then ends its
processes, so that it uses neither processor nor memory and outlives a reboot.
It stays there until headrace restore. The command returns when the checkpoint
is durable. If anything goes wrong, the task runs on.`,
		Example: `  headrace checkpoint nightly
  headrace checkpoint --store fast t12`,
		Args: cli.Takes(1, -1, "the id of a task"),
		ValidArgsFunction: a.completeTasks(func(t *wire.Task) bool {
			return convert.In(t, headrace.Running, headrace.Suspended) && t.NoCheckpoint == ""
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.actOnEach(cmd, args, sideBySide, func(ctx context.Context, d *daemon, id string) (*wire.Task, error) {
				return d.Checkpoint(ctx, &wire.VerbRequest{Id: id, Store: store})
			}, tellCheckpoint)
		},
	}
	cmd.Flags().StringVar(&store, "store", "", "the `STORE` to write to (default: the daemon chooses)")
	if err := cmd.RegisterFlagCompletionFunc("store", a.complete(completeStores)); err != nil {
		panic(err) // the flag is defined one line above
	}
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
