package dfs

import (
	"fmt"
	"slices"
	"testing"

	"headrace/meta"
	"headrace/ring"
	"headrace/wire"
)

// sixNodes are nodes n0 to n5 in two racks, at 10.0.0.0 to 10.0.0.5.
func sixNodes(t *testing.T, events ...ring.Event) Places {
	t.Helper()
	var nodes []ring.Node
	members := map[string]Member{}
	for i := range 6 {
		name, rack := fmt.Sprintf("n%d", i), fmt.Sprintf("/r%d", i%2)
		nodes = append(nodes, ring.Node{Name: name, Rack: rack, Weight: 1})
		members[name] = Member{Name: name, Host: fmt.Sprintf("10.0.0.%d", i), Rack: rack}
	}
	table, err := ring.New(64, 3, nodes...)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if table, _, err = table.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return Places{View: &View{Table: table, Members: members}}
}

// TestReadersByDistance: a reader is sent to its own machine first, then to its rack; others share the load.
func TestReadersByDistance(t *testing.T) {
	p := sixNodes(t)
	l := meta.LocatedBlock{Block: meta.Block{ID: 1}, Nodes: []string{"n0", "n1", "n2", "n3"}}
	if got := Names(p.Readers(l, "10.0.0.2")); got[0] != "n2" || got[1] != "n0" || len(got) != 4 {
		t.Errorf("on a node: %v", got)
	}
	if got := Names(p.Readers(l, "10.0.0.5")); p.View.Members[got[0]].Rack != "/r1" || p.View.Members[got[1]].Rack != "/r1" {
		t.Errorf("on another one: %v", got)
	}
	first := map[string]int{}
	for i := range uint64(400) {
		l.ID = i
		got := Names(p.Readers(l, "192.168.0.1"))
		if again := Names(p.Readers(l, "192.168.0.1")); !slices.Equal(got, again) {
			t.Fatalf("%v, then %v", got, again)
		}
		first[got[0]]++
	}
	for _, name := range l.Nodes {
		if first[name] < 50 {
			t.Errorf("%s is first %d times of 400", name, first[name])
		}
	}
	down := sixNodes(t, ring.Down{Node: "n2"}, ring.Down{Node: "n3"})
	if got := Names(down.Readers(l, "10.0.0.2")); len(got) != 2 || slices.Contains(got, "n2") {
		t.Errorf("with two down: %v", got)
	}
	l.Nodes = []string{"n2", "n3"}
	if got := Names(down.Readers(l, "10.0.0.2")); len(got) != 2 || got[0] != "n2" {
		t.Errorf("with all down: %v", got)
	}
	l.Nodes, l.Segment = nil, 9
	if got, want := Names(p.Readers(l, "x")), p.View.Table.Holders(9); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("of a settled block: %v, want %v", got, want)
	}
}

// TestWriters: as many nodes as a file wants copies write, the writer's own first; those that are down, full or refused are passed over.
func TestWriters(t *testing.T) {
	p := sixNodes(t)
	for s := range uint16(64) {
		targets := p.View.Table.Targets(s)
		if got := Names(p.Writers(s, 3, "x", nil)); !slices.Equal(got, targets) {
			t.Fatalf("%v, want %v", got, targets)
		}
		own := p.View.Members[targets[2]].Host
		if got := Names(p.Writers(s, 3, own, nil)); !slices.Equal(got, []string{targets[2], targets[0], targets[1]}) {
			t.Fatalf("from %s: %v of %v", own, got, targets)
		}
		if got := Names(p.Writers(s, 2, own, nil)); !slices.Equal(got, targets[:2]) {
			t.Fatalf("two: %v of %v", got, targets)
		}
		p.Full = func(name string) bool { return name == targets[0] }
		got := Names(p.Writers(s, 3, "x", func(name string) bool { return name == targets[1] }))
		if len(got) != 3 || slices.Contains(got, targets[0]) || slices.Contains(got, targets[1]) {
			t.Fatalf("without two: %v of %v", got, targets)
		}
		p.Full = nil
	}
	if p.Copies(10) != 3 || p.Copies(2) != 2 || p.Copies(0) != 1 || p.Default() != 3 {
		t.Error(p.Copies(10), p.Copies(2), p.Copies(0), p.Default())
	}
}

// TestWanted: a block of a file of two copies stays where it is, until a node is out; others belong to their segments.
func TestWanted(t *testing.T) {
	two := &meta.Placed{LocatedBlock: meta.LocatedBlock{Segment: 5, Nodes: []string{"n0", "n3"}}, Replication: 2}
	for _, c := range []struct {
		events []ring.Event
		nodes  []string
		all    bool
	}{
		{nil, []string{"n0", "n3"}, true},
		{[]ring.Event{ring.Down{Node: "n0"}}, []string{"n3"}, false},
		{[]ring.Event{ring.Down{Node: "n0"}, ring.Out{Node: "n0"}}, nil, true},
		{[]ring.Event{ring.Drain{Node: "n3"}}, nil, true},
	} {
		p := sixNodes(t, c.events...)
		got, all := p.wanted(two)
		if c.nodes != nil && !slices.Equal(got, c.nodes) || c.nodes == nil && (len(got) != 2 || got[0] == got[1]) || all != c.all {
			t.Errorf("after %+v: %v, %v", c.events, got, all)
		}
		if c.nodes == nil {
			for _, name := range got {
				if n, _ := p.View.Table.Node(name); n.State != ring.IsUp || n.Leaving {
					t.Errorf("after %+v: %v", c.events, got)
				}
			}
		}
	}
	three := &meta.Placed{LocatedBlock: meta.LocatedBlock{Segment: 5, Nodes: []string{"n0", "n3"}}, Replication: 3}
	p := sixNodes(t)
	if got, all := p.wanted(three); !slices.Equal(got, p.View.Table.Targets(5)) || !all {
		t.Errorf("%v, %v", got, all)
	}
	for _, name := range []string{"n0", "n1", "n2", "n3", "n4", "n5"} {
		want := slices.Contains(three.Nodes, name) || slices.Contains(p.View.Table.Targets(5), name)
		if got := p.belongs(three, name); got != want {
			t.Errorf("at %s: %v", name, got)
		}
		if got := p.belongs(two, name); got != slices.Contains(two.Nodes, name) {
			t.Errorf("one of two copies at %s: %v", name, got)
		}
	}
}

// TestFullTargets: a copy that belongs to a node without room comes to the next one, as long as too few nodes have one.
func TestFullTargets(t *testing.T) {
	p := sixNodes(t)
	targets := p.View.Table.Targets(5)
	full := map[string]bool{targets[2]: true}
	p.Full = func(name string) bool { return full[name] }
	b := &meta.Placed{LocatedBlock: meta.LocatedBlock{Segment: 5, Nodes: targets[:2]}, Replication: 3}
	got, all := p.wanted(b)
	if len(got) != 4 || !all || !slices.Equal(got[:3], targets) || slices.Contains(targets, got[3]) || !p.wants(b, got[3]) {
		t.Fatalf("%v, %v of %v", got, all, targets)
	}
	instead := got[3]
	for _, kept := range [][]string{{targets[0], targets[1], instead}, {targets[2]}, targets} {
		b.Nodes = kept
		if got, _ := p.wanted(b); !slices.Equal(got, targets) {
			t.Errorf("with %v: %v", kept, got)
		}
	}
	full[instead] = true
	b.Nodes = targets[:2]
	if got, _ := p.wanted(b); slices.Contains(got, instead) || len(got) != 4 {
		t.Errorf("%v", got)
	}
}

// TestNobodyHolds: when nobody who is up has all of a segment, those to whom it belongs are asked for its blocks.
func TestNobodyHolds(t *testing.T) {
	l := meta.LocatedBlock{Block: meta.Block{ID: 1}, Segment: 9}
	targets := sixNodes(t).View.Table.Targets(9)
	lost := func(name string) ring.Event { return ring.Lost{Node: name, Segments: []uint16{9}} }
	down := ring.Down{Node: targets[0]}
	for i, c := range []struct {
		events []ring.Event
		want   []string
	}{
		{[]ring.Event{lost(targets[0])}, targets[1:]},
		{[]ring.Event{lost(targets[0]), lost(targets[1]), lost(targets[2])}, targets},
		{[]ring.Event{lost(targets[1]), lost(targets[2]), down}, targets[1:]},
	} {
		got := Names(sixNodes(t, c.events...).Readers(l, "x"))
		if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(c.want))) {
			t.Errorf("%d: %v are asked, not %v", i, got, c.want)
		}
	}
}

// TestEnough: a copy is surplus when there are as many good ones as there are to be without it.
func TestEnough(t *testing.T) {
	p := sixNodes(t)
	b := &meta.Placed{LocatedBlock: meta.LocatedBlock{Block: meta.Block{ID: 1, Stamp: 7, Size: 9}, Segment: 9}, Replication: 3}
	copies := census{}
	for i, name := range p.View.Table.Targets(9) {
		if p.enough(b, copies) {
			t.Errorf("%d are enough", i)
		}
		copies[name] = map[uint64]*wire.BlockCopy{1: {Block: 1, Stamp: 7, Length: 9, State: wire.BlockCopy_FINAL}}
	}
	if !p.enough(b, copies) {
		t.Error("three are not enough")
	}
	copies[p.View.Table.Targets(9)[1]][1].Damaged = true
	if p.enough(b, copies) {
		t.Error("a damaged one counts")
	}
}
