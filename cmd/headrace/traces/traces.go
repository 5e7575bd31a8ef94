package traces

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/cmd/headrace/outfile"
	"headrace/trace"
)

// verbs are those below the verb trace.
type verbs struct{ *cli.App }

// Verb returns the verb trace.
func Verb(app *cli.App) *cobra.Command {
	a := verbs{app}
	return cli.Group(&cobra.Command{
		Use:   "trace",
		Short: "Look at traces of clusters, convert them, make them up",
		Long: `Trace is about what headrace sim runs: the tasks that were submitted to a
cluster. A SOURCE is one of these; without the format in front it is told by the
name:

` + SourceForms,
		Example: `  headrace trace describe synthetic:google-day
  headrace trace convert yarn:rm-logs --out tasks.csv.gz
  headrace trace generate --seed 7 --out day.csv.gz`,
	}, describeVerb(a), convertVerb(a), generateVerb(a))
}

// csvFlag is where a trace is written to as CSV.
type csvFlag struct{ path string }

func (f *csvFlag) define(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "out", "", "a `FILE` for the trace as CSV, compressed if it ends in .gz; - for standard output")
}

func (f *csvFlag) check() error {
	switch f.path {
	case "":
		return cli.UsageErrorf("--out is missing: name a file, such as tasks.csv.gz, or - for standard output")
	case "-":
		return nil
	}
	return f.file(nil).Check()
}

func (f *csvFlag) file(w *trace.Workload) outfile.File {
	return outfile.File{Flag: "--out", Path: f.path, Write: func(to io.Writer) error {
		if !strings.HasSuffix(f.path, ".gz") {
			return trace.WriteCSV(to, w)
		}
		packed := gzip.NewWriter(to)
		if err := trace.WriteCSV(packed, w); err != nil {
			return err
		}
		return packed.Close()
	}}
}

// write writes the trace where it belongs, and says how large it is.
func (f *csvFlag) write(ctx context.Context, a *cli.App, w *trace.Workload) error {
	if f.path == "-" {
		return trace.WriteCSV(outfile.UntilDone(ctx, a.Out), w)
	}
	if err := outfile.Write(ctx, f.file(w)); err != nil {
		return outfile.NothingWritten(ctx, err)
	}
	a.Say("%s: %s jobs, %s tasks%s", f.path, cli.Grouped(len(w.Jobs)), cli.Grouped(len(w.Tasks)), meantFor(w.Cluster))
	return nil
}

// meantFor returns the flags of sim for the cluster of a trace, which is not in its
// CSV.
func meantFor(c trace.Cluster) string {
	if c.Nodes == 0 || c.CPUs == 0 || c.Memory == 0 {
		return ""
	}
	return fmt.Sprintf("; its cluster is --nodes %d --cores %v --memory %s", c.Nodes, c.CPUs, cli.SizeText(c.Memory))
}
