package main

import (
	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/wire"
)

func logsVerb(a taskVerbs) *cobra.Command {
	var follow, onlyOut, onlyErr bool
	var patience cli.Span
	var tail uint32
	cmd := &cobra.Command{
		Use:        "logs ID",
		Short:      "Show what a task has written",
		SuggestFor: []string{"log", "cat", "output", "tail"},
		Long: `Logs shows what a task has written: its standard output on standard output, its
standard error on standard error. With --stderr alone, that goes to standard
output. With -f it goes on until the task ends. With --tail it begins so many
lines before the end, of each of the two.`,
		Example: `  headrace logs nightly
  headrace logs -f --tail 20 nightly
  headrace logs -f --stderr t12 | grep -i warn`,
		Args:              cli.Takes(1, 1, "the id of a task"),
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
			req := &wire.LogsRequest{Id: task.Id, Stream: streamOf(onlyOut, onlyErr), Follow: follow}
			if cmd.Flags().Changed("tail") {
				req.Tail = &tail
			}
			f := &follower{daemon: d, patience: patience, say: a.Say}
			return f.logs(cmd.Context(), req, a.Out, a.Err)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&follow, "follow", "f", false, "go on until the task ends")
	flags.Uint32Var(&tail, "tail", 0, "only the last `LINES` of each, and with -f what comes then (default: all)")
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
