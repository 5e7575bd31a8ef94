package lab

import (
	"fmt"
	"math"
	"strings"

	"headrace/report"
)

// urgency is how much a second of delay of the urgent task weighs against a
// second of wasted work under the policy cost: its time counts twice as much for
// every six steps of priority.
var urgency = math.Exp2(float64(urgentPriority-lowPriority) / 6)

// weighed is what cost minimises, with the times of undisturbed tasks in it: the
// delay of the urgent task is part of its sojourn time, waste is part of the
// makespan. The makespan does not count that a preempted task waits while the
// urgent one runs, and neither does the policy.
func weighed(r Run) float64 { return urgency*r.Sojourn + r.Makespan }

// An aim is a figure to be reached and what was measured.
type aim struct {
	experiment string
	what       string
	// value is the worst of all points: a ratio, and where it was found.
	value spread
	where string
	// bound must not be exceeded, or with atLeast must be reached.
	bound   float64
	atLeast bool
}

func (a aim) measured() bool { return !math.IsNaN(a.value.Median) }

func (a aim) met() bool {
	if a.atLeast {
		return a.value.Median >= a.bound
	}
	return a.value.Median <= a.bound
}

func (a aim) worse(than spread) bool {
	switch {
	case math.IsNaN(a.value.Median):
		return false
	case math.IsNaN(than.Median):
		return true
	case a.atLeast:
		return a.value.Median < than.Median
	}
	return a.value.Median > than.Median
}

// verdict is one word.
func (a aim) verdict() string {
	switch {
	case !a.measured():
		return "not measured"
	case a.met():
		return "met"
	}
	return "missed"
}

func (a aim) tone() report.Tone {
	switch {
	case !a.measured():
		return report.Dim
	case a.met():
		return report.Good
	}
	return report.Bad
}

// value as a person reads it: how much more than one, or how many times.
func (a aim) show(v float64) string {
	if a.atLeast {
		return report.Ratio(v)
	}
	return signed(v - 1)
}

func (a aim) limit() string {
	if a.atLeast {
		return "at least " + report.Ratio(a.bound)
	}
	return "at most " + signed(a.bound-1)
}

func signed(fraction float64) string {
	s := report.Percent(fraction)
	if fraction > 0 && !strings.HasPrefix(s, "0.0") {
		return "+" + s
	}
	return s
}

// aims are the figures of the experiments that were run.
func (r *Results) aims() []aim {
	var out []aim
	if len(r.good(expLight)) > 0 {
		out = append(out, r.primitiveAims("a", 1.03, expLight)...)
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
func (r *Results) primitiveAims(letter string, bound float64, parts ...string) []aim {
	late := aim{experiment: letter, what: "suspend: sojourn of the urgent task, over kill", bound: bound, value: spreadOf(nil)}
	long := aim{experiment: letter, what: "suspend: makespan, over wait", bound: bound, value: spreadOf(nil)}
	for _, part := range parts {
		all := r.good(part)
		for _, p := range all.points(nil) {
			here := all.at(p)
			late.worst(here.against("suspend", "kill", sojourn), pointName(part, p))
			long.worst(here.against("suspend", "wait", makespan), pointName(part, p))
		}
	}
	return []aim{late, long}
}

func (a *aim) worst(v spread, where string) {
	candidate := aim{value: v, atLeast: a.atLeast}
	if candidate.worse(a.value) {
		a.value, a.where = v, where
	}
}

// costAim compares cost with the best single mechanism at every store.
func (r *Results) costAim(part, letter string) aim {
	a := aim{experiment: letter, bound: 1.05, value: spreadOf(nil)}
	a.what = "cost: weighted time, over the best single mechanism, where suspending is impossible"
	if part == expRoomy {
		a.what = "cost: the same, where memory holds both tasks"
	}
	all := r.good(part)
	for _, s := range r.setup(part).Stores {
		here := all.atStore(s.Name)
		best := here.bestSingle()
		a.worst(here.against("cost", best, weighed), s.Name+", best "+best)
	}
	return a
}

// singles are the policies that have one mechanism.
var singles = []string{"wait", "kill", "suspend", "checkpoint"}

// atStore are the runs at a store, and those of policies that use none.
func (rs runs) atStore(name string) runs {
	return rs.where(func(r Run) bool { return r.Point.Store == name || r.Point.Store == "" })
}

// bestSingle is the policy with one mechanism that has the least median of the
// weighted time; empty without any.
func (rs runs) bestSingle() string {
	best, least := "", math.Inf(1)
	for _, p := range singles {
		if m := rs.by(p).of(weighed).Median; m < least {
			best, least = p, m
		}
	}
	return best
}

// dumpAims are those of the second checkpoint.
func (r *Results) dumpAims() []aim {
	fewer := aim{experiment: "d", what: "second checkpoint: bytes, full over incremental", bound: 8, atLeast: true, value: spreadOf(nil)}
	faster := aim{experiment: "d", what: "second checkpoint: time at 100 MB/s, full over incremental", bound: 6, atLeast: true, value: spreadOf(nil)}
	for _, g := range r.dumpGroups() {
		fewer.worst(g.of(Dump.fewer), g.name())
		if g.store == storeName(100e6) {
			faster.worst(g.of(Dump.faster), g.name())
		}
	}
	return []aim{fewer, faster}
}

func (d Dump) fewer() float64  { return float64(d.FirstBytes) / float64(d.SecondBytes) }
func (d Dump) faster() float64 { return d.First / d.Second }

// dumpGroup are the pairs of checkpoints of one kind.
type dumpGroup struct {
	store, pattern string
	dumps          []Dump
}

func (g dumpGroup) name() string { return g.store + ", " + g.pattern + " pages" }

func (g dumpGroup) of(f func(Dump) float64) spread {
	var values []float64
	for _, d := range g.dumps {
		values = append(values, f(d))
	}
	return spreadOf(values)
}

// dumpGroups are in the order of the setup's stores.
func (r *Results) dumpGroups() []dumpGroup {
	var out []dumpGroup
	for _, s := range r.setup(expSecond).Stores {
		for _, pattern := range []string{"spread", "contiguous"} {
			g := dumpGroup{store: s.Name, pattern: pattern}
			for _, d := range r.Dumps {
				if d.Store == s.Name && d.Pattern == pattern && d.Failure == "" {
					g.dumps = append(g.dumps, d)
				}
			}
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
