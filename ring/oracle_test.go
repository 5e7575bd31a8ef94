package ring

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// What follows says what a step must be like, in sets of names, without the table's ways.

// wantTargets is where copies of a node's segments belong: of the members by their distance
// on the ring, first one of each rack, then any.
func wantTargets(t *Table, owner string) []string {
	nodes := slices.DeleteFunc(t.Nodes(), func(n Node) bool { return n.State == IsOut || n.Leaving })
	at := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == owner })
	var near []Node
	for d := 0; len(near) < 2*len(nodes)+1; d++ {
		near = append(near, nodes[(at+d)%len(nodes)])
		if d > 0 {
			near = append(near, nodes[((at-d)%len(nodes)+len(nodes))%len(nodes)])
		}
	}
	var all []string
	seen := map[string]bool{}
	for _, everyRack := range []bool{false, true} {
		for _, n := range near {
			if len(all) < t.Replicas() && !slices.Contains(all, n.Name) && (everyRack || !seen[n.Rack]) {
				all = append(all, n.Name)
				seen[n.Rack] = true
			}
		}
	}
	return all
}

func setOf(names []string) map[string]bool {
	set := map[string]bool{}
	for _, n := range names {
		set[n] = true
	}
	return set
}

func less(a, b map[string]bool) map[string]bool {
	c := maps.Clone(a)
	maps.DeleteFunc(c, func(n string, _ bool) bool { return b[n] })
	return c
}

// checkTable tries what holds of any table.
func checkTable(table *Table) error {
	b := table.Encode()
	back, err := Decode(b)
	if err != nil {
		return fmt.Errorf("it cannot be decoded: %v", err)
	}
	if !bytes.Equal(back.Encode(), b) || !slices.EqualFunc(back.segments, table.segments, segment.equal) || !slices.Equal(back.arcs, table.arcs) {
		return fmt.Errorf("it is another one when it is decoded")
	}
	want := map[string][]string{}
	for s := range table.Segments() {
		owner := table.Owner(uint16(s))
		if want[owner] == nil {
			want[owner] = wantTargets(table, owner)
		}
		targets, held := setOf(want[owner]), setOf(table.Holders(uint16(s)))
		if !slices.Equal(table.Targets(uint16(s)), want[owner]) {
			return fmt.Errorf("segment %d belongs to %v, want %v", s, table.Targets(uint16(s)), want[owner])
		}
		if len(held) != len(table.segments[s].held) {
			return fmt.Errorf("segment %d is held twice by somebody: %v", s, table.Holders(uint16(s)))
		}
		live := 0
		for n := range held {
			if node, _ := table.Node(n); node.State == IsUp {
				live++
			}
		}
		for n := range less(held, targets) {
			node, _ := table.Node(n)
			if node.State == IsUp && live > table.Replicas() || node.State != IsUp && live >= len(targets) {
				return fmt.Errorf("segment %d: %s is held for nothing: %v for %v", s, n, table.Holders(uint16(s)), want[owner])
			}
		}
	}
	return nil
}

// checkStep tries what holds of any change.
func checkStep(prev *Table, e Event, next *Table, moves []Move) error {
	if next == prev {
		if len(moves) > 0 {
			return fmt.Errorf("nothing has changed, and there is something to do: %v", moves)
		}
		return nil
	}
	if next.Epoch() != prev.Epoch()+1 {
		return fmt.Errorf("epoch %d after %d", next.Epoch(), prev.Epoch())
	}
	node, most, gives, takes, loses := "", 0, false, false, false
	switch e := e.(type) {
	case Join:
		node, most, takes = e.Node.Name, e.Most, true
	case Fill:
		node, most, takes = e.Node, e.Most, true
	case Back:
		node, takes, loses = e.Node, true, true
	case Out:
		node, gives = e.Node, true
	case Drain:
		node, gives = e.Node, true
	case Lost:
		node, loses = e.Node, true
	case Level:
		most, gives, takes = e.Most, true, true
	}
	var want []Move
	moved := 0
	for s := range uint16(prev.Segments()) {
		was, is := prev.Owner(s), next.Owner(s)
		if was != is {
			moved++
			if !gives && !takes || node != "" && gives && was != node || node != "" && takes && is != node {
				return fmt.Errorf("segment %d went from %s to %s", s, was, is)
			}
		}
		before, after := setOf(prev.Holders(s)), setOf(next.Holders(s))
		targets := setOf(next.Targets(s))
		switch e := e.(type) {
		case Confirm:
			if after[e.Node] && slices.Contains(e.Segments, s) {
				before[e.Node] = true
			}
		case Abandon:
			continue
		}
		if more := less(after, before); len(more) > 0 {
			return fmt.Errorf("segment %d is held by %v all at once", s, more)
		}
		live := len(next.ReadFrom(s))
		for n := range less(before, after) {
			now, _ := next.Node(n)
			switch {
			case loses && n == node:
			case targets[n]:
				return fmt.Errorf("segment %d is no longer held by %s, where it belongs", s, n)
			case now.State == IsUp && live < next.Replicas():
				return fmt.Errorf("segment %d: %s lets it go, and %d others can be read", s, n, live)
			case now.State != IsUp && live < len(targets):
				return fmt.Errorf("segment %d: %s is given up, and %d can be read of %d", s, n, live, len(targets))
			}
		}
		concerned := setOf(slices.Concat(prev.Holders(s), prev.Targets(s)))
		for n := range less(less(concerned, after), targets) {
			if now, ok := next.Node(n); ok && now.State == IsUp {
				want = append(want, Move{Segment: s, Node: n})
			}
		}
	}
	if takes || gives && node == "" {
		if most > 0 && moved > most {
			return fmt.Errorf("%d segments were moved, of at most %d", moved, most)
		}
	}
	old := prev.Moves()
	for _, m := range next.Moves() {
		if !slices.Contains(old, m) {
			want = append(want, m)
		}
		if !slices.Contains(next.ReadFrom(m.Segment), m.From) || slices.Contains(next.Holders(m.Segment), m.Node) {
			return fmt.Errorf("no such copy can be made: %v", m)
		}
	}
	order := func(a, b Move) int {
		return bytes.Compare(fmt.Appendf(nil, "%05d %v", a.Segment, a), fmt.Appendf(nil, "%05d %v", b.Segment, b))
	}
	got := slices.Clone(moves)
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !slices.Equal(got, want) {
		return fmt.Errorf("moves are %v, want %v", got, want)
	}
	return nil
}

// step applies an event, checks all of it, and that it is the same when it is done again.
func step(t testing.TB, table *Table, e Event) (*Table, []Move, error) {
	t.Helper()
	before := table.Encode()
	next, moved, err := table.Apply(e)
	if !bytes.Equal(before, table.Encode()) {
		t.Fatalf("%#v changed the table that was there", e)
	}
	if err != nil {
		return table, nil, err
	}
	moves := moved()
	copied, err := Decode(before)
	if err != nil {
		t.Fatal(err)
	}
	again, movesAgain, err := copied.Apply(e)
	if err != nil || !bytes.Equal(next.Encode(), again.Encode()) || !slices.Equal(moves, movesAgain()) {
		t.Fatalf("%#v gives two different tables (%v)", e, err)
	}
	if err := checkTable(next); err != nil {
		t.Fatalf("after %#v: %v\n%v", e, err, next.Picture())
	}
	if err := checkStep(table, e, next, moves); err != nil {
		t.Fatalf("%#v: %v\n%v%v", e, err, table.Picture(), next.Picture())
	}
	return next, moves, nil
}

// TestAllHistories tries every event in every state that short histories lead to.
func TestAllHistories(t *testing.T) {
	for _, c := range []struct{ nodes, replicas, racks, depth int }{
		{1, 3, 1, 5}, {2, 2, 1, 4}, {3, 2, 3, 3}, {3, 3, 1, 4}, {4, 3, 2, 3}, {5, 3, 1, 3},
	} {
		nodes := names(c.nodes + 2)
		for i := range nodes {
			nodes[i].Rack = fmt.Sprint("r", i%c.racks)
		}
		first, err := New(c.nodes+1, c.replicas, nodes[:c.nodes]...)
		if err != nil {
			t.Fatal(err)
		}
		// Epochs differ along different ways to what is one state otherwise.
		state := func(table *Table) string {
			n := *table
			n.epoch, n.segments = 1, slices.Clone(table.segments)
			for s := range n.segments {
				n.segments[s].since = min(1, n.segments[s].since)
			}
			return string(n.Encode())
		}
		seen := map[string]bool{state(first): true}
		now, steps := []*Table{first}, 0
		for range c.depth {
			var next []*Table
			for _, table := range now {
				for _, e := range events(table, nodes) {
					to, _, err := step(t, table, e)
					steps++
					if err != nil {
						continue
					}
					if k := state(to); !seen[k] {
						seen[k] = true
						next = append(next, to)
					}
				}
			}
			now = next
		}
		t.Logf("%+v: %d states, %d steps", c, len(seen), steps)
	}
}

// events are all that may happen to a table, near enough.
func events(table *Table, nodes []Node) []Event {
	all := []Event{Level{}, Abandon{table.Missing()}, Rack{nodes[0].Name, "another"}}
	every := make([]uint16, table.Segments())
	for s := range every {
		every[s] = uint16(s)
	}
	for _, n := range nodes {
		if _, ok := table.Node(n.Name); !ok {
			return append(all, Join{Node: n}, Join{n, 1})
		}
		all = append(all, Down{n.Name}, Out{n.Name}, Back{n.Name, every}, Back{n.Name, nil}, Drain{n.Name}, Fill{n.Name, 0}, Remove{n.Name},
			Confirm{n.Name, table.Epoch(), every}, Confirm{n.Name, table.Epoch(), every[:1]}, Confirm{n.Name, table.Epoch() - 1, every}, Lost{n.Name, every[:min(2, len(every))]})
	}
	return all
}
