package traces

import (
	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/cmd/headrace/outfile"
)

func convertVerb(a verbs) *cobra.Command {
	var load Flags
	var out csvFlag
	cmd := &cobra.Command{
		Use:   "convert SOURCE --out FILE",
		Short: "Write a trace, or a part of it, as our CSV",
		Long: `Convert reads a trace and writes it as CSV: one task a line, in a form that can be
read, changed and simulated again. Headrace trace describe tells what is in it.`,
		Example: `  headrace trace convert google2011:clusterdata-2011-2 --start 24h --for 24h --out day2.csv.gz
  headrace trace convert swim:FB-2009_samples_24_times_1hr_0.tsv --out -`,
		Args:              cli.Takes(1, 1, "the trace"),
		ValidArgsFunction: completeSource,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			w, err := Load(cmd.Context(), a.App, args[0], &load)
			if err != nil {
				return outfile.NothingWritten(cmd.Context(), err)
			}
			return out.write(cmd.Context(), a.App, w)
		},
	}
	load.Define(cmd)
	out.define(cmd)
	return cmd
}
