package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"headrace/cli"
	"headrace/cmd/headrace/filesystem"
	"headrace/cmd/headrace/jsonout"
	"headrace/cmd/headrace/simulate"
	"headrace/cmd/headrace/traces"
)

// app is what the verbs share: the global flags and where to write.
type app struct {
	cli.App
	stateDir string
}

// The families of verbs have what is about their subject beside what all share.
type (
	taskVerbs    struct{ *app }
	fileVerbs    struct{ *app }
	clusterVerbs struct{ *app }
)

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, args []string, in *os.File, out, errOut io.Writer) int {
	return cli.Execute(ctx, newRoot(&app{App: cli.App{In: in, Out: out, Err: errOut}}), args, in, out, errOut)
}

func newRoot(a *app) *cobra.Command {
	root := cli.Root(&cobra.Command{
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
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.stateDir, "state-dir", "", "the daemon's state `DIR`, with its socket (default $HEADRACE_STATE_DIR, else by user)")
	a.Format.Define(root, flags)

	root.AddGroup(&cobra.Group{ID: groupTasks, Title: "Tasks:"},
		&cobra.Group{ID: groupData, Title: "Files:"}, &cobra.Group{ID: groupMachine, Title: "This machine:"},
		&cobra.Group{ID: groupCluster, Title: "Cluster:"},
		&cobra.Group{ID: groupSim, Title: "Simulation:"})
	tasks, data, cluster := taskVerbs{a}, fileVerbs{a}, clusterVerbs{a}
	addVerbs(root, groupTasks, runVerb(tasks), psVerb(tasks), topVerb(tasks), showVerb(tasks), logsVerb(tasks), waitVerb(tasks),
		suspendVerb(tasks), resumeVerb(tasks), checkpointVerb(tasks), restoreVerb(tasks), killVerb(tasks), forgetVerb(tasks))
	addVerbs(root, groupData, warmVerb(data), cacheVerb(data), disksVerb(data), filesystem.Verb(&a.App))
	addVerbs(root, groupMachine, a.TextOnly(soloVerb(a)), doctorVerb(a), versionVerb(a),
		cli.CompletionVerb("headrace", "verbs, flags and the\nids of tasks", a.Out))
	addVerbs(root, groupCluster, a.TextOnly(managerVerb(cluster)), a.TextOnly(nodeVerb(cluster)), clusterVerb(cluster))
	addVerbs(root, groupSim, simulate.Verb(&a.App), traces.Verb(&a.App))
	for _, verb := range []string{"bench", "demo", "yarn", "bench-task", "slow-disk"} {
		root.AddCommand(movedVerb(verb))
	}
	return root
}

const (
	groupTasks   = "tasks"
	groupData    = "data"
	groupMachine = "machine"
	groupCluster = "cluster"
	groupSim     = "sim"
)

func addVerbs(root *cobra.Command, group string, verbs ...*cobra.Command) {
	for _, verb := range verbs {
		verb.GroupID = group
		root.AddCommand(verb)
	}
}

// movedVerb refuses a verb of headrace-lab, whatever follows it.
func movedVerb(name string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              "A verb of headrace-lab",
		Example:            "  headrace-lab " + name,
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs,
		ValidArgsFunction:  cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Unknown(cmd.Parent(), name, "it is one of headrace-lab")
		},
	}
}

// answer writes what the daemon has answered: the message for programs, the line for
// people.
func (a *app) answer(m proto.Message, line string) error {
	if a.Format == cli.FormatJSON {
		return jsonout.Write(a.Out, m)
	}
	_, err := fmt.Fprintln(a.Out, line)
	return err
}
