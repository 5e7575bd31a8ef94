package traces

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/report"
	"headrace/trace"
)

func describeVerb(a verbs) *cobra.Command {
	var load Flags
	cmd := &cobra.Command{
		Use:   "describe SOURCE",
		Short: "Tell what a trace asks for, and what became of it",
		Long: `Describe tells how many jobs and tasks of which priority there are, when they
come, how long they run, what they need and read, and, where the trace says so,
how often they were preempted. It reads the trace without keeping it, so that a
trace may be larger than memory.`,
		Example: `  headrace trace describe synthetic:google-day
  headrace trace describe csv:tasks.csv.gz --format json
  headrace trace describe google2011:clusterdata-2011-2 --for 24h`,
		Args:              cli.Takes(1, 1, "the trace"),
		ValidArgsFunction: completeSource,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.describe(cmd.Context(), args[0], &load)
			if err != nil {
				return err
			}
			if a.Format == cli.FormatJSON {
				return cli.WriteJSON(a.Out, d)
			}
			if err := a.Tables(d.tables()); err != nil {
				return err
			}
			a.Notes(d.Notes)
			return nil
		},
	}
	load.Define(cmd)
	return cmd
}

// A described is a trace as a whole, beside what is published of it.
type described struct {
	trace.Description
	// Published is nil for traces of which nothing is.
	Published []trace.Comparison `json:"published,omitempty"`
}

// describe reads a trace. Only google-day is held in memory: it is made there.
func (a verbs) describe(ctx context.Context, name string, f *Flags) (*described, error) {
	source, o, err := a.opening(name, f)
	if err != nil {
		return nil, err
	}
	return reading(ctx, a.readBar(source, &o), func() (*described, error) {
		if source == "synthetic:"+trace.GoogleDayName && o.From == 0 && o.For == 0 {
			w, err := trace.Open(ctx, source, o)
			if err != nil {
				return nil, err
			}
			return &described{Description: trace.Describe(w), Published: trace.CompareWorkload(w, o.Scale)}, nil
		}
		d, err := trace.DescribeSource(ctx, source, o)
		if err != nil {
			return nil, err
		}
		found := &described{Description: d}
		if strings.HasPrefix(source, "google2011:") && d.Recorded {
			found.Published = trace.CompareOutcome(d.Outcome, 0, 0, 1)
		}
		return found, nil
	})
}

// tables returns a description for people.
func (d *described) tables() []*report.Table {
	all := []*report.Table{describeAll(&d.Description), describeSizes(&d.Description),
		groupTable("Bands of priorities", "band", d, d.ByBand, d.Bands),
		groupTable("Priorities", "priority", d, d.ByPriority, d.became().ByPriority),
		groupTable("Classes of sensitivity to latency", "class", d, d.ByClass, d.became().ByClass),
		describeHours(&d.Description)}
	if d.Recorded {
		all = append(all, describeTimes(d.Outcome))
	}
	if d.Published != nil {
		all = append(all, publishedTable(d.Published))
	}
	return all
}

// became returns what became of the tasks; empty when the trace does not say.
func (d *described) became() trace.Outcome {
	if d.Recorded {
		return *d.Outcome
	}
	return trace.Outcome{}
}

func publishedTable(rows []trace.Comparison) *report.Table {
	t := &report.Table{Title: "Published, and here",
		Note:    "Published: Li et al., Improving Preemptive Scheduling with Application-Transparent Checkpointing in Shared Clusters, Middleware 2015.",
		Columns: []report.Column{{Title: "what"}, {Title: "published", Align: report.Right}, {Title: "here", Align: report.Right}, {Title: "where"}}}
	for _, r := range rows {
		cell := func(v float64) report.Cell { return report.Str(cli.Grouped(int(math.Round(v)))) }
		if r.Unit == "%" {
			cell = func(v float64) report.Cell { return report.Num(v/100, report.UnitPercent) }
		}
		what := r.What
		if r.Unit != "" && r.Unit != "%" && !strings.Contains(what, r.Unit) {
			what += ", " + r.Unit
		}
		where := r.Source
		if r.Derived {
			where = "follows from " + where
		}
		t.Add(report.Str(what), cell(r.Published), cell(r.Ours), report.Str(where))
	}
	return t
}

func describeAll(d *trace.Description) *report.Table {
	t := &report.Table{Columns: []report.Column{{Title: "trace"}, {Title: cli.OneLine(d.Name), Flex: true}}}
	add := func(what, is string) { t.Add(report.Str(what), report.Str(is)) }
	add("jobs", cli.Grouped(d.Jobs))
	add("tasks", cli.Grouped(d.Tasks))
	add("submitted in", report.Seconds(d.Span))
	add("CPUs asked for", report.UnitNone.Format(d.Requested))
	add("CPUs busy at most", report.UnitNone.Format(d.Peak)+" if every task ran at once")
	add("work", report.UnitNone.Format(d.CoreHours)+" core-hours")
	if c := d.Cluster; c.Nodes > 0 {
		add("cluster", cli.Grouped(c.Nodes)+" nodes of "+report.UnitNone.Format(c.CPUs)+" CPUs and "+report.Capacity(c.Memory))
	}
	if d.Files > 0 {
		add("read", report.UnitBytes.Format(d.Bytes)+" of "+cli.Grouped(d.Files)+" files")
	}
	if d.Users > 0 {
		add("users", cli.Grouped(d.Users))
	}
	for _, c := range d.Counted {
		add(cli.OneLine(c.Name), fmt.Sprintf("%s asked for by %s tasks, %s hours", report.UnitNone.Format(c.Requested), cli.Grouped(c.Tasks), report.UnitNone.Format(c.Hours)))
	}
	if d.Stages > 0 {
		add("stages", fmt.Sprintf("%s; %s tasks wait for others", cli.Grouped(d.Stages), cli.Grouped(d.Waiting)))
	}
	if d.Gangs > 0 {
		add("gangs", fmt.Sprintf("%s, of %s tasks that run only together", cli.Grouped(d.Gangs), cli.Grouped(d.Ganged)))
	}
	if d.Recorded {
		add("thrown away", report.UnitNone.Format(d.Lost)+" core-hours by preemption")
	}
	return t
}

func describeSizes(d *trace.Description) *report.Table {
	t := &report.Table{Title: "Sizes", Columns: []report.Column{{Title: "of a task"}}}
	for _, title := range []string{"mean", "median", "90 %", "99 %", "greatest"} {
		t.Columns = append(t.Columns, report.Column{Title: title, Align: report.Right})
	}
	perJob := d.TasksPerJob
	for _, v := range []*float64{&perJob.P50, &perJob.P90, &perJob.P99} {
		*v = math.Round(*v) // it is within 1 %
	}
	for _, row := range []struct {
		what string
		of   trace.Distribution
		unit report.Unit
	}{
		{"running time", d.Run, report.UnitSeconds}, {"CPUs", d.CPUs, report.UnitNone}, {"memory", d.Memory, report.UnitBytes},
		{"input", d.Input, report.UnitBytes}, {"tasks of its job", perJob, report.UnitNone},
	} {
		if row.of.N == 0 {
			continue
		}
		t.Add(report.Str(row.what), report.Num(row.of.Mean, row.unit), report.Num(row.of.P50, row.unit),
			report.Num(row.of.P90, row.unit), report.Num(row.of.P99, row.unit), report.Num(row.of.Max, row.unit))
	}
	return t
}

// groupTable has a row for each group that has tasks. outcome is what became of
// them, or nil.
func groupTable(title, of string, d *described, groups []trace.Group, outcome []trace.Preempted) *report.Table {
	right := func(title string) report.Column { return report.Column{Title: title, Align: report.Right} }
	t := &report.Table{Title: title, Columns: []report.Column{{Title: of}, right("tasks"), right("of all"), right("CPUs"), right("core-hours")}}
	if outcome != nil {
		t.Columns = append(t.Columns, right("preempted"), right("times"), right("of runs"))
	}
	for i, g := range groups {
		if g.Tasks == 0 {
			continue
		}
		row := []report.Cell{report.Str(g.Name), report.Str(cli.Grouped(g.Tasks)), report.Num(share(g.Tasks, d.Tasks), report.UnitPercent),
			report.Num(g.Requested, report.UnitNone), report.Num(g.CoreHours, report.UnitNone)}
		if i < len(outcome) {
			o := outcome[i]
			row = append(row, report.Num(share(o.Preempted, o.Tasks), report.UnitPercent), report.Str(cli.Grouped(o.Preemptions)),
				report.Num(share(o.Preemptions, o.Scheduled), report.UnitPercent))
		}
		t.Add(row...)
	}
	return t
}
