package main

import (
	"github.com/spf13/cobra"

	"headrace/cli"
)

func versionVerb(a *app) *cobra.Command {
	var format cli.Format
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Tell the version of this program",
		Example: `  headrace-lab version
  headrace-lab version --format json`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			if format == cli.FormatJSON {
				return cli.WriteJSON(a.out, cli.ThisBuild())
			}
			return cli.ThisBuild().Table("headrace-lab").WriteTerminal(a.out, cli.TerminalOf(a.out))
		},
	}
	format.Define(cmd, cmd.Flags())
	return cmd
}
