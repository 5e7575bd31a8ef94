package preempt

import (
	"fmt"
	"math"

	"headrace/lab/rig"
	"headrace/lab/sample"
	"headrace/report"
)

// urgency is how much a second of delay of the urgent task weighs against a
// second of wasted work under the policy cost: its time counts twice as much for
// every six steps of priority.
var urgency = math.Exp2(float64(UrgentPriority-lowPriority) / 6)

// weighed returns what cost minimises, with the times of undisturbed tasks in it: the
// delay of the urgent task is part of its sojourn time, waste is part of the
// makespan. The makespan does not count that a preempted task waits while the
// urgent one runs, and neither does the policy.
func weighed(r Run) float64 { return urgency*r.Sojourn + r.Makespan }

// aims returns the figures of the experiments that were run.
func (r *Results) aims() []sample.Aim {
	var out []sample.Aim
	if len(r.good(ExpLight)) > 0 {
		out = append(out, r.primitiveAims("a", 1.03, ExpLight)...)
	}
	if len(r.good(expDirty))+len(r.good(expFootprint)) > 0 {
		out = append(out, r.primitiveAims("b", 1.10, expDirty, expFootprint)...)
	}
	if len(r.good(expStorage)) > 0 {
		out = append(out, r.costAim(expStorage, "c"))
	}
	if len(r.good(expRoomy)) > 0 {
		out = append(out, r.costAim(expRoomy, "c"))
	}
	if len(r.Dumps) > 0 {
		out = append(out, r.dumpAims()...)
	}
	return out
}

// primitiveAims compare suspend with the better of the two others in each measure
// (os-assisted-preemption, section IV-C), at the worst point.
func (r *Results) primitiveAims(letter string, bound float64, parts ...string) []sample.Aim {
	late := sample.Aim{Excess: true, Part: letter, What: "suspend: sojourn of the urgent task, over kill", Bound: bound, Value: sample.Unmeasured()}
	long := sample.Aim{Excess: true, Part: letter, What: "suspend: makespan, over wait", Bound: bound, Value: sample.Unmeasured()}
	for _, part := range parts {
		all := r.good(part)
		for _, p := range all.points(nil) {
			here := all.at(p)
			late.Worst(here.against("suspend", "kill", sojourn), pointName(part, p))
			long.Worst(here.against("suspend", "wait", makespan), pointName(part, p))
		}
	}
	return []sample.Aim{late, long}
}

// costAim compares cost with the best single mechanism at every store.
func (r *Results) costAim(part, letter string) sample.Aim {
	a := sample.Aim{Excess: true, Part: letter, Bound: 1.05, Value: sample.Unmeasured()}
	a.What = "cost: weighted time, over the best single mechanism, where suspending is impossible"
	if part == expRoomy {
		a.What = "cost: the same, where memory holds both tasks"
	}
	all := r.good(part)
	for _, s := range r.setup(part).Stores {
		here := all.atStore(s.Name)
		best := here.bestSingle()
		a.Worst(here.against("cost", best, weighed), s.Name+", best "+best)
	}
	return a
}

// singles are the policies that have one mechanism.
var singles = []string{"wait", "kill", "suspend", "checkpoint"}

// atStore returns the runs at a store, and those of policies that use none.
func (rs Runs) atStore(name string) Runs {
	return rs.where(func(r Run) bool { return r.Point.Store == name || r.Point.Store == "" })
}

// bestSingle returns the policy with one mechanism that has the least median of the
// weighted time; empty without any.
func (rs Runs) bestSingle() string {
	best, least := "", math.Inf(1)
	for _, p := range singles {
		if m := rs.By(p).of(weighed).Median; m < least {
			best, least = p, m
		}
	}
	return best
}

// dumpAims returns those of the second checkpoint.
func (r *Results) dumpAims() []sample.Aim {
	fewer := sample.Aim{Part: "d", What: "second checkpoint: bytes, full over incremental", Unit: report.UnitRatio, Bound: 8, AtLeast: true, Value: sample.Unmeasured()}
	faster := sample.Aim{Part: "d", What: "second checkpoint: time at 100 MB/s, full over incremental", Unit: report.UnitRatio, Bound: 6, AtLeast: true, Value: sample.Unmeasured()}
	for _, g := range r.dumpGroups() {
		fewer.Worst(g.of(Dump.fewer), g.name())
		if g.store == rig.StoreName(100e6) {
			faster.Worst(g.of(Dump.faster), g.name())
		}
	}
	return []sample.Aim{fewer, faster}
}

func (d Dump) fewer() float64  { return float64(d.FirstBytes) / float64(d.SecondBytes) }
func (d Dump) faster() float64 { return d.First / d.Second }

// dumpGroup are the pairs of checkpoints of one kind.
type dumpGroup struct {
	store, pattern string
	dumps          []Dump
}

func (g dumpGroup) name() string { return g.store + ", " + g.pattern + " pages" }

func (g dumpGroup) of(f func(Dump) float64) sample.Spread { return sample.Of(g.dumps, f) }

// dumpGroups are in the order of the setup's stores.
func (r *Results) dumpGroups() []dumpGroup {
	var out []dumpGroup
	for _, s := range r.setup(expSecond).Stores {
		for _, pattern := range []string{"spread", "contiguous"} {
			g := dumpGroup{store: s.Name, pattern: pattern}
			g.dumps = sample.Good(sample.Where(r.Dumps, func(d Dump) bool { return d.Store == s.Name && d.Pattern == pattern }))
			if len(g.dumps) > 0 {
				out = append(out, g)
			}
		}
	}
	return out
}

// pointName says where on its axes a point lies.
func pointName(experiment string, p Point) string {
	switch {
	case experiment == expFootprint:
		return "urgent task of " + report.Bytes(p.UrgentBytes)
	case p.Store != "":
		return p.Store
	}
	return fmt.Sprintf("%.0f %% done", p.Share*100)
}
