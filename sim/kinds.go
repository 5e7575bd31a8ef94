package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"headrace/trace"
)

// Kind is a number of nodes that are alike, of a cluster whose nodes are not all.
type Kind struct {
	Nodes  int     `json:"nodes"`
	CPUs   float64 `json:"cpus"`
	Memory int64   `json:"memory"`
	Swap   int64   `json:"swap"`
	// Counted is how many it has of what is counted, such as gpu, by name.
	Counted map[string]float64 `json:"counted,omitempty"`
}

// AllKinds returns those of c: one where all nodes are alike.
func (c *Config) AllKinds() []Kind {
	if len(c.Kinds) > 0 {
		return c.Kinds
	}
	return []Kind{{c.Nodes, c.Node.CPUs, c.Node.Memory, c.Node.Swap, c.Node.Counted}}
}

// node returns node i, from 0. The kinds have the first numbers in their order.
func (c *Config) node(i int) Node {
	n := c.Node
	for _, k := range c.Kinds {
		n.CPUs, n.Memory, n.Swap, n.Counted = k.CPUs, k.Memory, k.Swap, k.Counted
		if i -= k.Nodes; i < 0 {
			break
		}
	}
	return n
}

// CPUs returns those of all nodes together.
func (c *Config) CPUs() (all float64) {
	for _, k := range c.AllKinds() {
		all += float64(k.Nodes) * k.CPUs
	}
	return all
}

// memory returns that of all nodes together.
func (c *Config) memory() (all int64) {
	for _, k := range c.AllKinds() {
		all += int64(k.Nodes) * k.Memory
	}
	return all
}

// has reports whether any node is said to have a counted resource. One that none has is
// not simulated.
func (c *Config) has(resource string) bool {
	for _, k := range c.AllKinds() {
		if k.Counted[resource] > 0 {
			return true
		}
	}
	return false
}

// counted returns the names of what nodes are said to have.
func (c *Config) counted() []string {
	if c.Capacity != nil {
		return nil
	}
	names := map[string]bool{}
	for _, k := range c.AllKinds() {
		for name, n := range k.Counted {
			if n > 0 {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// needs returns what tasks of w need of what nodes have, by its names; nil for nothing.
func needs(w *trace.Workload, names []string) [][]float64 {
	all := make([][]float64, len(w.Needs))
	for i, need := range w.Needs {
		for r, n := range need {
			if at := slices.Index(names, w.Resources[r]); at >= 0 && n > 0 {
				if all[i] == nil {
					all[i] = make([]float64, len(names))
				}
				all[i][at] += float64(n)
			}
		}
	}
	return all
}

// Sizes says how large nodes are, for messages.
func (c *Config) Sizes() string {
	var all []string
	for _, k := range c.AllKinds() {
		text := fmt.Sprintf("%.3g CPUs and %d MiB", k.CPUs, k.Memory>>20)
		for _, name := range slices.Sorted(maps.Keys(k.Counted)) {
			text += fmt.Sprintf(" and %.3g %s", k.Counted[name], name)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", or ")
}
