package sim

import (
	"fmt"
	"strings"

	"headrace/trace"
)

// Kind is a number of nodes that are alike, of a cluster whose nodes are not all.
type Kind struct {
	Nodes  int     `json:"nodes"`
	CPUs   float64 `json:"cpus"`
	Memory int64   `json:"memory"`
	Swap   int64   `json:"swap"`
}

// AllKinds returns those of c: one where all nodes are alike.
func (c *Config) AllKinds() []Kind {
	if len(c.Kinds) > 0 {
		return c.Kinds
	}
	return []Kind{{c.Nodes, c.Node.CPUs, c.Node.Memory, c.Node.Swap}}
}

// node returns node i, from 0. The kinds have the first numbers in their order.
func (c *Config) node(i int) Node {
	n := c.Node
	for _, k := range c.Kinds {
		n.CPUs, n.Memory, n.Swap = k.CPUs, k.Memory, k.Swap
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

// Takes reports whether t fits on an empty node.
func (c *Config) Takes(t *trace.Task) bool {
	for _, k := range c.AllKinds() {
		if float64(t.CPUs) <= k.CPUs && t.Memory <= k.Memory {
			return true
		}
	}
	return false
}

// Sizes says how large nodes are, for messages.
func (c *Config) Sizes() string {
	var all []string
	for _, k := range c.AllKinds() {
		all = append(all, fmt.Sprintf("%.3g CPUs and %d MiB", k.CPUs, k.Memory>>20))
	}
	return strings.Join(all, ", or ")
}
