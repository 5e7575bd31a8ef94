package page

import (
	"fmt"
	"strconv"

	"headrace/report"
	"headrace/sim"
)

// qualities are what tells results apart that have the same policy and medium, as a
// person would name it. Empty: nothing worth a name.
var qualities = []func(sim.Config) string{
	func(c sim.Config) string { return many(c.Nodes, "node") },
	func(c sim.Config) string { return report.UnitNone.Format(c.Node.CPUs) + " CPUs" },
	func(c sim.Config) string { return report.Bytes(c.Node.Memory) + " of memory" },
	func(c sim.Config) string { return bytesOr(c.Node.Swap, "no") + " swap" },
	func(c sim.Config) string { return string(c.Policy.VictimOrder) },
	func(c sim.Config) string {
		if c.Reading.Buffer <= 0 {
			return "cold"
		}
		return report.Bytes(c.Reading.Buffer) + " warmed"
	},
	func(c sim.Config) string { return "lead " + report.Duration(c.Reading.Lead) },
	func(c sim.Config) string { return report.Bytes(c.Reading.Cache) + " of cache" },
	func(c sim.Config) string {
		if c.Reading.ByResidency {
			return "by residency"
		}
		return ""
	},
	func(c sim.Config) string {
		if c.KnowShare {
			return "knowing shares"
		}
		return ""
	},
	func(c sim.Config) string { return "seed " + strconv.FormatUint(c.Seed, 10) },
}

// names gives each result a name of its own: what first says, then what differs
// among those of which it says the same, then a number.
func names(results []*sim.Result, first func(*sim.Result) string) []string {
	groups := map[string][]*sim.Result{}
	for _, r := range results {
		groups[first(r)] = append(groups[first(r)], r)
	}
	taken := map[string]int{}
	all := make([]string, len(results))
	for i, r := range results {
		name := first(r)
		group := groups[name]
		for _, quality := range qualities {
			if q := quality(r.Config); q != "" && differ(group, quality) {
				name += ", " + q
			}
		}
		all[i] = unique(taken, name)
	}
	return all
}

func differ(group []*sim.Result, quality func(sim.Config) string) bool {
	for _, r := range group {
		if quality(r.Config) != quality(group[0].Config) {
			return true
		}
	}
	return false
}

// unique adds a number to a name that is taken.
func unique(taken map[string]int, name string) string {
	taken[name]++
	if n := taken[name]; n > 1 {
		return unique(taken, fmt.Sprintf("%s (%d)", name, n))
	}
	return name
}
