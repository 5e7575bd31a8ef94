package dfs

import (
	"fmt"

	"headrace/lab/sample"
	"headrace/lab/view"
	"headrace/report"
)

// Tables returns what was measured, the aims last.
func (r *Results) Tables() []*report.Table {
	var out []*report.Table
	for _, t := range []struct {
		part string
		make func() *report.Table
	}{{partRead, r.readTable}, {partNames, r.nameTable}, {partWrite, r.writeTable}, {partLoss, r.lossTable}, {partDevice, r.deviceTable}} {
		if r.ran(t.part) {
			out = append(out, t.make())
		}
	}
	if r.ran(partRead) || r.ran(partWrite) || r.ran(partDevice) {
		out = append(out, r.costTable())
	}
	return append(out, view.AimTable(r.aims()))
}

const medians = "Medians over the repeats, in brackets from the least to the greatest; ratios are formed within each repeat."

// rows adds a row for each system at each point. HDFS has none that ours has not.
func (r *Results) rows(t *report.Table, part string, name func(Point) report.Cell, cells func(p Point, system string, runs []Run) []report.Cell) {
	for _, p := range r.Plan.points(part, systemOurs) {
		first := name(p)
		for _, system := range Systems {
			if runs := r.at(part, system, p); len(runs) > 0 {
				t.Add(append([]report.Cell{first, report.Str(system)}, cells(p, system, runs)...)...)
				first = report.Str("")
			}
		}
	}
}

// against shows a measure over that of HDFS; nothing for HDFS.
func (r *Results) against(part, system string, p Point, f measure) report.Cell {
	if system == systemHDFS {
		return report.Str("")
	}
	return view.Figure(r.over(part, p, f), report.UnitRatio)
}

var bytesPerSecond = report.UnitBytesPerSecond

func (r *Results) readTable() *report.Table {
	t := &report.Table{
		Title: fmt.Sprintf("%d readers on one node (veloxdfs, figure 1)", r.Plan.Readers),
		Note: fmt.Sprintf("Each reads a file of %s through Hadoop's client; the files were written side by side, and are not in memory. %s "+
			"VeloxDFS: 110 MB/s over 70 of HDFS, on a disk of 156.", report.Bytes(r.Plan.ReadBytes), medians),
		Columns: []report.Column{{Title: "readers", Align: report.Right}, {Title: "system"}, {Title: "throughput", Align: report.Right}, {Title: "over HDFS", Align: report.Right},
			{Title: "seeks a second", Align: report.Right}, {Title: "disk busy", Align: report.Right}},
	}
	r.rows(t, partRead, func(Point) report.Cell { return report.Num(float64(r.Plan.Readers), report.UnitNone) }, func(p Point, system string, runs []Run) []report.Cell {
		return []report.Cell{view.Figure(sample.Of(runs, speed), bytesPerSecond), r.against(partRead, system, p, speed),
			view.Figure(sample.Of(runs, seeks), report.UnitNone), view.Share(sample.Of(runs, diskShare))}
	})
	return t
}

func (r *Results) writeTable() *report.Table {
	t := &report.Table{
		Title: fmt.Sprintf("Writers side by side, %d copies on %d nodes", copies, several),
		Note: fmt.Sprintf("They write %s together, each a file, through Hadoop's client. Throughput counts bytes of clients, once, until all of them are on the disks; "+
			"until closed: until the clients have closed their files. All was read again and compared. %s", report.Bytes(r.Plan.WriteBytes), medians),
		Columns: []report.Column{{Title: "writers", Align: report.Right}, {Title: "system"}, {Title: "throughput", Align: report.Right}, {Title: "over HDFS", Align: report.Right},
			{Title: "until closed", Align: report.Right}, {Title: "over HDFS", Align: report.Right}, {Title: "seeks a second and disk", Align: report.Right}, {Title: "disks busy", Align: report.Right}},
	}
	r.rows(t, partWrite, func(p Point) report.Cell { return report.Num(float64(p.Writers), report.UnitNone) }, func(p Point, system string, runs []Run) []report.Cell {
		return []report.Cell{view.Figure(sample.Of(runs, speed), bytesPerSecond), r.against(partWrite, system, p, speed), view.Figure(sample.Of(runs, clientSpeed), bytesPerSecond),
			r.against(partWrite, system, p, clientSpeed), view.Figure(sample.Of(runs, seeks), report.UnitNone), view.Share(sample.Of(runs, diskShare))}
	})
	return t
}

func (r *Results) nameTable() *report.Table {
	t := &report.Table{
		Title: fmt.Sprintf("Operations on names by %d threads", r.Plan.Threads),
		Note: fmt.Sprintf("Through Hadoop's client, in one process with a connection for each four threads, %d of each kind. A change is durable when it is answered. "+
			"Create makes an empty file and closes it: two changes. HDFS has one NameNode, without a standby. All nodes are on this machine, and share its processors and its one disk. %s",
			r.Plan.Threads*r.Plan.Names, medians),
		Columns: []report.Column{{Title: "operation"}, {Title: "system"}, {Title: "nodes", Align: report.Right}, {Title: "a second", Align: report.Right}, {Title: "over HDFS", Align: report.Right},
			{Title: "half below", Align: report.Right}, {Title: "99 % below", Align: report.Right}},
	}
	for _, kind := range r.kinds() {
		name := report.Str(kind)
		for _, system := range Systems {
			for _, p := range r.points(partNames, system) {
				runs := r.at(partNames, system, p)
				t.Add(name, report.Str(system), report.Num(float64(p.Nodes), report.UnitNone), view.Figure(sample.Of(runs, ofKind(kind, rate)), report.UnitNone),
					r.against(partNames, system, p, ofKind(kind, rate)), view.Figure(sample.Of(runs, ofKind(kind, half)), report.UnitSeconds),
					view.Figure(sample.Of(runs, ofKind(kind, most)), report.UnitSeconds))
				name = report.Str("")
			}
		}
	}
	return t
}

func (r *Results) lossTable() *report.Table {
	p := r.Plan
	t := &report.Table{
		Title: fmt.Sprintf("A node is killed under %d readers and %d writers", p.LossReaders, p.LossWriters),
		Note: fmt.Sprintf("%d copies on %d nodes; each client moves 64 KB every %d ms, and writers have each piece flushed to all copies; after %.0f of %.0f s a node gets SIGKILL, of HDFS a DataNode. "+
			"Longest wait of one operation of a client: open, read, create, write with flush, close. All that was written was read again and compared. %s", copies, several, p.EveryMs, p.Before, p.Loss, medians),
		Columns: []report.Column{{Title: "lost"}, {Title: "system"}, {Title: "reader waits", Align: report.Right}, {Title: "before the loss", Align: report.Right}, {Title: "writer waits", Align: report.Right},
			{Title: "before the loss", Align: report.Right}, {Title: "for"}, {Title: "errors", Align: report.Right}},
	}
	r.rows(t, partLoss, func(p Point) report.Cell { return report.Str(p.Lost) }, func(_ Point, _ string, runs []Run) []report.Cell {
		return []report.Cell{view.Figure(sample.Of(runs, readerStall), report.UnitSeconds), view.Figure(sample.Of(runs, func(x Run) float64 { return x.Reader.Before }), report.UnitSeconds),
			view.Figure(sample.Of(runs, writerStall), report.UnitSeconds), view.Figure(sample.Of(runs, func(x Run) float64 { return x.Writer.Before }), report.UnitSeconds),
			report.Str(sample.Middle(runs, writerStall).Writer.What), report.Num(sample.Of(runs, errorsOf).Max, report.UnitNone)}
	})
	return t
}

func (r *Results) deviceTable() *report.Table {
	t := &report.Table{
		Title: "One node on a disk of this machine, which no model slows down",
		Note: fmt.Sprintf("%d clients with a file of %s each, one copy. Writing counts until all is on the disk. The client's processor time is in it: it has the same processors. %s",
			r.Plan.Readers, report.Bytes(r.Plan.ReadBytes), medians),
		Columns: []report.Column{{Title: "what"}, {Title: "system"}, {Title: "throughput", Align: report.Right}, {Title: "over HDFS", Align: report.Right}},
	}
	r.rows(t, partDevice, func(p Point) report.Cell { return report.Str(p.What) }, func(p Point, system string, runs []Run) []report.Cell {
		return []report.Cell{view.Figure(sample.Of(runs, speed), bytesPerSecond), r.against(partDevice, system, p, speed)}
	})
	return t
}

// costTable shows what daemons use, in the parts that move bytes.
func (r *Results) costTable() *report.Table {
	t := &report.Table{
		Title: "What the daemons use",
		Note: "Processor seconds for each GB that was read or written; of writing with several copies each copy counts. The server of a modelled disk is not in it. " +
			"Memory: what is resident of the daemon that has most, before the run and the most in it; all: of all daemons on all machines. HDFS's virtual machines may grow to 768 MB. " +
			fmt.Sprintf("Before anybody has used it, the one that has most has %s of HDFS, %s of ours. ", r.idle(systemHDFS), r.idle(systemOurs)) + medians,
		Columns: []report.Column{{Title: "part"}, {Title: "system"}, {Title: "DataNode or node, s/GB", Align: report.Right}, {Title: "NameNode, s/GB", Align: report.Right},
			{Title: "all over HDFS", Align: report.Right}, {Title: "memory before", Align: report.Right}, {Title: "most", Align: report.Right}, {Title: "of all", Align: report.Right}},
	}
	for _, part := range []string{partRead, partWrite, partDevice} {
		r.rows(t, part, func(p Point) report.Cell { return report.Str(costName(part, p)) }, func(p Point, system string, runs []Run) []report.Cell {
			names := report.Str("")
			if system == systemHDFS {
				names = view.Figure(sample.Of(runs, namesCPU), report.UnitNone)
			}
			return []report.Cell{view.Figure(sample.Of(runs, dataCPU), report.UnitNone), names, r.against(part, system, p, allCPU),
				memory(runs, func(u Use) int64 { return u.Idle }), memory(runs, func(u Use) int64 { return u.Memory }), memory(runs, func(u Use) int64 { return u.MemoryAll })}
		})
	}
	return t
}

// idle is what a daemon that nobody has used yet has in memory.
func (r *Results) idle(system string) string {
	if m, ok := r.Idle[system]; ok {
		return report.Bytes(m)
	}
	return "–"
}

func costName(part string, p Point) string {
	switch part {
	case partRead:
		return "read, modelled disk"
	case partWrite:
		return p.String() + ", modelled disks"
	}
	return p.What + ", device"
}

func memory(runs []Run, of func(Use) int64) report.Cell {
	return view.Figure(sample.Of(runs, func(x Run) float64 { return float64(of(x.Use)) }), report.UnitBytes)
}

func (r *Results) aims() []sample.Aim {
	unmeasured := func(a sample.Aim) *sample.Aim { a.Value = sample.Unmeasured(); return &a }
	reads := unmeasured(sample.Aim{What: "throughput of readers side by side over HDFS", Part: partRead, Paper: "1.57, of 110 and 70 MB/s", Unit: report.UnitRatio, Bound: 1.5, AtLeast: true})
	jumps := unmeasured(sample.Aim{What: "seeks a second of readers side by side", Part: partRead, Paper: "few", Unit: report.UnitNone, Bound: 10})
	asks := unmeasured(sample.Aim{What: "operations that ask for names over HDFS, one node", Part: partNames, Unit: report.UnitRatio, Bound: 1, AtLeast: true})
	changes1 := unmeasured(sample.Aim{What: "operations that change names over HDFS, one node", Part: partNames, Unit: report.UnitRatio, Bound: 1, AtLeast: true})
	changes3 := unmeasured(sample.Aim{What: "operations that change names over HDFS, three nodes on one disk", Part: partNames, Unit: report.UnitRatio, Bound: 0.7, AtLeast: true})
	writes := unmeasured(sample.Aim{What: "throughput of writers side by side over HDFS", Part: partWrite, Unit: report.UnitRatio, Bound: 1, AtLeast: true})
	readerWaits := unmeasured(sample.Aim{What: "longest wait of a reader when a node is killed", Part: partLoss, Unit: report.UnitSeconds, Bound: 3})
	writerWaits := unmeasured(sample.Aim{What: "longest wait of a writer when a node is killed", Part: partLoss, Unit: report.UnitSeconds, Bound: 15})
	failed := unmeasured(sample.Aim{What: "errors at clients when a node is killed", Part: partLoss, Unit: report.UnitNone, Bound: 0})
	device := unmeasured(sample.Aim{What: "throughput on a disk of this machine over HDFS", Part: partDevice, Unit: report.UnitRatio, Bound: 1, AtLeast: true})
	processor := unmeasured(sample.Aim{What: "processor time of daemons for a GB over HDFS", Unit: report.UnitRatio, Bound: 1})
	idle := unmeasured(sample.Aim{What: "memory of an idle node", Unit: report.UnitBytes, Bound: 80e6})

	reads.Worst(r.over(partRead, Point{}, speed), "")
	jumps.Worst(sample.Of(r.at(partRead, systemOurs, Point{}), seeks), "")
	for _, kind := range r.kinds() {
		f := ofKind(kind, rate)
		if !changes(kind) {
			asks.Worst(r.over(partNames, Point{Nodes: 1}, f), kind)
			continue
		}
		changes1.Worst(r.over(partNames, Point{Nodes: 1}, f), kind)
		changes3.Worst(r.over(partNames, Point{Nodes: 3}, f), kind)
	}
	for _, p := range r.points(partWrite, systemOurs) {
		writes.Worst(r.over(partWrite, p, speed), p.String())
	}
	for _, p := range r.points(partLoss, systemOurs) {
		runs := r.at(partLoss, systemOurs, p)
		readerWaits.Worst(sample.Of(runs, readerStall), p.Lost)
		writerWaits.Worst(sample.Of(runs, writerStall), p.Lost)
		failed.Worst(sample.SpreadOf([]float64{sample.Of(runs, errorsOf).Max}), p.Lost)
	}
	for _, p := range r.points(partDevice, systemOurs) {
		device.Worst(r.over(partDevice, p, speed), p.String())
	}
	for _, part := range []string{partRead, partWrite, partDevice} {
		for _, p := range r.points(part, systemOurs) {
			processor.Worst(r.over(part, p, allCPU), costName(part, p))
		}
	}
	if m, ok := r.Idle[systemOurs]; ok {
		idle.Worst(sample.SpreadOf([]float64{float64(m)}), "")
	}
	var out []sample.Aim
	for _, a := range []*sample.Aim{reads, jumps, asks, changes1, changes3, writes, readerWaits, writerWaits, failed, device, processor, idle} {
		out = append(out, *a)
	}
	return out
}

// Page returns the whole report for people who would rather look.
func (r *Results) Page() *report.Page {
	aims := r.aims()
	p := &report.Page{
		Title: "A file system without a NameNode, beside HDFS",
		Intro: "Headrace's file system and a real HDFS on the same disks, with the same clients, which are Hadoop's own: reading and writing side by side, operations on names, a node that is killed, " +
			"and what the daemons use. All that was read was compared with what had been written.",
		Figures: view.AimFigures(aims),
		Facts:   r.Facts(),
	}
	tables := r.Tables()
	if r.ran(partRead) {
		p.Add("Reading", report.Block{Bars: view.Bars("Readers on one node", Systems,
			view.Measure{Title: "throughput", Unit: bytesPerSecond, Better: report.Higher, Of: func(s string) sample.Spread { return sample.Of(r.at(partRead, s, Point{}), speed) }},
			view.Measure{Title: "seeks a second", Unit: report.UnitNone, Better: report.Lower, Of: func(s string) sample.Spread { return sample.Of(r.at(partRead, s, Point{}), seeks) }})})
	}
	for _, t := range tables[:len(tables)-1] {
		p.Add(t.Title, report.Block{Table: t})
		t.Title = ""
	}
	p.Add("Aims", report.Block{Table: view.AimTable(aims)}, r.RemarksText())
	return p
}
