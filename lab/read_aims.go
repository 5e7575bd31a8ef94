package lab

import (
	"math"

	"headrace/report"
)

// aims are the figures that bench read is to reach, at the worst of the points that
// each is about.
func (r *ReaderResults) aims() []readingAim {
	var out []readingAim
	if at := r.at(placeModelled); len(at) > 0 {
		out = append(out, at.sequentialAims()...)
		out = append(out, at.sharedAim("modelled disk"), at.spreadAim())
	}
	if at := r.at(placeDevice); len(at) > 0 {
		out = append(out, at.sharedAim("real device"))
		out = append(out, at.deviceAims()...)
	}
	return out
}

// worst keeps the worst of several points.
func (a *readingAim) worst(v spread, where string) {
	now := a.value.Median
	if math.IsNaN(v.Median) || a.atLeast && now <= v.Median || !a.atLeast && now >= v.Median {
		return
	}
	a.value, a.where = v, where
}

// sequentialAims are about the most consumers of one file on a disk that seeks.
func (rs readRuns) sequentialAims() []readingAim {
	speed := readingAim{what: "modelled disk, most consumers: throughput of the stream, over cat", paper: "71 %, HDFS 45 %",
		unit: report.UnitPercent, bound: 0.95, atLeast: true, value: spreadOf(nil)}
	seeks := readingAim{what: "modelled disk, most consumers: seeks per second of the stream", paper: "HDFS 80", bound: 5, value: spreadOf(nil)}
	if c, ok := rs.most(partConsumers); ok {
		here := rs.of(c).by(methodStream)
		speed.worst(here.over(rs.plain(), throughput), c.String())
		seeks.worst(here.spread(seekRate), c.String())
	}
	return []readingAim{speed, seeks}
}

// most is the largest case of a part.
func (rs readRuns) most(part string) (ReadCase, bool) {
	cases := rs.part(part).cases()
	if len(cases) == 0 {
		return ReadCase{}, false
	}
	return cases[len(cases)-1], true
}

// sharedAim is what two jobs that read one file at once read from the disk, over
// what one does.
func (rs readRuns) sharedAim(place string) readingAim {
	a := readingAim{what: place + ", two jobs at once on one file: bytes read for the stream, over one job", unit: report.UnitRatio,
		bound: 1.05, value: spreadOf(nil)}
	mine := rs.part(partShared).by(methodStream)
	one := mine.where(func(r ReadRun) bool { return r.Jobs == 1 })
	two := mine.where(func(r ReadRun) bool { return r.Jobs == 2 })
	a.worst(two.over(one, fromDisk), "")
	return a
}

func fromDisk(r ReadRun) float64 { return float64(r.Disk.Read) }

// spreadAim compares the throughput of the most jobs that come to one file one
// after another.
func (rs readRuns) spreadAim() readingAim {
	a := readingAim{what: "modelled disk, most jobs one after another on one file: throughput of the stream, over own regions",
		unit: report.UnitRatio, bound: 3, atLeast: true, value: spreadOf(nil)}
	if c, ok := rs.most(partSpread); ok {
		here := rs.of(c)
		a.worst(here.by(methodStream).over(here.by(methodRegions), throughput), c.String())
	}
	return a
}

// deviceAims are about all numbers of consumers on a disk that does not seek.
func (rs readRuns) deviceAims() []readingAim {
	speed := readingAim{what: "real device: throughput of the stream, over own regions", paper: "1.17× to 1.53×",
		unit: report.UnitRatio, bound: 1, atLeast: true, value: spreadOf(nil)}
	cpu := readingAim{what: "real device: seconds of CPU for a GB beyond the consumers' own", bound: 0.5, value: spreadOf(nil)}
	for _, c := range rs.part(partConsumers).cases() {
		here := rs.of(c)
		speed.worst(here.by(methodStream).over(here.by(methodRegions), throughput), c.String())
		cpu.worst(here.by(methodStream).spread(beyondOwn), c.String())
	}
	return []readingAim{speed, cpu}
}
