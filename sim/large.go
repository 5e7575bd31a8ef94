package sim

import (
	"cmp"
	"math"
	"slices"

	"headrace/trace"
)

// TooLarge returns what tells of the tasks of w which fit on no node, or are of a gang that
// does not fit on all nodes together, or are more than their queue may have.
func (c *Config) TooLarge(w *trace.Workload) func(*trace.Task) bool {
	gangs := map[int32][]*trace.Task{}
	for i := range w.Tasks {
		if t := &w.Tasks[i]; t.Gang != 0 && c.Capacity == nil {
			gangs[t.Gang] = append(gangs[t.Gang], t)
		}
	}
	large := map[int32]bool{}
	for number, members := range gangs {
		large[number] = !c.takesAll(w, members)
	}
	return func(t *trace.Task) bool { return large[t.Gang] || !c.takes(w, t) || c.Refusing(t) != "" }
}

// Refusing returns the queue whose maximum is less than t asks for; empty if there is none.
func (c *Config) Refusing(t *trace.Task) string {
	if c.Capacity == nil {
		return ""
	}
	if q := c.Capacity.QueueOf(t.Priority); q != nil && q.Refuses(float64(t.CPUs), t.Memory, c.CPUs(), c.memory()) {
		return q.Name
	}
	return ""
}

// takes reports whether t, of w, fits on an empty node.
func (c *Config) takes(w *trace.Workload, t *trace.Task) bool {
	for _, k := range c.AllKinds() {
		if k.holds(c, w, t) >= 1 {
			return true
		}
	}
	return false
}

// holds returns how many tasks like t, of w, fit on an empty node of this kind of c.
func (k *Kind) holds(c *Config, w *trace.Workload, t *trace.Task) float64 {
	most := math.Inf(1)
	if t.CPUs > 0 {
		most = math.Floor((k.CPUs + rounding) / float64(t.CPUs))
	}
	if t.Memory > 0 {
		most = min(most, math.Floor(float64(k.Memory)/float64(t.Memory)))
	}
	if t.Need == 0 || c.Capacity != nil {
		return most
	}
	for r, n := range w.Needs[t.Need-1] {
		if name := w.Resources[r]; n > 0 && c.has(name) {
			most = min(most, math.Floor((k.Counted[name]+rounding)/float64(n)))
		}
	}
	return most
}

// rounding is by how much sums of fractions may be off.
const rounding = 1e-9

// takesAll reports whether a gang, whose members it may put in another order, fits on the
// empty cluster: placed as package policy does, the largest first, each on the first node
// that takes it.
func (c *Config) takesAll(w *trace.Workload, members []*trace.Task) bool {
	alike := func(a, b *trace.Task) int {
		return cmp.Or(cmp.Compare(b.CPUs, a.CPUs), cmp.Compare(b.Memory, a.Memory), cmp.Compare(a.Need, b.Need))
	}
	slices.SortStableFunc(members, alike)
	kinds := c.AllKinds()
	if alike(members[0], members[len(members)-1]) == 0 {
		room := 0.0
		for i := range kinds {
			room += float64(kinds[i].Nodes) * kinds[i].holds(c, w, members[0])
		}
		return room >= float64(len(members))
	}
	var free []Kind
	for _, k := range kinds {
		for range k.Nodes {
			one := k
			one.Counted = make(map[string]float64, len(k.Counted))
			for name, n := range k.Counted {
				one.Counted[name] = n
			}
			free = append(free, one)
		}
	}
	for _, t := range members {
		i := slices.IndexFunc(free, func(k Kind) bool { return k.holds(c, w, t) >= 1 })
		if i < 0 {
			return false
		}
		free[i].CPUs -= float64(t.CPUs)
		free[i].Memory -= t.Memory
		if t.Need > 0 {
			for r, n := range w.Needs[t.Need-1] {
				free[i].Counted[w.Resources[r]] -= float64(n)
			}
		}
	}
	return true
}
