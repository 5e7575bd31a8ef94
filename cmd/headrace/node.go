package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"headrace/report"
	"headrace/wire"
)

// nodeTable returns one line for each thing that tasks share.
func nodeTable(n *wire.NodeInfo, term report.Terminal) *report.Table {
	if n == nil {
		n = &wire.NodeInfo{}
	}
	t := &report.Table{
		Title: fmt.Sprintf("%s, policy %s, headrace %s%s", n.Hostname, n.Policy, n.Version, uptime(n)),
		Columns: []report.Column{
			{Title: ""}, {Title: "used", Align: report.Right}, {Title: "of", Align: report.Right}, {Title: ""},
			{Title: "out", Align: report.Right}, {Title: "in", Align: report.Right}, {Title: "", Flex: true},
		},
	}
	add := func(name string, used, of float64, unit report.Unit, out, in float64, note string) {
		t.Add(report.Str(name), report.Str(unit.Format(used)), report.Str(unit.Format(of)), report.Str(bar(used, of, term)),
			speed(out), speed(in), report.Str(note))
	}
	add("slots", n.SlotsUsed, n.Slots, report.UnitNone, 0, 0, "")
	add("memory", float64(n.MemoryUsed), float64(n.Memory), report.UnitBytes, 0, 0, "")
	add("swap", float64(n.SwapTotal-n.SwapFree), float64(n.SwapTotal), report.UnitBytes, n.SwapOut, n.SwapIn, "")
	if n.WarmBudget > 0 || n.Streams > 0 {
		add("warm", float64(n.Pinned), float64(n.WarmBudget), report.UnitBytes, 0, 0, readingNote(n))
	}
	for _, s := range n.Stores {
		note := s.Dir
		if s.Compression != "" {
			note += ", " + s.Compression
		}
		add("store "+s.Name, float64(s.Used), float64(s.Used)+float64(s.Free), report.UnitBytes, s.Write, s.Read, note)
	}
	if n.Archive != "" {
		note := n.Archive
		if n.ArchiveWhy != "" {
			note += ", cannot be used: " + n.ArchiveWhy
		}
		none := report.Str("")
		t.Add(report.Str("archive"), none, none, none, none, none, report.Str(note))
	}
	return t
}

// readingNote tells how the machine reads for its tasks.
func readingNote(n *wire.NodeInfo) string {
	note := "residency by " + n.Residency
	switch n.Streams {
	case 0:
	case 1:
		note += ", 1 stream"
	default:
		note += fmt.Sprintf(", %d streams", n.Streams)
	}
	return note
}

func uptime(n *wire.NodeInfo) string {
	if n.StartedMs == 0 {
		return ""
	}
	return ", up " + report.Duration(time.Since(time.UnixMilli(n.StartedMs)))
}

// speed returns a bandwidth; 0 means that it was not measured.
func speed(v float64) report.Cell {
	if v == 0 {
		return report.Str("")
	}
	return report.Str(report.UnitBytesPerSecond.Format(v))
}

func bar(used, of float64, term report.Terminal) string {
	width := 20
	if term.Width > 0 && term.Width < 100 {
		width = 10
	}
	full, empty := "█", "░"
	if term.ASCII {
		full, empty = "#", "."
	}
	share := used / of
	if math.IsNaN(share) || of <= 0 {
		return ""
	}
	n := int(math.Round(float64(width) * min(max(share, 0), 1)))
	return strings.Repeat(full, n) + strings.Repeat(empty, width-n)
}
