package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"headrace/report"
)

// Circumstances are what a reader must know to judge the results of an experiment
// on reading. Times are seconds.
type Circumstances struct {
	Version    int       `json:"version"`
	Experiment string    `json:"experiment"`
	Command    string    `json:"command"`
	Started    time.Time `json:"started"`
	Took       float64   `json:"took"`
	Complete   bool      `json:"complete"`
	Machine    Machine   `json:"machine"`
	Seed       uint64    `json:"seed"`
	Repeats    int       `json:"repeats"`
	// Disk is what was read from: a device, or a model and its parameters. Empty: an
	// experiment that reads from none.
	Disk string `json:"disk,omitempty"`
	// More is what else a reader must know.
	More []report.Fact `json:"more,omitempty"`
	// Skipped is what was not run, Failures what was and has no numbers.
	Skipped  []Skip   `json:"skipped,omitempty"`
	Failures []string `json:"failures,omitempty"`
}

// end notes how the run ended.
func (c *Circumstances) end(err error) {
	c.Took = time.Since(c.Started).Seconds()
	c.Complete = err == nil
}

func (c *Circumstances) skip(what, why string) { c.Skipped = append(c.Skipped, Skip{what, why}) }

func (c *Circumstances) failed(format string, args ...any) {
	c.Failures = append(c.Failures, fmt.Sprintf(format, args...))
}

func (c *Circumstances) facts() []report.Fact {
	facts := newReport(&Results{Command: c.Command, Started: c.Started, Took: c.Took, Complete: c.Complete,
		Machine: c.Machine, Seed: c.Seed, Repeats: c.Repeats}).facts()
	if c.Disk != "" {
		facts = append(facts, report.Fact{Name: "Disk", Value: c.Disk})
	}
	return append(facts, c.More...)
}

// remarks are what was left out and what has failed, a line for each.
func (c *Circumstances) remarks() []string {
	var out []string
	for _, s := range c.Skipped {
		out = append(out, fmt.Sprintf("left out: %s: %s", s.What, s.Why))
	}
	for _, f := range c.Failures {
		out = append(out, "FAILED: "+firstLine(f))
	}
	return out
}

// experimentResults are the results of one experiment.
type experimentResults interface {
	circumstances() *Circumstances
	// any tells whether anything has been measured.
	any() bool
	// tables are all of them, the aims last.
	tables() []*report.Table
	page() *report.Page
}

// conduct measures, or reads what an earlier run has written, and publishes what there
// is, also of a run that has failed.
func (o *RunOptions) conduct(r experimentResults, measure func() error) error {
	experiment := r.circumstances().Experiment
	var err error
	if o.From != "" {
		err = readResults(o.From, r)
	} else {
		err = measure()
	}
	if err == nil || r.any() {
		err = errors.Join(err, o.publish(r))
	}
	if err != nil {
		return fmt.Errorf("bench %s: %w", experiment, err)
	}
	return nil
}

// readResults fills in results from a file that a run of the same experiment has
// written.
func readResults(path string, to experimentResults) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	want := to.circumstances().Experiment
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("read results from %s: %w", path, err)
	}
	switch c := to.circumstances(); {
	case c.Version != resultsVersion:
		return fmt.Errorf("read results from %s: version %d, this program reads %d", path, c.Version, resultsVersion)
	case c.Experiment != want:
		return fmt.Errorf("read results from %s: they are of the experiment %q, not of %q", path, c.Experiment, want)
	}
	return nil
}

func writeResults(path string, r experimentResults) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("write results to %s: %w", path, err)
	}
	return writeWhole(path, append(text, '\n'))
}

// publish shows the results and writes the files.
func (o *RunOptions) publish(r experimentResults) error {
	err := writeTables(o.Stdout, o.Terminal, r)
	if o.JSON != "" && o.From == "" {
		err = errors.Join(err, writeResults(o.JSON, r))
	}
	err = errors.Join(err,
		writeRendered(o.HTML, func(w io.Writer) error { return r.page().WriteHTML(w) }),
		writeRendered(o.Markdown, func(w io.Writer) error { return writeTablesMarkdown(w, r) }))
	for _, path := range []string{o.HTML, o.JSON, o.Markdown} {
		if path != "" && (path != o.JSON || o.From == "") {
			fmt.Fprintf(o.Stdout, "written: %s\n", path)
		}
	}
	return err
}

// writeRendered writes a file, unless path is empty.
func writeRendered(path string, render func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	if err := render(&b); err != nil {
		return err
	}
	return writeWhole(path, b.Bytes())
}

func writeTables(w io.Writer, term report.Terminal, r experimentResults) error {
	return showTables(w, term, r.tables(), r.circumstances().facts(), r.circumstances().remarks())
}

func writeTablesMarkdown(w io.Writer, r experimentResults) error {
	return tablesMarkdown(w, r.tables(), r.circumstances().facts(), r.circumstances().remarks())
}

// showTables writes tables for a terminal, and below them how they were made.
func showTables(w io.Writer, term report.Terminal, tables []*report.Table, facts []report.Fact, remarks []string) error {
	for _, t := range tables {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := t.WriteTerminal(w, term); err != nil {
			return err
		}
	}
	var b strings.Builder
	b.WriteString("\n")
	for _, f := range facts {
		fmt.Fprintf(&b, "%s: %s\n", f.Name, f.Value)
	}
	for _, line := range remarks {
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// tablesMarkdown writes how tables were made, and below that the tables.
func tablesMarkdown(w io.Writer, tables []*report.Table, facts []report.Fact, remarks []string) error {
	var b bytes.Buffer
	for _, f := range facts {
		fmt.Fprintf(&b, "- %s: %s\n", f.Name, f.Value)
	}
	for _, line := range remarks {
		b.WriteString("- " + line + "\n")
	}
	for _, t := range tables {
		b.WriteString("\n")
		if err := t.WriteMarkdown(&b); err != nil {
			return err
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// remarksText is the remarks as paragraphs of a page.
func (c *Circumstances) remarksText() report.Block {
	return report.Text(strings.Join(c.remarks(), "\n\n"))
}
