package traces

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/cmd/headrace/outfile"
	"headrace/trace"
)

func generateVerb(a verbs) *cobra.Command {
	var out csvFlag
	var params string
	var print bool
	var seed uint64
	var scale float64
	cmd := &cobra.Command{
		Use:   "generate --out FILE",
		Short: "Make up a day of a cluster",
		Long: `Generate makes a trace by the parameters of a day: how many jobs and tasks there
are, of which priorities, when they come, how long they run and what they need.
Without --params it is google-day, which is fitted to what is published of a day
of Google's cluster. --print-params writes its parameters, with notes: a file to
begin with for a day of one's own.`,
		Example: `  headrace trace generate --out day.csv.gz
  headrace trace generate --print-params > day.json
  headrace trace generate --params day.json --seed 7 --scale 0.1 --out day.csv.gz`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if print {
				_, err := fmt.Fprint(a.Out, trace.GoogleDayFile())
				return err
			}
			if err := out.check(); err != nil {
				return err
			}
			day, err := readDay(params)
			if err != nil {
				return err
			}
			w, err := reading(cmd.Context(), a.Bar(), func() (*trace.Workload, error) { return day.Generate(seed, scale) })
			if err != nil {
				return outfile.NothingWritten(cmd.Context(), err)
			}
			return out.write(cmd.Context(), a.App, w)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&params, "params", "", "a `FILE` with the parameters of the day (default: google-day)")
	flags.BoolVar(&print, "print-params", false, "write the parameters of google-day and end")
	flags.Uint64Var(&seed, "seed", 1, "the `NUMBER` that chance begins with; the same gives the same trace")
	flags.Float64Var(&scale, "scale", 1, "this many `TIMES` the jobs, tasks and nodes")
	out.define(cmd)
	return cmd
}

// readDay reads the parameters of a day; without a path they are those of
// google-day.
func readDay(path string) (trace.Day, error) {
	if path == "" {
		return trace.GoogleDay(), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return trace.Day{}, fmt.Errorf("--params: %w", err)
	}
	defer f.Close()
	day, err := trace.ReadDay(f)
	if err != nil {
		return trace.Day{}, fmt.Errorf("--params %s: %w", path, err)
	}
	return day, nil
}
