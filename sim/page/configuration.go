package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"headrace/report"
	"headrace/sim"
	"headrace/trace"
)

// clusters are the configurations of the results, in order.
type clusters []sim.Config

// clusters returns those of the results.
func (s set) clusters() clusters {
	var all clusters
	for _, r := range s.results {
		all = append(all, r.Config)
	}
	return all
}

func (s clusters) String() string {
	c := s[0]
	if len(c.Kinds) > 0 {
		return s.distinct(kinds)
	}
	return fmt.Sprintf("%s nodes with %s CPUs and %s of memory each", s.distinct(func(c sim.Config) string { return grouped(c.Nodes) }),
		report.UnitNone.Format(c.Node.CPUs), report.Capacity(c.Node.Memory))
}

// distinct lists what differs between the configurations.
func (s clusters) distinct(of func(sim.Config) string) string {
	var all []string
	seen := map[string]bool{}
	for _, c := range s {
		if v := of(c); !seen[v] {
			seen[v] = true
			all = append(all, v)
		}
	}
	return strings.Join(all, ", ")
}

// workloadSection describes what was run.
func workloadSection(p *report.Page, d *trace.Description) {
	if d == nil {
		return
	}
	bands := &report.Table{
		Title:   "The workload " + d.Name,
		Note:    "CPU time: what tasks need when nothing disturbs them. Asked for: the sum of the CPUs of all tasks, whether they run at the same time or not.",
		Columns: []report.Column{{Title: "band"}, right("tasks"), right("CPUs asked for"), right("CPU time")},
	}
	for _, g := range d.ByBand {
		bands.Add(report.Str(g.Name), report.Num(float64(g.Tasks), report.UnitNone), report.Num(g.Requested, report.UnitNone), report.Num(g.CoreHours, unitCoreHours))
	}
	bands.Add(report.Str("all"), report.Num(float64(d.Tasks), report.UnitNone), report.Num(d.Requested, report.UnitNone), report.Num(d.CoreHours, unitCoreHours))
	blocks := []report.Block{{Table: bands}}
	if len(d.Arrivals) > 1 {
		series := report.Series{Name: "submitted"}
		for i, n := range d.Arrivals {
			series.Points = append(series.Points, report.Point{X: (float64(i) + 0.5) * 3600, Y: float64(n)})
		}
		blocks = append(blocks, report.Block{Panes: &report.Panes{
			Title: "When tasks are submitted", Note: "How many in each hour of the trace.",
			X: report.Axis{Label: "time since the start", Unit: report.UnitSeconds}, Y: report.Axis{Label: "tasks in an hour"},
			Panes: []report.Pane{{Title: "", Series: []report.Series{series}}},
		}})
	}
	for _, note := range d.Notes {
		blocks = append(blocks, report.Text(note))
	}
	p.Add("What was run", blocks...)
}

func right(title string) report.Column { return report.Column{Title: title, Align: report.Right} }

// section is the cluster that was simulated, with what matters to inputs if there are any.
func (s clusters) section(p *report.Page, about About, reads bool) {
	text := "Where several values stand in a row, runs differ in it."
	if len(s[0].Kinds) == 0 {
		text = "All nodes are alike. " + text
	}
	if about.Measured != "" {
		text += " Speeds and costs were measured: " + about.Measured + "."
	}
	if s[0].Capacity != nil {
		text += " YARN's CapacityScheduler decides who runs and who has to make room; the policy, how."
	}
	p.Add("What was simulated", report.Text(text),
		report.Block{Table: s.mediaTable(about.Sources)}, report.Block{Table: s.nodeTable(reads), Half: true}, report.Block{Table: s.costTable(), Half: true})
}

// mediaTable has a row for each medium that some result has.
func (s clusters) mediaTable(sources map[string]string) *report.Table {
	t := &report.Table{
		Title:   "What checkpoints are kept on",
		Note:    "A dump takes its overhead and its bytes divided by the speed, and one at a time is under way on each node.",
		Columns: []report.Column{{Title: "medium"}, right("write"), right("read"), right("dump overhead"), right("restore overhead"), {Title: "measured", Flex: true}},
	}
	if len(sources) == 0 {
		t.Columns = t.Columns[:len(t.Columns)-1]
	}
	seen := map[sim.Medium]bool{}
	for _, c := range s {
		m := c.Medium
		if seen[m] {
			continue
		}
		seen[m] = true
		t.Add(report.Str(m.Name), report.Num(m.Write, report.UnitBytesPerSecond), report.Num(m.Read, report.UnitBytesPerSecond),
			report.Str(report.Duration(m.DumpOverhead)), report.Str(report.Duration(m.RestoreOverhead)), report.Str(sources[m.Name]))
	}
	return t
}

// A setting is one line of the configuration.
type setting struct {
	name string
	of   func(sim.Config) string
}

func (s clusters) settings(title string, settings []setting) *report.Table {
	t := &report.Table{Title: title, Columns: []report.Column{{Title: ""}, right("")}}
	for _, line := range settings {
		t.Add(report.Str(line.name), report.Str(s.distinct(line.of)))
	}
	return t
}

func bytesOr(n int64, none string) string {
	if n <= 0 {
		return none
	}
	return report.Capacity(n)
}

func speedOr(v float64, none string) string {
	if !(v > 0) {
		return none
	}
	return report.UnitBytesPerSecond.Format(v)
}

// kinds says what nodes there are where they are not all alike; empty: they are.
func kinds(c sim.Config) string {
	var all []string
	for _, k := range c.Kinds {
		all = append(all, fmt.Sprintf("%s with %s CPUs and %s of memory", many(k.Nodes, "node"), report.UnitNone.Format(k.CPUs), report.Capacity(k.Memory)))
	}
	return strings.Join(all, ", ")
}

// perKind says something of each kind of nodes, the number of nodes before it where there
// are several.
func perKind(c sim.Config, of func(sim.Kind) string) string {
	if len(c.Kinds) == 0 {
		return of(c.AllKinds()[0])
	}
	var all []string
	for _, k := range c.Kinds {
		all = append(all, grouped(k.Nodes)+" × "+of(k))
	}
	return strings.Join(all, ", ")
}

func (s clusters) nodeTable(reads bool) *report.Table {
	settings := []setting{
		{"nodes", func(c sim.Config) string { return grouped(c.Nodes) }},
		{"CPUs of each", func(c sim.Config) string {
			return perKind(c, func(k sim.Kind) string { return report.UnitNone.Format(k.CPUs) })
		}},
		{"memory of each", func(c sim.Config) string {
			return perKind(c, func(k sim.Kind) string { return bytesOr(k.Memory, "none") })
		}},
		{"swap of each", func(c sim.Config) string {
			return perKind(c, func(k sim.Kind) string { return bytesOr(k.Swap, "none") })
		}},
		{"paging out, in", func(c sim.Config) string {
			if !slices.ContainsFunc(c.AllKinds(), func(k sim.Kind) bool { return k.Swap > 0 }) {
				return "no swap"
			}
			return speedOr(c.Node.SwapOut, "none") + ", " + speedOr(c.Node.SwapIn, "none")
		}},
		{"room for checkpoints", func(c sim.Config) string { return bytesOr(c.Node.Store, "none") }},
		{"network", func(c sim.Config) string { return speedOr(c.Node.Net, "none: tasks do not move") }},
	}
	if reads {
		settings = append(settings,
			setting{"disk of inputs, one reader", func(c sim.Config) string { return speedOr(c.Reading.Disk, "none") }},
			setting{"disk, several readers", func(c sim.Config) string { return speedOr(c.Reading.Shared, "none") }},
			setting{"page cache", func(c sim.Config) string { return bytesOr(c.Reading.Cache, "none") }},
			setting{"of it for warming", func(c sim.Config) string { return bytesOr(c.Reading.Buffer, "none: no warming") }},
			setting{"announced ahead", func(c sim.Config) string { return report.Duration(c.Reading.Lead) }},
			setting{"copies of a block", func(c sim.Config) string { return fmt.Sprint(c.Reading.Replicas) }},
			setting{"placed by residency", func(c sim.Config) string { return yes(c.Reading.ByResidency) }},
		)
	}
	return s.settings("Cluster", settings)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (s clusters) costTable() *report.Table {
	took := func(of func(sim.Config) time.Duration) func(sim.Config) string {
		return func(c sim.Config) string { return report.Duration(of(c)) }
	}
	watts := func(of func(sim.Power) float64) func(sim.Config) string {
		return func(c sim.Config) string { return report.UnitNone.Format(of(c.Power)) + " W" }
	}
	return s.settings("Costs and power", []setting{
		{"start of a task", took(func(c sim.Config) time.Duration { return c.Costs.Start })},
		{"kill", took(func(c sim.Config) time.Duration { return c.Costs.Kill })},
		{"suspend", took(func(c sim.Config) time.Duration { return c.Costs.Stop })},
		{"resume", took(func(c sim.Config) time.Duration { return c.Costs.Resume })},
		{"CPUs busy in a dump", func(c sim.Config) string { return report.UnitNone.Format(c.Costs.Moving) }},
		{"a node that idles", watts(func(p sim.Power) float64 { return p.Idle })},
		{"a node that is busy", watts(func(p sim.Power) float64 { return p.Peak })},
		{"between decisions", took(func(c sim.Config) time.Duration { return c.Interval })},
		{"tasks know how far they are", func(c sim.Config) string { return yes(c.KnowShare) }},
		{"seed", func(c sim.Config) string { return fmt.Sprint(c.Seed) }},
	})
}
