package ring

import (
	"fmt"
	"slices"
)

// An Event is what happens to a ring: one of the types below.
type Event interface{ apply(next draft) error }

type (
	// Join enters a node. It gets its share, at most that many segments if Most is not 0.
	Join struct {
		Node Node
		Most int
	}
	// Down: a node was judged dead. Nothing is moved.
	Down struct{ Node string }
	// Out: a node that is down is not expected back. Its neighbours take over.
	Out struct{ Node string }
	// Back: a node came up and has all that was settled of these segments.
	Back struct {
		Node string
		Has  []uint16
	}
	// Drain: a node is to leave. It serves until others have what it has.
	Drain struct{ Node string }
	// Fill: a node is to have its share, and no longer to leave. Most as in Join.
	Fill struct {
		Node string
		Most int
	}
	// Weigh changes a node's weight, without moving anything.
	Weigh struct {
		Node   string
		Weight uint32
	}
	// Rack: a node stands in another rack. What is to be elsewhere by that is moved, and nothing is let go before.
	Rack struct{ Node, Rack string }
	// Level evens out what nodes own, by at most that many segments if Most is not 0.
	Level struct{ Most int }
	// Confirm: a node has compared these segments with a holder or with the metadata, has all
	// that was settled of them, and has dropped nothing of it since it saw the table of that
	// epoch. What a later plan has overtaken is passed over.
	Confirm struct {
		Node     string
		Epoch    uint64
		Segments []uint16
	}
	// Lost: a node that is up no longer has all of these segments.
	Lost struct {
		Node     string
		Segments []uint16
	}
	// Abandon gives up what is missing of these segments, for good: those to whom they
	// belong have all there is.
	Abandon struct{ Segments []uint16 }
	// Remove takes a node off the table that is out or leaving and no longer needed.
	Remove struct{ Node string }
)

// Apply returns the table after an event, and what tells the moves that are new with it: to compare all
// segments takes longer than the event. One that changes nothing, as one does that comes twice, returns the table itself.
func (t *Table) Apply(e Event) (after *Table, moves func() []Move, err error) {
	prev, none := t, func() []Move { return nil }
	if j, ok := e.(Join); ok {
		// Both sides of the comparison below must number nodes alike.
		if prev, err = t.enter(j.Node); err != nil {
			return nil, nil, err
		}
	}
	next := prev.draft()
	if err := e.apply(next); err != nil {
		return nil, nil, err
	}
	if len(next.nodes) < len(prev.nodes) { // a node that had nothing
		next.compute()
		return next.Table, none, nil
	}
	next.settle(prev)
	if prev == t && slices.Equal(prev.nodes, next.nodes) && slices.EqualFunc(prev.segments, next.segments, segment.equal) {
		return t, none, nil
	}
	next.compute()
	return next.Table, func() []Move { return newMoves(prev, next.Table) }, nil
}

func (g segment) equal(h segment) bool {
	return g.owner == h.owner && g.since == h.since && slices.Equal(g.held, h.held)
}

// draft is a table that is still being changed.
type draft struct{ *Table }

// draft returns a table of the next epoch, to be changed.
func (t *Table) draft() draft {
	n := *t
	n.epoch++
	n.nodes, n.segments = slices.Clone(t.nodes), slices.Clone(t.segments)
	return draft{&n}
}

// node finds a node to be changed.
func (t draft) node(name string) (int, *Node, error) {
	i := t.index(name)
	if i < 0 {
		return 0, nil, fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	return i, &t.nodes[i], nil
}

func refused(n *Node, what string) error {
	return fmt.Errorf("%w: %s is %v, leaving %v: %s", ErrState, n.Name, n.State, n.Leaving, what)
}

// enter returns the table with one node more, which is out and has nothing.
func (t *Table) enter(n Node) (*Table, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	if t.index(n.Name) >= 0 || len(t.nodes) == MaxNodes {
		return nil, fmt.Errorf("%w: node %s is there already, or there are too many", ErrState, n.Name)
	}
	at := t.gap(n)
	n.State, n.Leaving = IsOut, false
	r := *t
	r.nodes = slices.Insert(slices.Clone(t.nodes), at, n)
	r.renumber(func(i uint16) uint16 {
		if int(i) >= at {
			i++
		}
		return i
	})
	r.compute()
	return &r, nil
}

func (t *Table) renumber(to func(uint16) uint16) {
	all := make([]segment, len(t.segments))
	for s, g := range t.segments {
		held := make([]uint16, len(g.held))
		for k, i := range g.held {
			held[k] = to(i)
		}
		all[s] = segment{to(g.owner), held, g.since}
	}
	t.segments = all
}

func (e Join) apply(t draft) error {
	i, n, err := t.node(e.Node.Name)
	if err != nil {
		return err
	}
	n.State = IsUp
	t.compute()
	t.level(i, e.Most)
	return nil
}

func (e Down) apply(t draft) error {
	_, n, err := t.node(e.Node)
	if err == nil && n.State == IsUp {
		n.State = IsDown
	}
	return err
}

func (e Out) apply(t draft) error {
	i, n, err := t.node(e.Node)
	switch {
	case err != nil:
		return err
	case n.State == IsOut:
		return nil
	case n.State != IsDown:
		return refused(n, "it has to be down before it is out")
	}
	was := n.member()
	n.State = IsOut
	return t.leave(i, was)
}

func (e Drain) apply(t draft) error {
	i, n, err := t.node(e.Node)
	if err != nil {
		return err
	}
	was := n.member()
	n.Leaving = true
	return t.leave(i, was)
}

// leave gives to others what belongs to a node that was a member.
func (t draft) leave(i int, was bool) error {
	if !was {
		return nil
	}
	if !slices.ContainsFunc(t.nodes, Node.member) {
		return refused(&t.nodes[i], "there is nobody else")
	}
	t.compute()
	t.takeOver(i)
	return nil
}

func (e Back) apply(t draft) error {
	i, n, err := t.node(e.Node)
	if err != nil {
		return err
	}
	has := make([]bool, len(t.segments))
	for _, s := range e.Has {
		if int(s) < len(has) {
			has[s] = true
		}
	}
	for s, g := range t.segments {
		if !has[s] || !slices.Contains(g.held, uint16(i)) {
			t.drop(s, i)
		}
	}
	was := n.State
	n.State = IsUp
	if was == IsOut && n.member() {
		t.compute()
		t.level(i, 0)
	}
	return nil
}

// drop notes that a node does not have all of a segment. What it may have confirmed before,
// and is still on the way, counts no more.
func (t draft) drop(s, i int) {
	g := &t.segments[s]
	if k := slices.Index(g.held, uint16(i)); k >= 0 {
		g.held = slices.Delete(slices.Clone(g.held), k, k+1)
	}
	if slices.Contains(t.belongs(s), uint16(i)) {
		g.since = t.epoch
	}
}

func (e Fill) apply(t draft) error {
	i, n, err := t.node(e.Node)
	switch {
	case err != nil:
		return err
	case n.State != IsUp:
		return refused(n, "only a node that is up can be filled")
	}
	n.Leaving = false
	t.compute()
	t.level(i, e.Most)
	return nil
}

func (e Weigh) apply(t draft) error {
	_, n, err := t.node(e.Node)
	if err != nil {
		return err
	}
	n.Weight = e.Weight
	return n.check()
}

func (e Rack) apply(t draft) error {
	_, n, err := t.node(e.Node)
	if err != nil {
		return err
	}
	n.Rack = e.Rack
	t.compute()
	return n.check()
}

func (e Level) apply(t draft) error {
	t.level(-1, e.Most)
	return nil
}

func (e Confirm) apply(t draft) error {
	i, n, err := t.node(e.Node)
	switch {
	case err != nil:
		return err
	case e.Epoch >= t.epoch: // t is the next one already
		return fmt.Errorf("%w: %s confirms for epoch %d, which has not come", ErrInvalid, e.Node, e.Epoch)
	case n.State != IsUp:
		return nil // it will say so again when it is back
	}
	for _, s := range e.Segments {
		if int(s) >= len(t.segments) {
			return fmt.Errorf("%w: %s confirms segment %d", ErrInvalid, e.Node, s)
		}
		g := &t.segments[s]
		fills := slices.Contains(t.belongs(int(s)), uint16(i)) && !slices.Contains(g.held, uint16(i))
		if fills && e.Epoch >= g.since {
			g.held = append(slices.Clone(g.held), uint16(i))
		}
	}
	return nil
}

func (e Lost) apply(t draft) error {
	i, _, err := t.node(e.Node)
	if err != nil {
		return err
	}
	for _, s := range e.Segments {
		if int(s) >= len(t.segments) {
			return fmt.Errorf("%w: %s lost segment %d", ErrInvalid, e.Node, s)
		}
		t.drop(int(s), i)
	}
	return nil
}

func (e Abandon) apply(t draft) error {
	for _, s := range e.Segments {
		if int(s) >= len(t.segments) {
			return fmt.Errorf("%w: segment %d", ErrInvalid, s)
		}
		if t.live(int(s)) > 0 {
			continue
		}
		var held []uint16
		for _, i := range t.belongs(int(s)) {
			if t.up(i) {
				held = append(held, i)
			}
		}
		if len(held) > 0 {
			t.segments[s].held = held
		}
	}
	return nil
}

func (e Remove) apply(t draft) error {
	i, n, err := t.node(e.Node)
	if err != nil {
		return err
	}
	if n.member() {
		return refused(n, "drain it, or wait until it is out")
	}
	for s, g := range t.segments {
		if slices.Contains(g.held, uint16(i)) {
			return refused(n, fmt.Sprintf("it is needed for segment %d", s))
		}
	}
	t.nodes = slices.Delete(t.nodes, i, i+1)
	t.renumber(func(j uint16) uint16 {
		if int(j) > i {
			j--
		}
		return j
	})
	return nil
}
