package report_test

import (
	"os"

	"headrace"
	"headrace/report"
)

func ExampleTable() {
	t := &report.Table{Columns: []report.Column{
		{Title: "NAME", Flex: true}, {Title: "STATE"}, {Title: "RAN", Align: report.Right}, {Title: "MEMORY", Align: report.Right},
	}}
	t.Add(report.Str("nightly"), report.State(headrace.Suspended), report.Num(192, report.UnitSeconds), report.Num(1.4e9, report.UnitBytes))
	t.Add(report.Str("urgent"), report.State(headrace.Running), report.Num(4.2, report.UnitSeconds), report.Num(310e6, report.UnitBytes))
	t.WriteText(os.Stdout)
	// Output:
	// NAME     STATE        RAN  MEMORY
	// nightly  suspended  3m12s  1.4 GB
	// urgent   running    4.20s  310 MB
}

func ExampleTimeline_WriteText() {
	t := &report.Timeline{Panels: []report.Panel{{Name: "suspend", Lanes: []report.Lane{
		{Name: "nightly", Segments: []report.Segment{
			{Kind: report.Running, Start: 0, End: 8}, {Kind: report.Suspended, Start: 8, End: 14}, {Kind: report.Running, Start: 14, End: 30},
		}},
		{Name: "urgent", Strong: true, Segments: []report.Segment{{Kind: report.Running, Start: 8, End: 14}}},
	}, Markers: []report.Marker{{At: 8, Label: "urgent arrives"}}}}}
	t.WriteText(os.Stdout, report.Terminal{Width: 41})
	// Output:
	// suspend
	//                   ▼ urgent arrives
	//   nightly ▇▇▇▇▇▇▇▇░░░░░░▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇
	//   urgent          ▇▇▇▇▇▇
	//           0              15s           30s
	//           ▇ running  ░ suspended
}
