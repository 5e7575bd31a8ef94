package ring

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// Picture is a table for people.
type Picture struct {
	Epoch    uint64 `json:"epoch"`
	Replicas int    `json:"replicas"`
	Segments int    `json:"segments"`
	Filling  int    `json:"filling"` // segments that are not all where they belong
	Thin     int    `json:"thin"`    // segments of which fewer copies can be read than could be
	Missing  int    `json:"missing"` // segments of which none can be read
	Nodes    []Arc  `json:"nodes"`   // in the order of the ring
}

// Arc is a node in a picture.
type Arc struct {
	Node    string `json:"node"`
	Rack    string `json:"rack,omitempty"`
	State   string `json:"state"`
	Weight  uint32 `json:"weight"`
	Owns    int    `json:"owns"`
	Holds   int    `json:"holds"`
	Lacks   int    `json:"lacks"` // to be copied to it
	Spare   int    `json:"spare"` // held until others have them
	Missing int    `json:"missing"`
}

// Picture counts what there is to see.
func (t *Table) Picture() Picture {
	p := Picture{Epoch: t.epoch, Replicas: t.replicas, Segments: len(t.segments)}
	up := 0
	for _, n := range t.nodes {
		state := n.State.String()
		if n.Leaving {
			state += ", leaving"
		}
		p.Nodes = append(p.Nodes, Arc{Node: n.Name, Rack: n.Rack, State: state, Weight: n.Weight})
		if n.State == IsUp {
			up++
		}
	}
	for s, g := range t.segments {
		live := t.live(s)
		if !t.Settled(uint16(s)) {
			p.Filling++
		}
		if live < min(t.replicas, up) {
			p.Thin++
		}
		if live == 0 {
			p.Missing++
		}
		p.Nodes[g.owner].Owns++
		for _, i := range g.held {
			p.Nodes[i].Holds++
			if live == 0 {
				p.Nodes[i].Missing++
			}
			if !slices.Contains(t.belongs(s), i) {
				p.Nodes[i].Spare++
			}
		}
		for _, i := range t.belongs(s) {
			if !slices.Contains(g.held, i) {
				p.Nodes[i].Lacks++
			}
		}
	}
	return p
}

// String draws it: a line for each node, with a mark for about each fortieth of all that it
// owns.
func (p Picture) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "epoch %d: %d segments, %d copies; %d filling, %d thin, %d missing\n", p.Epoch, p.Segments, p.Replicas, p.Filling, p.Thin, p.Missing)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "node\track\tstate\tweight\towns\tholds\tlacks\tspare\t")
	for _, n := range p.Nodes {
		marks := (n.Owns*40 + p.Segments - 1) / max(1, p.Segments)
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n", n.Node, n.Rack, n.State, n.Weight, n.Owns, n.Holds, n.Lacks, n.Spare, strings.Repeat("#", marks))
	}
	w.Flush()
	return b.String()
}
