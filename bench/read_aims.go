package bench

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
	speed := readingAim{what: "stream: throughput, over cat alone, with the most consumers on the modelled disk", paper: "110 of 156 MB/s, HDFS 70",
		unit: report.UnitPercent, bound: 0.95, atLeast: true, value: spreadOf(nil)}
	seeks := readingAim{what: "stream: seeks per second there", paper: "HDFS about 80", bound: 5, value: spreadOf(nil)}
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
	a := readingAim{what: "stream: bytes from the " + place + ", two jobs at once on one file, over one job", unit: report.UnitRatio,
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
	a := readingAim{what: "stream: throughput, over own regions, with the most jobs that come to one file one after another, on the modelled disk",
		unit: report.UnitRatio, bound: 3, atLeast: true, value: spreadOf(nil)}
	if c, ok := rs.most(partSpread); ok {
		here := rs.of(c)
		a.worst(here.by(methodStream).over(here.by(methodRegions), throughput), c.String())
	}
	return a
}

// deviceAims are about all numbers of consumers on a disk that does not seek.
func (rs readRuns) deviceAims() []readingAim {
	speed := readingAim{what: "stream: throughput, over own regions, on the real device", paper: "362 to 541 of 550 MB/s, HDFS 310 to 354",
		unit: report.UnitRatio, bound: 1, atLeast: true, value: spreadOf(nil)}
	cpu := readingAim{what: "stream: seconds of CPU for a GB beyond the consumers' own, on the real device", bound: 0.5, value: spreadOf(nil)}
	for _, c := range rs.part(partConsumers).cases() {
		here := rs.of(c)
		speed.worst(here.by(methodStream).over(here.by(methodRegions), throughput), c.String())
		cpu.worst(here.by(methodStream).spread(beyondOwn), c.String())
	}
	return []readingAim{speed, cpu}
}
