package lab

import (
	"fmt"
	"io"
	"strings"

	"headrace/report"
)

// document is a report on results, in any form.
type document struct{ res *Results }

func newReport(res *Results) document { return document{res} }

// tables are all of them, the aims last.
func (d document) tables() []*report.Table {
	var out []*report.Table
	add := func(any bool, t func() *report.Table) {
		if any {
			out = append(out, t())
		}
	}
	r := d.res
	add(len(r.good(expLight)) > 0, func() *report.Table {
		return r.runTable(expLight, "(a) light tasks", "done on arrival")
	})
	add(len(r.good(expDirty)) > 0, func() *report.Table {
		return r.runTable(expDirty, "(b) both tasks with large dirty memory, which together exceed the limit", "done on arrival")
	})
	add(len(r.good(expFootprint)) > 0, r.footprintTable)
	add(len(r.good(expStorage)) > 0, func() *report.Table {
		return r.storageTable(expStorage, "(c) two k-means jobs over storage bandwidths, where suspending is impossible")
	})
	add(len(r.good(expRoomy)) > 0, func() *report.Table {
		return r.storageTable(expRoomy, "(c) the same, where memory holds both tasks")
	})
	add(len(r.dumpGroups()) > 0, r.dumpTable)
	add(len(r.storeTable().Rows) > 0, r.storeTable)
	add(len(r.aims()) > 0, r.aimTable)
	return out
}

func (d document) writeTerminal(w io.Writer, term report.Terminal) error {
	return showTables(w, term, d.tables(), d.facts(), d.remarks("FAILED"))
}

func (d document) writeMarkdown(w io.Writer) error {
	return tablesMarkdown(w, d.tables(), d.facts(), d.remarks("failed"))
}

// remarks are what was left out and what has failed, a line for each.
func (d document) remarks(failed string) []string {
	var out []string
	for _, s := range d.res.Skipped {
		out = append(out, fmt.Sprintf("left out: %s: %s", s.What, s.Why))
	}
	for _, f := range d.failures() {
		out = append(out, failed+": "+f)
	}
	return out
}

// failures names the runs without numbers, each in a line; the file has all of
// the message.
func (d document) failures() []string {
	var out []string
	for _, r := range d.res.Runs {
		if r.Failure != "" {
			out = append(out, fmt.Sprintf("(%s) repeat %d, %s at %s: %s", r.Experiment, r.Repeat+1, r.Policy, pointName(r.Experiment, r.Point), firstLine(r.Failure)))
		}
	}
	for _, x := range d.res.Dumps {
		if x.Failure != "" {
			out = append(out, fmt.Sprintf("(d) repeat %d, %s pages at %s: %s", x.Repeat+1, x.Pattern, x.Store, firstLine(x.Failure)))
		}
	}
	return out
}

func firstLine(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return first
}

func (d document) facts() []report.Fact {
	r, m := d.res, d.res.Machine
	machine := fmt.Sprintf("%d × %s, %s of memory, %s of swap, Linux %s, %s", m.Processors, m.Processor,
		report.Bytes(m.Memory), report.Bytes(m.Swap), m.Kernel, m.System)
	out := []report.Fact{
		{Name: "Command", Value: "`" + r.Command + "`"},
		{Name: "Machine", Value: machine},
		{Name: "Versions", Value: strings.TrimSuffix(fmt.Sprintf("%s, %s, CRIU %s", m.Headrace, m.Go, m.CRIU), ", CRIU ")},
		{Name: "Date", Value: fmt.Sprintf("%s, took %s", r.Started.UTC().Format("2006-01-02 15:04 UTC"), report.Seconds(r.Took))},
		{Name: "Repeats", Value: fmt.Sprintf("%d, order from seed %d; load on the machine before: %.2f", r.Repeats, r.Seed, m.Load)},
	}
	if !r.Complete {
		out = append(out, report.Fact{Name: "Incomplete", Value: "the run was interrupted or has failed; what follows is what was measured until then"})
	}
	return out
}
