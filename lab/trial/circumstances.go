package trial

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"headrace/internal/linux"
	"headrace/lab/rig"
	"headrace/report"
)

// ResultsVersion changes when a file of an older version can no longer be read.
const ResultsVersion = 1

// Circumstances are what a reader must know to judge the results of an experiment.
// Times are seconds.
type Circumstances struct {
	Version    int         `json:"version"`
	Experiment string      `json:"experiment"`
	Command    string      `json:"command"`
	Started    time.Time   `json:"started"`
	Took       float64     `json:"took"`
	Complete   bool        `json:"complete"`
	Machine    rig.Machine `json:"machine"`
	Seed       uint64      `json:"seed"`
	Repeats    int         `json:"repeats"`
	// Disk is what was read from: a device, or a model and its parameters. Empty: an
	// experiment that reads from none.
	Disk string `json:"disk,omitempty"`
	// More is what else a reader must know.
	More []report.Fact `json:"more,omitempty"`
	// Skipped is what was not run, Failures what was and has no numbers.
	Skipped  []Skip   `json:"skipped,omitempty"`
	Failures []string `json:"failures,omitempty"`
}

// About returns c: results embed it.
func (c *Circumstances) About() *Circumstances { return c }

// Begin notes what is known before a run of the experiment.
func (c *Circumstances) Begin(o *Options) error {
	machine, err := rig.ThisMachine()
	*c = Circumstances{Version: ResultsVersion, Experiment: c.Experiment, Command: strings.Join(o.Command, " "),
		Started: time.Now(), Machine: machine, Seed: o.Seed, Repeats: o.Repeats}
	return err
}

// End notes how the run ended.
func (c *Circumstances) End(err error) {
	c.Took = time.Since(c.Started).Seconds()
	c.Complete = err == nil
}

// Skip notes what was not run, and why.
func (c *Circumstances) Skip(what, why string) { c.Skipped = append(c.Skipped, Skip{what, why}) }

// Failed notes a run without numbers.
func (c *Circumstances) Failed(format string, args ...any) {
	c.Failures = append(c.Failures, fmt.Sprintf(format, args...))
}

// Facts returns the circumstances for the head of a report.
func (c *Circumstances) Facts() []report.Fact {
	m := c.Machine
	machine := fmt.Sprintf("%d × %s, %s of memory, %s of swap, Linux %s, %s", m.Processors, m.Processor,
		report.Bytes(m.Memory), report.Bytes(m.Swap), m.Kernel, m.System)
	out := []report.Fact{
		{Name: "Command", Value: "`" + c.Command + "`"},
		{Name: "Machine", Value: machine},
		{Name: "Versions", Value: strings.TrimSuffix(fmt.Sprintf("%s, %s, CRIU %s", m.Headrace, m.Go, m.CRIU), ", CRIU ")},
		{Name: "Date", Value: fmt.Sprintf("%s, took %s", c.Started.UTC().Format("2006-01-02 15:04 UTC"), report.Seconds(c.Took))},
		{Name: "Repeats", Value: fmt.Sprintf("%d, order from seed %d; load on the machine before: %.2f", c.Repeats, c.Seed, m.Load)},
	}
	if m.Reclaims {
		out = append(out, report.Fact{Name: "Idle pages", Value: "taken from memory by the kernel (DAMON), however much is free"})
	}
	if !c.Complete {
		out = append(out, report.Fact{Name: "Incomplete", Value: "the run was interrupted or has failed; what follows is what was measured until then"})
	}
	if c.Disk != "" {
		out = append(out, report.Fact{Name: "Disk", Value: c.Disk})
	}
	return append(out, c.More...)
}

// remarks returns what was left out and what has failed, a line for each.
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

// Skip is a part that was left out.
type Skip struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

func firstLine(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return first
}

// RemarksText returns the remarks as paragraphs of a page.
func (c *Circumstances) RemarksText() report.Block {
	return report.Text(strings.Join(c.remarks(), "\n\n"))
}

// ReadResults fills in results from a file that a run of the same experiment has
// written.
func ReadResults(path string, to Results) error {
	text, err := readPacked(path)
	if err != nil {
		return err
	}
	want := to.About().Experiment
	to.About().Experiment = ""
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("read results from %s: %w", path, err)
	}
	switch c := to.About(); {
	case c.Version != ResultsVersion:
		return fmt.Errorf("read results from %s: version %d, this program reads %d", path, c.Version, ResultsVersion)
	case c.Experiment != want:
		return fmt.Errorf("read results from %s: they are of the experiment %q, not of %q", path, c.Experiment, want)
	}
	return nil
}

// WriteResults replaces the file, from which ReadResults reads them again. It is packed
// when its name ends in .gz.
func WriteResults(path string, r Results) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("write results to %s: %w", path, err)
	}
	text = append(text, '\n')
	if strings.HasSuffix(path, packed) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(text)
		if err := errors.Join(err, z.Close()); err != nil {
			return fmt.Errorf("write results to %s: %w", path, err)
		}
		text = b.Bytes()
	}
	return WriteWhole(path, text)
}

// packed ends the name of a file that gzip has packed.
const packed = ".gz"

func readPacked(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(path, packed) {
		return text, err
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err == nil {
		text, err = io.ReadAll(z)
	}
	if err != nil {
		return nil, fmt.Errorf("read results from %s: %w", path, err)
	}
	return text, nil
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
	return WriteWhole(path, b.Bytes())
}

// WriteTables writes the results for a terminal, and below them how they were made.
func WriteTables(w io.Writer, term report.Terminal, r Results) error {
	for _, t := range r.Tables() {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := t.WriteTerminal(w, term); err != nil {
			return err
		}
	}
	var b strings.Builder
	b.WriteString("\n")
	for _, f := range r.About().Facts() {
		fmt.Fprintf(&b, "%s: %s\n", f.Name, f.Value)
	}
	for _, line := range r.About().remarks() {
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteTablesMarkdown writes how the results were made, and below that the tables.
func WriteTablesMarkdown(w io.Writer, r Results) error {
	var b bytes.Buffer
	for _, f := range r.About().Facts() {
		fmt.Fprintf(&b, "- %s: %s\n", f.Name, f.Value)
	}
	for _, line := range r.About().remarks() {
		b.WriteString("- " + line + "\n")
	}
	for _, t := range r.Tables() {
		b.WriteString("\n")
		if err := t.WriteMarkdown(&b); err != nil {
			return err
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// WriteWhole replaces a file, making its directory.
func WriteWhole(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return linux.ReplaceFile(path, data, 0o644)
}
