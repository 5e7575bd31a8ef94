package read

import (
	"headrace/lab/rig"
	"headrace/lab/sample"
	"headrace/report"
)

// aims returns the figures that bench read is to reach, at the worst of the points that
// each is about.
func (r *Results) aims() []sample.Aim {
	var out []sample.Aim
	if at := r.at(rig.Modelled); len(at) > 0 {
		out = append(out, at.sequentialAims()...)
		out = append(out, at.sharedAim("modelled disk"), at.spreadAim())
	}
	if at := r.at(rig.Device); len(at) > 0 {
		out = append(out, at.sharedAim("real device"))
		out = append(out, at.deviceAims()...)
	}
	return out
}

// sequentialAims are about the most consumers of one file on a disk that seeks.
func (rs runs) sequentialAims() []sample.Aim {
	speed := sample.Aim{What: "modelled disk, most consumers: throughput of the stream, over cat", Paper: "71 %, HDFS 45 %",
		Unit: report.UnitPercent, Bound: 0.95, AtLeast: true, Value: sample.Unmeasured()}
	seeks := sample.Aim{What: "modelled disk, most consumers: seeks per second of the stream", Paper: "HDFS 80", Bound: 5, Value: sample.Unmeasured()}
	if c, ok := rs.most(partConsumers); ok {
		here := rs.of(c).by(methodStream)
		speed.Worst(here.over(rs.plain(), throughput), c.String())
		seeks.Worst(here.spread(seekRate), c.String())
	}
	return []sample.Aim{speed, seeks}
}

// most returns the largest case of a part.
func (rs runs) most(part string) (Case, bool) {
	cases := rs.part(part).cases()
	if len(cases) == 0 {
		return Case{}, false
	}
	return cases[len(cases)-1], true
}

// sharedAim returns what two jobs that read one file at once read from the disk, over
// what one does.
func (rs runs) sharedAim(place string) sample.Aim {
	a := sample.Aim{What: place + ", two jobs at once on one file: bytes read for the stream, over one job", Unit: report.UnitRatio,
		Bound: 1.05, Value: sample.Unmeasured()}
	mine := rs.part(partShared).by(methodStream)
	one := mine.where(func(r Run) bool { return r.Jobs == 1 })
	two := mine.where(func(r Run) bool { return r.Jobs == 2 })
	a.Worst(two.over(one, fromDisk), "")
	return a
}

func fromDisk(r Run) float64 { return float64(r.Disk.Read) }

// spreadAim compares the throughput of the most jobs that come to one file one
// after another.
func (rs runs) spreadAim() sample.Aim {
	a := sample.Aim{What: "modelled disk, most jobs one after another on one file: throughput of the stream, over own regions",
		Unit: report.UnitRatio, Bound: 3, AtLeast: true, Value: sample.Unmeasured()}
	if c, ok := rs.most(partSpread); ok {
		here := rs.of(c)
		a.Worst(here.by(methodStream).over(here.by(methodRegions), throughput), c.String())
	}
	return a
}

// deviceAims are about all numbers of consumers on a disk that does not seek.
func (rs runs) deviceAims() []sample.Aim {
	speed := sample.Aim{What: "real device: throughput of the stream, over own regions", Paper: "1.17× to 1.53×",
		Unit: report.UnitRatio, Bound: 1, AtLeast: true, Value: sample.Unmeasured()}
	cpu := sample.Aim{What: "real device: seconds of CPU for a GB beyond the consumers' own", Bound: 0.5, Value: sample.Unmeasured()}
	for _, c := range rs.part(partConsumers).cases() {
		here := rs.of(c)
		speed.Worst(here.by(methodStream).over(here.by(methodRegions), throughput), c.String())
		cpu.Worst(here.by(methodStream).spread(beyondOwn), c.String())
	}
	return []sample.Aim{speed, cpu}
}
