package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/lab/trial"
)

func main() { cli.Main(execute) }

// app is what the verbs share: where to read and write.
type app struct {
	in       *os.File
	out, err io.Writer
}

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, args []string, in *os.File, out, errOut io.Writer) int {
	return cli.Execute(ctx, newRoot(&app{in: in, out: out, err: errOut}), args, in, out, errOut)
}

func newRoot(a *app) *cobra.Command {
	root := cli.Root(&cobra.Command{
		Use:   "headrace-lab",
		Short: "The experiments on Headrace, and its demonstrations",
		Long: `Headrace-lab shows Headrace at work and measures it. It starts daemons of its own
(headrace, beside this program or on PATH) and cleans up.`,
		Example: `  headrace-lab demo
  headrace-lab bench preempt --quick`,
	})
	root.AddCommand(demoVerb(a), benchVerb(a), yarnVerb(a), versionVerb(a),
		cli.CompletionVerb("headrace-lab", "verbs and flags", a.out), benchTaskVerb(), slowDiskVerb(a))
	return root
}

// output returns where the experiments talk to people.
func (a *app) output() trial.Output {
	_, live := cli.AsTerminal(a.err)
	return trial.Output{Stdout: a.out, Stderr: a.err, Terminal: cli.TerminalOf(a.out), Live: live}
}
