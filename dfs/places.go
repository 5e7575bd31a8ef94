package dfs

import (
	"hash/fnv"
	"slices"

	"headrace/meta"
	"headrace/ring"
)

// Places says where copies of blocks are and are to be, by a view. It is pure: the same view gives the same answers.
type Places struct {
	View *View
	// Full reports whether a node's disks take no more new blocks; nil: none is known to be full.
	Full func(node string) bool
}

// Places returns where copies are by what is known now.
func (n *Node) Places() Places {
	p := Places{View: n.View()}
	if n.Config.Peers != nil {
		p.Full = func(node string) bool {
			if node == n.Identity.Node {
				return n.Room().Full()
			}
			r, ok := n.Config.Peers.Room(node)
			return ok && r.Full()
		}
	}
	return p
}

// up reports whether a node is there, as far as the ring knows.
func (p Places) up(name string) bool {
	n, ok := p.View.Table.Node(name)
	return ok && n.State == ring.IsUp
}

// out reports whether nobody expects a node back.
func (p Places) out(name string) bool {
	n, ok := p.View.Table.Node(name)
	return !ok || n.State == ring.IsOut
}

// full reports whether a node is known to have no room for new blocks.
func (p Places) full(name string) bool { return p.Full != nil && p.Full(name) }

// names are where copies are that count: at the nodes kept with the block, or else where its segment is held. When nobody is up that has all of
// the segment those to whom it belongs may have this block.
func (p Places) names(l meta.LocatedBlock) []string {
	if len(l.Nodes) > 0 {
		return l.Nodes
	}
	t := p.View.Table
	names := t.Holders(l.Segment)
	if slices.ContainsFunc(names, p.up) {
		return names
	}
	for _, name := range t.Targets(l.Segment) {
		if p.up(name) {
			names = append(names, name) // which is no holder
		}
	}
	return names
}

// enough reports whether there are as many good copies of a finished block as there are to be, where they are to be.
func (p Places) enough(b *meta.Placed, copies census) bool {
	return p.good(b, copies) >= min(p.Copies(b.Replication), members(p.View.Table))
}

// good counts the good copies of a finished block where they count or are to be.
func (p Places) good(b *meta.Placed, copies census) (n int) {
	wanted, _ := p.wanted(b)
	for _, name := range unique(slices.Concat(p.names(b.LocatedBlock), wanted)) {
		if copies.has(name, &b.Block) {
			n++
		}
	}
	return n
}

// alone reports whether nobody is up who counts for a finished block, but for a node that is not counted, should it have a copy.
func (p Places) alone(b *meta.Placed, node string) bool {
	names := p.names(b.LocatedBlock)
	return !slices.ContainsFunc(names, p.up) && !slices.Contains(names, node)
}

// expected are the nodes that count for a block and may be back.
func (p Places) expected(b *meta.Placed) []string {
	return slices.DeleteFunc(slices.Clone(p.names(b.LocatedBlock)), p.out)
}

// others are the nodes of a block's segment that are not among names.
func (p Places) others(l meta.LocatedBlock) []string {
	all := slices.Concat(p.View.Table.Holders(l.Segment), p.View.Table.Targets(l.Segment))
	return unique(slices.DeleteFunc(all, func(name string) bool { return slices.Contains(p.names(l), name) }))
}

// known are those of names that are up, or all of them when none is: the judge of the ring may be wrong.
func (p Places) known(names []string) (all []Member) {
	for _, up := range []bool{true, false} {
		for _, name := range names {
			if m, ok := p.View.Members[name]; ok && p.up(name) == up {
				all = append(all, m)
			}
		}
		if len(all) > 0 {
			return all
		}
	}
	return nil
}

// Readers returns the nodes to be asked for a block, the nearest to a client's machine first: on it, in its rack, elsewhere. Which
// of those that are equally far comes first depends on block and machine, so that not all ask the same one.
func (p Places) Readers(l meta.LocatedBlock, machine string) []Member {
	return p.near(p.known(p.names(l)), machine, l.ID)
}

func (p Places) near(all []Member, machine string, salt uint64) []Member {
	if len(all) < 2 {
		return all
	}
	rack, placed := "", false
	for _, m := range p.View.Members {
		if m.Host == machine {
			rack, placed = m.Rack, true
		}
	}
	far := func(m Member) int {
		switch {
		case m.Host == machine:
			return 0
		case placed && m.Rack == rack:
			return 1
		}
		return 2
	}
	order := func(m Member) uint64 {
		h := fnv.New64a()
		h.Write([]byte(machine))
		h.Write([]byte(m.Name))
		return (h.Sum64() ^ salt) * 0x9e3779b97f4a7c15
	}
	slices.SortFunc(all, func(a, b Member) int {
		if d := far(a) - far(b); d != 0 {
			return d
		}
		if order(a) < order(b) {
			return -1
		}
		return 1
	})
	return all
}

// Writers returns the nodes that are to write a block of a segment, so many copies as there can be: where the segment belongs, and in
// place of those that are down, full or refused the next ones outwards. The writer's own node comes first, if it is one of them.
func (p Places) Writers(segment uint16, copies int, machine string, refused func(name string) bool) []Member {
	names := p.View.Table.WriteTo(segment, func(name string) bool { return refused != nil && refused(name) || p.full(name) })
	all := p.members(names[:min(len(names), max(copies, 1))])
	if i := slices.IndexFunc(all, func(m Member) bool { return m.Host == machine }); i > 0 {
		own := all[i]
		copy(all[1:i+1], all[:i])
		all[0] = own
	}
	return all
}

func (p Places) members(names []string) (all []Member) {
	for _, name := range names {
		if m, ok := p.View.Members[name]; ok {
			all = append(all, m)
		}
	}
	return all
}

// Copies is how many copies a block of a file of that replication is to have.
func (p Places) Copies(replication uint16) int {
	return max(1, min(int(replication), p.View.Table.Replicas()))
}

// Default is how many copies a file gets of which nobody has said how many it wants.
func (p Places) Default() int {
	return max(1, min(p.View.Table.Replicas(), members(p.View.Table)))
}

// wanted returns where copies of a finished block are to be that are up, and whether those are all. A block of which fewer copies are wanted
// than the table has stays where it is, as long as it can. Of others, copies come to further nodes in the place of those that are full, as when they were
// written, until the segment has room.
func (p Places) wanted(b *meta.Placed) (nodes []string, all bool) {
	t := p.View.Table
	if copies := p.Copies(b.Replication); copies < t.Replicas() && len(b.Nodes) > 0 {
		for _, name := range b.Nodes {
			if n, ok := t.Node(name); ok && n.State != ring.IsOut && !n.Leaving && len(nodes) < copies {
				nodes = append(nodes, name)
			}
		}
		for _, name := range t.WriteTo(b.Segment, p.Full) {
			if len(nodes) < copies && !slices.Contains(nodes, name) {
				nodes = append(nodes, name)
			}
		}
		all = len(nodes) == copies
	} else {
		nodes, all = t.Targets(b.Segment), true
		if len(b.Nodes) > 0 {
			nodes = p.insteadOfFull(b, nodes)
		}
	}
	up := slices.DeleteFunc(slices.Clone(nodes), func(name string) bool { return !p.up(name) })
	return up, all && len(up) == len(nodes)
}

// insteadOfFull returns targets of a block whose places are kept, and further nodes as long as too few of all have a copy or room for one.
func (p Places) insteadOfFull(b *meta.Placed, targets []string) []string {
	able := 0
	for _, name := range unique(slices.Concat(targets, b.Nodes)) {
		n, ok := p.View.Table.Node(name)
		if kept := slices.Contains(b.Nodes, name); ok && n.State != ring.IsOut && !n.Leaving && (kept || !p.full(name)) {
			able++
		}
	}
	nodes := targets
	for _, name := range p.View.Table.WriteTo(b.Segment, p.Full) {
		if able < len(targets) && !slices.Contains(targets, name) && !slices.Contains(b.Nodes, name) {
			nodes = append(nodes, name)
			able++
		}
	}
	return nodes
}

// wants reports whether a copy of a finished block is to come to a node.
func (p Places) wants(b *meta.Placed, node string) bool {
	nodes, _ := p.wanted(b)
	return slices.Contains(nodes, node)
}

// belongs reports whether a node is to have, or may serve, a copy of a finished block.
func (p Places) belongs(b *meta.Placed, node string) bool {
	if slices.Contains(b.Nodes, node) {
		return true
	}
	t := p.View.Table
	if len(b.Nodes) == 0 && slices.Contains(t.Holders(b.Segment), node) {
		return true
	}
	return (len(b.Nodes) == 0 || p.Copies(b.Replication) >= t.Replicas()) && slices.Contains(t.Targets(b.Segment), node)
}

// Names are those of members.
func Names(all []Member) []string {
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.Name
	}
	return names
}
