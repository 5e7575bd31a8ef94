package page

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"headrace/report"
	"headrace/sim"
)

// notable is from which ratio on a difference is coloured.
const notable = 1.05

// A pair is a result and the one of before that it is held against.
type pair struct {
	label       string
	now, before *sim.Result
}

// Against compares results with others, of before: of each policy and medium the first of
// one with the first of the other, and so on. The notes say what of the configurations and
// the workloads differs, and what has no counterpart.
func Against(results, before []*sim.Result) (t *report.Table, notes []string) {
	pairs, alone := pairUp(newSet(results), newSet(before))
	t = &report.Table{
		Title:   "Against before",
		Note:    fmt.Sprintf("Less is better. Coloured: by %s and more.", report.Percent(notable-1)),
		Columns: []report.Column{{Title: "policy", Flex: true}, {Title: "measure"}, right("before"), right("now"), right("now to before")},
	}
	for _, p := range pairs {
		label := p.label
		for _, m := range measures(p.now, p.before) {
			was, is := m.of(p.before), m.of(p.now)
			to := report.Num(ratio(is, was), report.UnitRatio)
			switch {
			case is > was*notable:
				to.Tone = report.Bad
			case was > is*notable:
				to.Tone = report.Good
			}
			t.Add(report.Str(label), report.Str(m.title), report.Num(was, m.unit), report.Num(is, m.unit), to)
			label = ""
		}
	}
	notes = differences(pairs)
	if len(alone) > 0 {
		notes = append(notes, "only in one of the two: "+strings.Join(alone, ", "))
	}
	return t, notes
}

func pairUp(now, before set) (pairs []pair, alone []string) {
	left := map[string][]*sim.Result{}
	for _, r := range before.results {
		left[before.label(r)] = append(left[before.label(r)], r)
	}
	for _, r := range now.results {
		label := now.label(r)
		if len(left[label]) == 0 {
			alone = append(alone, label)
			continue
		}
		pairs = append(pairs, pair{label, r, left[label][0]})
		left[label] = left[label][1:]
	}
	for _, label := range slices.Sorted(maps.Keys(left)) {
		for range left[label] {
			alone = append(alone, label)
		}
	}
	return pairs, alone
}

// measures are what is compared of two results.
func measures(now, before *sim.Result) []column {
	all := []column{
		{title: "wasted", unit: unitCoreHours, of: func(r *sim.Result) float64 { return r.Work.Wasted() / coreHour }},
		{title: "energy", unit: unitEnergy, of: energy},
		{title: "makespan", unit: report.UnitSeconds, of: func(r *sim.Result) float64 { return r.Makespan }},
		{title: "preemptions", of: func(r *sim.Result) float64 { return float64(r.Counts.Preemptions()) }},
	}
	for _, b := range now.Bands {
		if b.Jobs == 0 || before.Band(b.Name).Jobs == 0 {
			continue
		}
		all = append(all,
			column{title: b.Name + " jobs, mean", unit: report.UnitSeconds, of: func(r *sim.Result) float64 { return response(r, b.Name) }},
			column{title: b.Name + " jobs, 95 %", unit: report.UnitSeconds, of: func(r *sim.Result) float64 { return quantile(r.Band(b.Name).Response, 0.95) }})
	}
	return all
}

// differences tells what pairs were not run alike, each thing once.
func differences(pairs []pair) (all []string) {
	say := func(what string, was, is any) {
		if text := fmt.Sprintf("%s was %v, and is %v", what, was, is); was != is && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	for _, p := range pairs {
		say("the workload", p.before.Workload, p.now.Workload)
		say("the number of tasks", p.before.Tasks, p.now.Tasks)
		was, is := settingsOf(p.before.Config), settingsOf(p.now.Config)
		for _, name := range slices.Sorted(maps.Keys(is)) {
			say(name, orNone(was[name]), is[name])
		}
		for _, name := range slices.Sorted(maps.Keys(was)) {
			if is[name] == "" {
				say(name, was[name], orNone(""))
			}
		}
	}
	return all
}

func orNone(value string) string {
	if value == "" {
		return "not set"
	}
	return value
}

// settingsOf returns the values of a configuration by their names in JSON.
func settingsOf(c sim.Config) map[string]string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // it has been read as JSON, or was valid
	}
	all := map[string]string{}
	var walk func(name string, value json.RawMessage)
	walk = func(name string, value json.RawMessage) {
		var tree map[string]json.RawMessage
		if json.Unmarshal(value, &tree) == nil && tree != nil {
			for k, v := range tree {
				walk(name+"."+k, v)
			}
			return
		}
		all[strings.TrimPrefix(name, ".")] = string(value)
	}
	walk("", text)
	return all
}
