package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"headrace/cli"
	"headrace/cmd/headrace/outfile"
	"headrace/report"
	"headrace/sim"
	"headrace/sim/page"
	"headrace/trace"
)

// report shows the results, and writes the files that are wanted. before are those to
// compare with, if any.
func (a verb) report(ctx context.Context, f *simFlags, results, before []*sim.Result, about page.About) error {
	var against *report.Table
	if before != nil {
		var notes []string
		against, notes = page.Against(results, before)
		a.Notes(notes)
	}
	files := f.files(results, against, about)
	if err := outfile.Write(ctx, files...); err != nil {
		return outfile.NothingWritten(ctx, err)
	}
	for _, o := range files {
		a.Say("%s written", o.Path)
	}
	if a.Format == cli.FormatJSON {
		return page.WriteJSON(a.Out, results, about)
	}
	tables := page.Tables(results)
	if against != nil {
		tables = append(tables, against)
	}
	return a.Tables(tables)
}

// files returns those that are wanted, with the results in them.
func (f *simFlags) files(results []*sim.Result, against *report.Table, about page.About) []outfile.File {
	var files []outfile.File
	for _, o := range []outfile.File{
		{Flag: "--out", Path: f.html, Write: func(w io.Writer) error {
			p := page.Page(results, about)
			if against != nil {
				p.Add("Against before", report.Block{Table: against})
			}
			return p.WriteHTML(w)
		}},
		{Flag: "--json", Path: f.json, Write: func(w io.Writer) error { return page.WriteJSON(w, results, about) }},
		{Flag: "--csv", Path: f.csv, Write: func(w io.Writer) error { return page.WriteCSV(w, results) }},
		{Flag: "--tradeoff", Path: f.tradeoff, Write: func(w io.Writer) error { return page.WriteTradeoff(w, results) }},
		{Flag: "--cdf", Path: f.cdf, Write: func(w io.Writer) error { return page.WriteCDFs(w, results) }},
	} {
		if o.Path != "" {
			files = append(files, o)
		}
	}
	return files
}

// checkFiles finds what would keep the files from being written.
func (f *simFlags) checkFiles() error {
	seen := map[string]string{}
	for _, o := range f.files(nil, nil, page.About{}) {
		if other := seen[o.Path]; other != "" {
			return cli.UsageErrorf("%s and %s both name %s", other, o.Flag, o.Path)
		}
		seen[o.Path] = o.Flag
		if err := o.Check(); err != nil {
			return err
		}
	}
	return nil
}

// again reports on results of before.
func (a verb) again(ctx context.Context, f *simFlags, cmd *cobra.Command) error {
	report := []string{"from", "against", "out", "json", "csv", "cdf", "tradeoff", "format", "state-dir"}
	var needless []string
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains(report, flag.Name) {
			needless = append(needless, "--"+flag.Name)
		}
	})
	if len(needless) > 0 {
		return cli.UsageErrorf("--from runs nothing: leave out %s", Spoken(needless))
	}
	if err := f.checkFiles(); err != nil {
		return err
	}
	results, about, err := readReport("--from", f.from)
	if err != nil {
		return err
	}
	before, err := readResults("--against", f.against)
	if err != nil {
		return err
	}
	return a.report(ctx, f, results, before, about)
}

// readResults returns the results in a file that a flag names; nil: it names none.
func readResults(flag, path string) ([]*sim.Result, error) {
	if path == "" {
		return nil, nil
	}
	results, _, err := readReport(flag, path)
	return results, err
}

// readReport reads what --json has written.
func readReport(flag, path string) ([]*sim.Result, page.About, error) {
	in, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, page.About{}, fmt.Errorf("%s %s: there is no such file", flag, path)
		}
		return nil, page.About{}, fmt.Errorf("%s: %w", flag, err)
	}
	defer in.Close()
	results, about, err := page.ReadJSON(in)
	if err != nil {
		err = fmt.Errorf("%s %s: %w", flag, path, err)
	}
	return results, about, err
}

// aboutRuns returns how the results came about. There is no date: the same call writes
// the same page.
func aboutRuns(w *trace.Workload, m sim.Measurements) page.About {
	d := trace.Describe(w)
	about := page.About{Measured: m.From, Sources: map[string]string{}, Workload: &d, Facts: []report.Fact{
		{Name: "command", Value: cli.CommandLine(os.Args)}, {Name: "version", Value: cli.Version}}}
	for _, x := range m.Media {
		about.Sources[x.Name] = x.Source
	}
	return about
}
