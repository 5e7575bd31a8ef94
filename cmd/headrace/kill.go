package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/wire"
)

type killFlags struct {
	grace  cli.Span
	signal killSignal
	nine   bool
	many   several
}

func killVerb(a taskVerbs) *cobra.Command {
	var f killFlags
	cmd := &cobra.Command{
		Use:        "kill ID...",
		Short:      "End tasks for good",
		SuggestFor: []string{"stop", "cancel", "scancel", "end", "terminate"},
		Long: `Kill ends all processes of a task for good: SIGTERM, a grace, SIGKILL. A task
that waits or is checkpointed is ended as well. Its logs stay until headrace
forget.

In place of ids, --job and --user name all tasks of a job or a user that have not
ended, and --all every one of yours: for root, of everybody.`,
		Example: `  headrace kill nightly
  headrace kill --grace 30s t12 t13
  headrace kill --job j7
  headrace kill -9 t12`,
		Args:              cli.Takes(0, -1, ""),
		ValidArgsFunction: a.completeTasks(notEnded),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.kill(cmd, &f, args)
		},
	}
	flags := cmd.Flags()
	flags.Var(&f.grace, "grace", "time between SIGTERM and SIGKILL (0s: the daemon's default)")
	flags.VarP(&f.signal, "signal", "s", "TERM: what is said above; KILL: SIGKILL at once")
	flags.BoolVarP(&f.nine, "now", "9", false, "SIGKILL at once, as --signal KILL")
	f.many.define(cmd, isNotOver)
	cli.CompleteValues(cmd, "signal", "TERM", "KILL")
	return cmd
}

const isNotOver = "has not ended"

// atOnce is a grace that is none; 0 is the daemon's default.
const atOnce = cli.Span(time.Millisecond)

func (a taskVerbs) kill(cmd *cobra.Command, f *killFlags, words []string) error {
	words, err := f.many.words(a, cmd, words, isNotOver, notEnded)
	if err != nil {
		return err
	}
	if f.nine || f.signal == "KILL" {
		if f.grace != 0 {
			return cli.UsageErrorf("headrace kill: SIGKILL at once has no --grace")
		}
		f.grace = atOnce
	}
	return a.actOnEach(cmd, &f.many, words, killsSideBySide, func(ctx context.Context, d *daemon, id string) (*wire.Task, error) {
		return d.Kill(ctx, &wire.VerbRequest{Id: id, Grace: f.grace.Seconds()})
	}, tellState)
}

// killSignal is a flag for the signals of kill(1) that end a task.
type killSignal string

func (s *killSignal) Type() string   { return "TERM|KILL" }
func (s *killSignal) String() string { return string(*s) }

func (s *killSignal) Set(text string) error {
	switch strings.TrimPrefix(strings.ToUpper(text), "SIG") {
	case "TERM", "15":
		*s = "TERM"
	case "KILL", "9":
		*s = "KILL"
	case "STOP", "TSTP", "19", "20":
		return fmt.Errorf("that is headrace suspend")
	case "CONT", "18":
		return fmt.Errorf("that is headrace resume")
	default:
		return fmt.Errorf("a task is ended with TERM or KILL; other signals are not sent")
	}
	return nil
}
