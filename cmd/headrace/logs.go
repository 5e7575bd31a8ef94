package main

import (
	"github.com/spf13/cobra"

	"headrace/wire"
)

func logsVerb(a *app) *cobra.Command {
	var follow, onlyOut, onlyErr bool
	var patience span
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Show what a task has written",
		Long: `Logs shows what a task has written: its standard output on standard output, its
standard error on standard error. With --stderr alone, that goes to standard
output. With -f it goes on until the task ends.`,
		Example: `  headrace logs nightly
  headrace logs -f --stderr t12 | grep -i warn`,
		Args:              takes(1, 1, "the id of a task"),
		ValidArgsFunction: a.completeTasks(func(*wire.Task) bool { return true }),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.daemon()
			if err != nil {
				return err
			}
			task, err := d.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			which := streamOf(onlyOut, onlyErr)
			if follow {
				f := &follower{daemon: d, patience: patience, say: a.say}
				return f.logs(cmd.Context(), task.Id, which, a.out, a.err)
			}
			req := &wire.LogsRequest{Id: task.Id, Stream: which}
			return d.logsOnce(cmd.Context(), req, func(c *wire.LogChunk) error {
				return writeChunk(c.Stream, c.Data, which, a.out, a.err)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&follow, "follow", "f", false, "go on until the task ends")
	flags.BoolVar(&onlyOut, "stdout", false, "only its standard output")
	flags.BoolVar(&onlyErr, "stderr", false, "only its standard error")
	patienceFlag(cmd, &patience)
	return cmd
}

func streamOf(out, err bool) wire.Stream {
	switch {
	case out && !err:
		return wire.Stream_STREAM_STDOUT
	case err && !out:
		return wire.Stream_STREAM_STDERR
	}
	return wire.Stream_STREAM_BOTH
}
