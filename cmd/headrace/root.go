package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"headrace/report"
)

// app is what the verbs share: the global flags and where to write.
type app struct {
	stateDir string
	format   format

	in       *os.File
	out, err io.Writer
}

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, args []string, in *os.File, out, errOut io.Writer) int {
	a := &app{format: formatTable, in: in, out: out, err: errOut}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	code, line := outcome(err)
	if exit := new(exitError); code != 0 && ctx.Err() != nil && !errors.As(err, &exit) {
		code = exitInterrupted
	}
	if line != "" {
		fmt.Fprintf(errOut, "headrace: %s\n", line)
	}
	return code
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "headrace",
		Short: "Run commands by priority, preempt them without losing work",
		Long: `Headrace runs commands by priority on this machine. When an urgent one arrives,
a less urgent one is suspended, or checkpointed to storage, and goes on later
where it was; nothing it has done is lost.

A task is named by its id, or by its name where only one task has it.`,
		Example: `  headrace solo &
  headrace run --priority low --name nightly -- python3 train.py
  headrace run --priority high --wait -- ./urgent.sh
  headrace ps`,
		Args:          noVerb,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,

		SuggestionsMinimumDistance: 2,
	}
	root.SetVersionTemplate("headrace {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageErrorf("%w (see %s --help)", err, cmd.CommandPath())
	})
	root.CompletionOptions.DisableDefaultCmd = true
	flags := root.PersistentFlags()
	flags.StringVar(&a.stateDir, "state-dir", "", "the daemon's state `DIR`, with its socket (default $HEADRACE_STATE_DIR, else by user)")
	flags.Var(&a.format, "format", "table or json")
	completeValues(root, "format", "table", "json")

	root.AddGroup(&cobra.Group{ID: groupTasks, Title: "Tasks:"},
		&cobra.Group{ID: groupData, Title: "Files:"}, &cobra.Group{ID: groupMachine, Title: "This machine:"},
		&cobra.Group{ID: groupManaged, Title: "Cluster:"},
		&cobra.Group{ID: groupCluster, Title: "Simulation:"})
	addVerbs(root, groupTasks, runVerb(a), psVerb(a), topVerb(a), showVerb(a), logsVerb(a), waitVerb(a),
		suspendVerb(a), resumeVerb(a), checkpointVerb(a), restoreVerb(a), killVerb(a), forgetVerb(a))
	addVerbs(root, groupData, warmVerb(a), cacheVerb(a), disksVerb(a))
	addVerbs(root, groupMachine, soloVerb(a), doctorVerb(a), demoVerb(a), benchVerb(a), versionVerb(a), completionVerb(a))
	addVerbs(root, groupManaged, managerVerb(a), nodeVerb(a), clusterVerb(a), yarnVerb(a))
	addVerbs(root, groupCluster, simVerb(a), traceVerb(a))
	root.AddCommand(benchTaskVerb(), slowDiskVerb(a))
	return root
}

const (
	groupTasks   = "tasks"
	groupData    = "data"
	groupMachine = "machine"
	groupManaged = "managed"
	groupCluster = "cluster"
)

func addVerbs(root *cobra.Command, group string, verbs ...*cobra.Command) {
	for _, verb := range verbs {
		verb.GroupID = group
		root.AddCommand(verb)
	}
}

// noVerb refuses what is not the name of a verb below cmd.
func noVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := fmt.Sprintf("see %s --help", cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usageErrorf("unknown command %q for %s (%s)", args[0], cmd.CommandPath(), hint)
}

// takes checks the number of arguments; at most max, without limit if negative.
func takes(min, max int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < min:
			return usageErrorf("%s: %s is missing (see %s --help)", cmd.CommandPath(), what, cmd.CommandPath())
		case max == 0 && len(args) > 0:
			return usageErrorf("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
		case max >= 0 && len(args) > max:
			return usageErrorf("%s takes %d argument, got %d (see %s --help)", cmd.CommandPath(), max, len(args), cmd.CommandPath())
		}
		return nil
	}
}

// say writes one line for the person; it is not a result.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.err, "headrace: %s\n", oneLine(fmt.Sprintf(format, args...)))
}

// table writes a table for where standard output goes.
func (a *app) table(t *report.Table) error { return t.WriteTerminal(a.out, terminalOf(a.out)) }

// tables writes tables with a line between them.
func (a *app) tables(tables []*report.Table) error {
	for i, t := range tables {
		if i > 0 {
			if _, err := fmt.Fprintln(a.out); err != nil {
				return err
			}
		}
		if err := a.table(t); err != nil {
			return err
		}
	}
	return nil
}
