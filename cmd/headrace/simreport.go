package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"headrace/cli"
	"headrace/report"
	"headrace/sim"
	"headrace/sim/page"
	"headrace/trace"
)

// simReport shows the results, and writes the files that are wanted. before are those to
// compare with, if any.
func (a simVerbs) simReport(ctx context.Context, f *simFlags, results, before []*sim.Result, about page.About) error {
	var against *report.Table
	if before != nil {
		var notes []string
		against, notes = page.Against(results, before)
		a.notes(notes)
	}
	files := f.files(results, against, about)
	if err := writeFiles(ctx, files...); err != nil {
		return nothingWritten(ctx, err)
	}
	for _, o := range files {
		a.say("%s written", o.path)
	}
	if a.format == cli.FormatJSON {
		return page.WriteJSON(a.out, results, about)
	}
	tables := page.Tables(results)
	if against != nil {
		tables = append(tables, against)
	}
	return a.tables(tables)
}

// files returns those that are wanted, with the results in them.
func (f *simFlags) files(results []*sim.Result, against *report.Table, about page.About) []outFile {
	var files []outFile
	for _, o := range []outFile{
		{"--out", f.html, func(w io.Writer) error {
			p := page.Page(results, about)
			if against != nil {
				p.Add("Against before", report.Block{Table: against})
			}
			return p.WriteHTML(w)
		}},
		{"--json", f.json, func(w io.Writer) error { return page.WriteJSON(w, results, about) }},
		{"--csv", f.csv, func(w io.Writer) error { return page.WriteCSV(w, results) }},
		{"--tradeoff", f.tradeoff, func(w io.Writer) error { return page.WriteTradeoff(w, results) }},
		{"--cdf", f.cdf, func(w io.Writer) error { return page.WriteCDFs(w, results) }},
	} {
		if o.path != "" {
			files = append(files, o)
		}
	}
	return files
}

// checkFiles finds what would keep the files from being written.
func (f *simFlags) checkFiles() error {
	seen := map[string]string{}
	for _, o := range f.files(nil, nil, page.About{}) {
		if other := seen[o.path]; other != "" {
			return cli.UsageErrorf("%s and %s both name %s", other, o.flag, o.path)
		}
		seen[o.path] = o.flag
		if err := o.check(); err != nil {
			return err
		}
	}
	return nil
}

// simFrom reports on results of before.
func (a simVerbs) simFrom(ctx context.Context, f *simFlags, cmd *cobra.Command) error {
	report := []string{"from", "against", "out", "json", "csv", "cdf", "tradeoff", "format", "state-dir"}
	var needless []string
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains(report, flag.Name) {
			needless = append(needless, "--"+flag.Name)
		}
	})
	if len(needless) > 0 {
		return cli.UsageErrorf("--from runs nothing: leave out %s", spoken(needless))
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
	return a.simReport(ctx, f, results, before, about)
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

// aboutSim returns how the results came about. There is no date: the same call writes
// the same page.
func aboutSim(w *trace.Workload, m sim.Measurements) page.About {
	d := trace.Describe(w)
	about := page.About{Measured: m.From, Sources: map[string]string{}, Workload: &d, Facts: []report.Fact{
		{Name: "command", Value: strings.Join(os.Args, " ")}, {Name: "version", Value: cli.Version}}}
	for _, x := range m.Media {
		about.Sources[x.Name] = x.Source
	}
	return about
}
