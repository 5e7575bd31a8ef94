package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"headrace/report"
	"headrace/sim"
)

// qualities are what tells results apart that have the same policy and medium, as a
// person would name it. Empty: nothing worth a name.
var qualities = []func(sim.Config) string{
	func(c sim.Config) string { return many(c.Nodes, "node") },
	func(c sim.Config) string { return kinds(c) },
	func(c sim.Config) string { return report.UnitNone.Format(c.Node.CPUs) + " CPUs" },
	func(c sim.Config) string { return report.Capacity(c.Node.Memory) + " of memory" },
	func(c sim.Config) string { return bytesOr(c.Node.Swap, "no") + " swap" },
	func(c sim.Config) string { return string(c.Policy.VictimOrder) },
	func(c sim.Config) string {
		if c.Reading.Buffer <= 0 {
			return "cold"
		}
		return report.Capacity(c.Reading.Buffer) + " warmed"
	},
	func(c sim.Config) string { return "lead " + report.Duration(c.Reading.Lead) },
	func(c sim.Config) string { return report.Capacity(c.Reading.Cache) + " of cache" },
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

// code sets a name as code, whatever it is.
func code(name string) string { return "`" + strings.ReplaceAll(name, "`", "'") + "`" }

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(n) + " " + what + "s"
}

// grouped writes a number with commas between thousands.
func grouped(n int) string { return group(strconv.Itoa(n)) }

func group(text string) string {
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// coreHours are rounded to what a person can use.
func coreHours(v float64) string {
	if v >= 100 && v < 1e15 {
		return grouped(int(v + 0.5))
	}
	return report.UnitNone.Format(math.Round(v*100) / 100)
}

// percent has two decimals where the share is small.
func percent(v float64) string {
	if v > 0 && v < 0.0095 {
		return fine(v).Text
	}
	return report.Percent(v)
}
