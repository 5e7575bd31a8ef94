package traces

import (
	"fmt"
	"math"
	"strings"

	"headrace/cli"
	"headrace/report"
	"headrace/trace"
)

// share returns n of all, or NaN when there are none.
func share(n, all int) float64 {
	if all == 0 {
		return math.NaN()
	}
	return float64(n) / float64(all)
}

// mostHourRows is how many rows describeHours has at most.
const mostHourRows = 24

// describeHours returns when tasks were submitted, and how often they were preempted.
func describeHours(d *trace.Description) *report.Table {
	var hourly []trace.Hour
	if d.Recorded {
		hourly = d.Outcome.Hourly
	}
	hours := max(len(d.Arrivals), len(hourly), 1)
	each := (hours + mostHourRows - 1) / mostHourRows
	t := &report.Table{Title: "Submitted", Columns: []report.Column{{Title: "from"}, {Title: "tasks", Align: report.Right}, {Title: ""}}}
	if hourly != nil {
		t.Columns = append(t.Columns, report.Column{Title: "runs", Align: report.Right}, report.Column{Title: "preempted", Align: report.Right})
	}
	var tasks []int
	for from := 0; from < hours; from += each {
		tasks = append(tasks, sum(part(d.Arrivals, from, each), func(n int) int { return n }))
	}
	most := 1
	for _, n := range tasks {
		most = max(most, n)
	}
	for i, n := range tasks {
		row := []report.Cell{report.Str(hourText(i * each)), report.Str(cli.Grouped(n)), report.Str(strings.Repeat("#", (n*30+most-1)/most))}
		if hourly != nil {
			these := part(hourly, i*each, each)
			runs := sum(these, func(h trace.Hour) int { return h.Scheduled })
			row = append(row, report.Str(cli.Grouped(runs)), report.Num(share(sum(these, func(h trace.Hour) int { return h.Preemptions }), runs), report.UnitPercent))
		}
		t.Add(row...)
	}
	return t
}

// part returns n elements from a place on, as far as there are any.
func part[T any](s []T, from, n int) []T {
	from = min(from, len(s))
	return s[from:min(from+n, len(s))]
}

func sum[T any](s []T, of func(T) int) int {
	total := 0
	for _, v := range s {
		total += of(v)
	}
	return total
}

func hourText(hour int) string {
	if hour >= 24 {
		return fmt.Sprintf("day %d %02d:00", hour/24+1, hour%24)
	}
	return fmt.Sprintf("%02d:00", hour)
}

// describeTimes returns how many tasks were preempted how often.
func describeTimes(o *trace.Outcome) *report.Table {
	t := &report.Table{Title: "Preempted", Columns: []report.Column{{Title: "times"}, {Title: "tasks", Align: report.Right}, {Title: "of those preempted", Align: report.Right}}}
	preempted := sum(part(o.Times, 1, len(o.Times)), func(n int) int { return n })
	// One by one first, then all up to the double.
	for from := 1; from < len(o.Times); {
		to, text := from, fmt.Sprint(from)
		if from > trace.OftenTimes {
			to = min(2*from-1, len(o.Times)-1)
			text = fmt.Sprintf("%d to %d", from, to)
		}
		if n := sum(part(o.Times, from, to+1-from), func(n int) int { return n }); n > 0 {
			t.Add(report.Str(text), report.Str(cli.Grouped(n)), report.Num(share(n, preempted), report.UnitPercent))
		}
		from = to + 1
	}
	return t
}
