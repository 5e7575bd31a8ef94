package ring

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Limits of a table.
const (
	MaxSegments = 1 << 16
	MaxNodes    = 1 << 12
	MaxReplicas = 16
	maxName     = 255
)

// State is how a node stands with the others.
type State uint8

const (
	IsUp   State = iota
	IsDown       // judged dead: nobody reads there, but what it has is kept for its return
	IsOut        // dead for so long that its share was given to others
)

func (s State) String() string {
	if s > IsOut {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return [...]string{"up", "down", "out"}[s]
}

// Node is a machine on the ring.
type Node struct {
	Name    string
	Rack    string // or whatever else fails as one
	Weight  uint32 // its share of the segments, relative to the weights of others
	State   State
	Leaving bool // its share is given to others while it still serves
}

// member reports whether copies are to be at a node.
func (n Node) member() bool { return n.State != IsOut && !n.Leaving }

func (n Node) check() error {
	switch {
	case n.Name == "" || len(n.Name) > maxName || len(n.Rack) > maxName:
		return fmt.Errorf("%w: the name of node %.20q or of its rack %.20q", ErrInvalid, n.Name, n.Rack)
	case n.Weight == 0:
		return fmt.Errorf("%w: node %s has no weight", ErrInvalid, n.Name)
	case n.State > IsOut:
		return fmt.Errorf("%w: node %s has %v", ErrInvalid, n.Name, n.State)
	}
	return nil
}

// segment is a range of keys, of which all copies are where its owner says.
type segment struct {
	owner uint16
	held  []uint16 // who has all of it, those first where it belongs; may be shared with other tables
	since uint64   // while somebody is being filled: the epoch whose plan that is
}

// Table says which nodes there are and who has what, in one epoch. It never changes, so
// it may be shared. Nodes inside are places in the order of the ring.
type Table struct {
	epoch    uint64
	replicas int
	nodes    []Node // in the order of the ring
	segments []segment

	// Computed from the above.
	members []uint16   // the nodes where copies are to be
	targets [][]uint16 // for each member, where copies of its segments belong: itself first
	arcs    []uint16   // all segments, in the order of their owners
}

// What Apply and New refuse, and Decode of bytes that no table has.
var (
	ErrInvalid = errors.New("ring: invalid")
	ErrUnknown = errors.New("ring: no such node")
	ErrState   = errors.New("ring: not in this state of the node")
)

// New returns the first table of a file system, in which nothing is stored yet.
func New(segments, replicas int, nodes ...Node) (*Table, error) {
	if segments < 1 || segments > MaxSegments || replicas < 1 || replicas > MaxReplicas || len(nodes) == 0 || len(nodes) > MaxNodes {
		return nil, fmt.Errorf("%w: %d segments, %d replicas, %d nodes", ErrInvalid, segments, replicas, len(nodes))
	}
	t := &Table{epoch: 1, replicas: replicas}
	for _, n := range nodes {
		n.State, n.Leaving = IsUp, false
		if err := n.check(); err != nil {
			return nil, err
		}
		if t.index(n.Name) >= 0 {
			return nil, fmt.Errorf("%w: two nodes %s", ErrInvalid, n.Name)
		}
		t.nodes = append(t.nodes, n)
	}
	alternate(t.nodes)
	t.segments = make([]segment, segments)
	t.compute()
	s := 0
	for i, quota := range t.quotas() {
		for ; quota > 0; quota-- {
			t.segments[s] = segment{owner: uint16(i), held: t.targets[i]}
			s++
		}
	}
	t.compute()
	return t, nil
}

// alternate sorts nodes so that each rack's are spread evenly over all, and those of like
// weights stand together.
func alternate(nodes []Node) {
	slices.SortStableFunc(nodes, func(a, b Node) int { return cmp.Compare(b.Weight, a.Weight) })
	size, at := map[string]int{}, map[string]int{} // of racks; of nodes in theirs, doubled
	for _, n := range nodes {
		at[n.Name] = 2*size[n.Rack] + 1
		size[n.Rack]++
	}
	slices.SortStableFunc(nodes, func(a, b Node) int {
		return cmp.Compare(at[a.Name]*size[b.Rack], at[b.Name]*size[a.Rack])
	})
}

// compute sets what follows from the rest.
func (t *Table) compute() {
	t.targets = make([][]uint16, len(t.nodes))
	t.members = nil
	racks := map[string]bool{}
	for i, n := range t.nodes {
		if n.member() {
			t.members = append(t.members, uint16(i))
			racks[n.Rack] = true
		}
	}
	for _, i := range t.members {
		t.targets[i] = t.walk(int(i), len(racks))
	}
	next := make([]int, len(t.nodes)+1)
	for _, g := range t.segments {
		next[g.owner+1]++
	}
	for i := range t.nodes {
		next[i+1] += next[i]
	}
	t.arcs = make([]uint16, len(t.segments))
	for s, g := range t.segments {
		t.arcs[next[g.owner]] = uint16(s)
		next[g.owner]++
	}
}

// outwards yields a node if it is a member, then the next member after it, the next before
// it, the second after it, and so on until all were named.
func (t *Table) outwards(i int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		n := len(t.members)
		at, is := slices.BinarySearch(t.members, uint16(i))
		if is && !yield(i) {
			return
		}
		left := n
		if is {
			left--
		}
		for d := 1; left > 0; d++ {
			after := at + d
			if !is {
				after--
			}
			if !yield(int(t.members[after%n])) {
				return
			}
			if left--; left > 0 {
				if !yield(int(t.members[(at-d+n)%n])) {
					return
				}
				left--
			}
		}
	}
}

// walk returns where the copies of a node's segments belong: outwards from it, first in
// racks that have none yet, then the nearest. racks says how many there are.
func (t *Table) walk(from, racks int) []uint16 {
	var chosen, passed []uint16
	for i := range t.outwards(from) {
		// Without a rack to be found the walk would always go round the whole ring.
		if len(chosen) == t.replicas || len(chosen) == racks && len(chosen)+len(passed) >= t.replicas {
			break
		}
		if slices.ContainsFunc(chosen, func(j uint16) bool { return t.nodes[j].Rack == t.nodes[i].Rack }) {
			passed = append(passed, uint16(i))
		} else {
			chosen = append(chosen, uint16(i))
		}
	}
	more := min(t.replicas-len(chosen), len(passed))
	return append(chosen, passed[:more]...)
}

func (t *Table) index(name string) int {
	return slices.IndexFunc(t.nodes, func(n Node) bool { return n.Name == name })
}

// belongs returns where copies of a segment are to be.
func (t *Table) belongs(s int) []uint16 { return t.targets[t.segments[s].owner] }

func (t *Table) up(i uint16) bool { return t.nodes[i].State == IsUp }

// live counts who can be asked for a segment.
func (t *Table) live(s int) int {
	n := 0
	for _, i := range t.segments[s].held {
		if t.up(i) {
			n++
		}
	}
	return n
}

func (t *Table) names(of []uint16) []string {
	names := make([]string, len(of))
	for k, i := range of {
		names[k] = t.nodes[i].Name
	}
	return names
}

// Epoch counts the changes.
func (t *Table) Epoch() uint64 { return t.epoch }

// Replicas returns how many copies a segment is to have.
func (t *Table) Replicas() int { return t.replicas }

// Segments returns how many there are.
func (t *Table) Segments() int { return len(t.segments) }

// Nodes returns all, in the order of the ring.
func (t *Table) Nodes() []Node { return slices.Clone(t.nodes) }

// Node returns the node of a name.
func (t *Table) Node(name string) (Node, bool) {
	i := t.index(name)
	if i < 0 {
		return Node{}, false
	}
	return t.nodes[i], true
}

// Neighbours returns the members before and after a node. They hold what it holds, and
// are whom it may relieve of work. It is its own neighbour when it is alone.
func (t *Table) Neighbours(name string) (before, after string) {
	i := t.index(name)
	if i < 0 {
		return "", ""
	}
	before, after = name, name
	for k, j := range slices.DeleteFunc(slices.Collect(t.outwards(i)), func(j int) bool { return j == i }) {
		switch k {
		case 0:
			before, after = t.nodes[j].Name, t.nodes[j].Name
		case 1:
			before = t.nodes[j].Name
		default:
			return before, after
		}
	}
	return before, after
}

// Owner returns the node to which a segment belongs first.
func (t *Table) Owner(s uint16) string { return t.nodes[t.segments[s].owner].Name }

// Targets returns where the copies of a segment are to be, the owner first.
func (t *Table) Targets(s uint16) []string { return t.names(t.belongs(int(s))) }

// Holders returns who has all that was settled of a segment, whether it answers or not.
func (t *Table) Holders(s uint16) []string { return t.names(t.segments[s].held) }

// ReadFrom returns whom to ask for a segment, in this order: holders that are up.
func (t *Table) ReadFrom(s uint16) []string {
	return t.names(slices.DeleteFunc(slices.Clone(t.segments[s].held), func(i uint16) bool { return !t.up(i) }))
}

// WriteTo returns who is to get a new block of a segment: where it belongs, and in place of
// those that are not up, or that the caller cannot use (full, refused by a client), the
// next ones outwards.
func (t *Table) WriteTo(s uint16, unusable func(name string) bool) []string {
	var to []uint16
	fits := func(i uint16) bool {
		n := t.nodes[i]
		return n.State == IsUp && (unusable == nil || !unusable(n.Name)) && !slices.Contains(to, i)
	}
	for _, i := range t.belongs(int(s)) {
		if fits(i) {
			to = append(to, i)
		}
	}
	for i := range t.outwards(int(t.segments[s].owner)) {
		if len(to) == t.replicas {
			break
		}
		if fits(uint16(i)) {
			to = append(to, uint16(i))
		}
	}
	return t.names(to)
}

// Settled reports whether a segment is just where it belongs. The places of a new block may
// be forgotten only then, once all Targets have it: before, some holder may lack it.
func (t *Table) Settled(s uint16) bool {
	g := t.segments[s]
	return slices.Equal(g.held, t.targets[g.owner])
}

// Missing returns the segments that nobody can be asked for. Their Holders, if there are
// any, still have them and bring them back.
func (t *Table) Missing() []uint16 {
	var missing []uint16
	for s := range t.segments {
		if t.live(s) == 0 {
			missing = append(missing, uint16(s))
		}
	}
	return missing
}
