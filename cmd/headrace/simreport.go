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

// simReport shows the results, and writes the files that are wanted.
func (a simVerbs) simReport(ctx context.Context, f *simFlags, results []*sim.Result, about page.About) error {
	files := f.files(results, about)
	if err := writeFiles(ctx, files...); err != nil {
		return nothingWritten(ctx, err)
	}
	for _, o := range files {
		a.say("%s written", o.path)
	}
	if a.format == cli.FormatJSON {
		return page.WriteJSON(a.out, results, about)
	}
	return a.tables(page.Tables(results))
}

// files returns those that are wanted, with the results in them.
func (f *simFlags) files(results []*sim.Result, about page.About) []outFile {
	var files []outFile
	for _, o := range []outFile{
		{"--out", f.html, func(w io.Writer) error { return page.Page(results, about).WriteHTML(w) }},
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
	for _, o := range f.files(nil, page.About{}) {
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
	report := []string{"from", "out", "json", "csv", "cdf", "tradeoff", "format", "state-dir"}
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
	in, err := os.Open(f.from)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--from %s: there is no such file", f.from)
		}
		return fmt.Errorf("--from: %w", err)
	}
	defer in.Close()
	results, about, err := page.ReadJSON(in)
	if err != nil {
		return fmt.Errorf("--from %s: %w", f.from, err)
	}
	return a.simReport(ctx, f, results, about)
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
