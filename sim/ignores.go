package sim

import (
	"fmt"
	"slices"
	"strings"

	"headrace/trace"
)

// Ignores says in words what of a workload a simulation under c does not do: what tasks need
// that no node is said to have.
func Ignores(w *trace.Workload, c *Config) []string {
	var out []string
	gangs := map[int32]bool{}
	ignored, needing := map[string]bool{}, 0
	used := map[string]bool{}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if t.Gang != 0 {
			gangs[t.Gang] = true
		}
		if t.Need == 0 {
			continue
		}
		some := false
		for r, n := range w.Needs[t.Need-1] {
			name := w.Resources[r]
			used[name] = used[name] || n > 0
			if n > 0 && (c.Capacity != nil || !c.has(name)) {
				ignored[name], some = true, true
			}
		}
		if some {
			needing++
		}
	}
	names := sorted(ignored)
	switch {
	case needing == 0:
	case c.Capacity != nil:
		out = append(out, fmt.Sprintf("what %d tasks need of %s is not counted here: queues give away processors and memory only", needing, names))
	default:
		out = append(out, fmt.Sprintf("what %d tasks need of %s is not counted: no node is said to have any (--node-has NAME=NUMBER, or NUMBERxCORES:MEMORY:NAME=NUMBER in --nodes)", needing, names))
	}
	unused := map[string]bool{}
	for _, name := range c.counted() {
		if !used[name] {
			unused[name] = true
		}
	}
	if len(unused) > 0 {
		out = append(out, fmt.Sprintf("nodes have %s, of which no task needs any", sorted(unused)))
	}
	if len(gangs) > 0 && c.Capacity != nil {
		out = append(out, fmt.Sprintf("the tasks of %d gangs run independently of each other here, not together", len(gangs)))
	}
	return append(out, c.spared(w)...)
}

// spared says how many tasks of w are larger than what YARN takes back in a look.
func (c *Config) spared(w *trace.Workload) []string {
	if c.Capacity == nil {
		return nil
	}
	n, share := 0, c.Capacity.PerRound
	cpus, memory := c.CPUs()*share, float64(c.memory())*share
	for i := range w.Tasks {
		if t := &w.Tasks[i]; float64(t.CPUs) > cpus+rounding || float64(t.Memory) > memory {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d tasks ask for more than the %.3g %% of the cluster that YARN takes back at a time: it makes none of them leave (--property total_preemption_per_round=SHARE)", n, 100*share)}
}

func sorted(names map[string]bool) string {
	var all []string
	for name := range names {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
