package main

import (
	"errors"

	"github.com/spf13/cobra"

	"headrace/cli"
)

func waitVerb(a taskVerbs) *cobra.Command {
	var patience cli.Span
	cmd := &cobra.Command{
		Use:   "wait ID...",
		Short: "Wait for tasks to end; exit with their exit code",
		Long: `Wait returns when all the tasks have ended. Its exit code is the task's, or 128
plus the signal that ended it; with several tasks, the first that is not 0.`,
		Example: `  headrace wait nightly
  headrace wait t12 t13 && echo both went well`,
		Args:              cli.Takes(1, -1, "the id of a task"),
		ValidArgsFunction: a.completeTasks(notEnded),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.waitAll(cmd, args, patience)
		},
	}
	patienceFlag(cmd, &patience)
	return cmd
}

func (a taskVerbs) waitAll(cmd *cobra.Command, words []string, patience cli.Span) error {
	d, err := a.daemon()
	if err != nil {
		return err
	}
	ids := make([]string, len(words))
	for i, word := range words {
		task, err := d.find(cmd.Context(), word)
		if err != nil {
			return err
		}
		ids[i] = task.Id
	}
	f := &follower{daemon: d, patience: patience, say: a.Say}
	var verdicts []error
	for _, id := range ids {
		task, err := f.end(cmd.Context(), id)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, a.verdict(task))
	}
	return errors.Join(verdicts...)
}
