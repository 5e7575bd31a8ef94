package ring

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestRefused: what must not be done is said, and changes nothing.
func TestRefused(t *testing.T) {
	table, err := New(8, 2, names(3)...)
	if err != nil {
		t.Fatal(err)
	}
	leaving, _ := apply(t, table, Drain{"n0"})
	last, _ := New(8, 2, names(1)...)
	lastDown, _ := apply(t, last, Down{"n0"})
	for _, c := range []struct {
		on   *Table
		e    Event
		want error
	}{
		{table, Join{Node: Node{Name: "n0", Weight: 1}}, ErrState},
		{table, Join{Node: Node{Name: "y"}}, ErrInvalid},
		{table, Join{Node: Node{Weight: 1}}, ErrInvalid},
		{table, Down{"y"}, ErrUnknown},
		{table, Out{"n0"}, ErrState},
		{table, Remove{"n0"}, ErrState},
		{leaving, Remove{"n0"}, ErrState},
		{last, Drain{"n0"}, ErrState},
		{lastDown, Out{"n0"}, ErrState},
		{lastDown, Fill{"n0", 0}, ErrState},
		{table, Weigh{"n0", 0}, ErrInvalid},
		{table, Rack{"y", "r1"}, ErrUnknown},
		{table, Rack{"n0", strings.Repeat("r", 256)}, ErrInvalid},
		{table, Lost{"n0", []uint16{8}}, ErrInvalid},
		{table, Confirm{"n0", 1, []uint16{8}}, ErrInvalid},
		{table, Abandon{[]uint16{8}}, ErrInvalid},
	} {
		if _, _, err := c.on.Apply(c.e); !errors.Is(err, c.want) {
			t.Errorf("%#v: %v, want %v", c.e, err, c.want)
		}
	}
	for _, c := range []struct{ segments, replicas, nodes int }{{0, 1, 1}, {1 << 17, 1, 1}, {1, 0, 1}, {1, 17, 1}, {1, 1, 0}} {
		if _, err := New(c.segments, c.replicas, names(c.nodes)...); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := New(1, 1, Node{Name: "a", Weight: 1}, Node{Name: "a", Weight: 1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("two nodes of a name: %v", err)
	}
}

// TestRouting: who is asked, who is written to, and who is beside whom.
func TestRouting(t *testing.T) {
	table, err := New(50, 3, names(5)...)
	if err != nil {
		t.Fatal(err)
	}
	s := table.Segment("some key")
	at := table.Targets(s)
	before, after := table.Neighbours(at[0])
	if !slices.Equal(at, []string{table.Owner(s), after, before}) {
		t.Errorf("segment %d belongs to %v, and %s is between %s and %s", s, at, at[0], before, after)
	}
	down, _ := apply(t, table, Down{at[1]})
	if got := down.ReadFrom(s); !slices.Equal(got, []string{at[0], at[2]}) {
		t.Errorf("read from %v of %v", got, at)
	}
	full := func(name string) bool { return name == at[0] }
	to := down.WriteTo(s, full)
	if len(to) != 3 || to[0] != at[2] || slices.Contains(to, at[0]) || slices.Contains(to, at[1]) {
		t.Errorf("write to %v of %v, where the first is full and the second down", to, at)
	}
	if got := table.WriteTo(s, nil); !slices.Equal(got, at) {
		t.Errorf("write to %v, want %v", got, at)
	}
	counts := map[uint16]int{}
	for i := range 5000 {
		counts[table.Segment(fmt.Sprint("/user/alice/part-", i))]++
	}
	for s := range uint16(50) {
		if counts[s] < 60 || counts[s] > 150 {
			t.Errorf("segment %d has %d keys of 100", s, counts[s])
		}
	}
	if b, a := mustNew(t, names(1)).Neighbours("n0"); b != "n0" || a != "n0" {
		t.Errorf("one node is between %q and %q", b, a)
	}
	if b, a := mustNew(t, names(2)).Neighbours("n0"); b != "n1" || a != "n1" {
		t.Errorf("of two nodes one is between %q and %q", b, a)
	}
}

func mustNew(t *testing.T, nodes []Node) *Table {
	table, err := New(4, 2, nodes...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// confirmAll has every copy made that can be.
func confirmAll(t testing.TB, table *Table) *Table {
	t.Helper()
	for moves := table.Moves(); len(moves) > 0; moves = table.Moves() {
		for _, n := range table.Nodes() {
			c := Confirm{Node: n.Name, Epoch: table.Epoch()}
			for _, m := range moves {
				if m.Node == n.Name {
					c.Segments = append(c.Segments, m.Segment)
				}
			}
			table, _ = apply(t, table, c)
		}
	}
	return table
}

// uneven is how many segments the fullest member owns more than the emptiest.
func uneven(table *Table) int {
	owned := table.owned()
	most, least := 0, table.Segments()
	for _, i := range table.members {
		most, least = max(most, owned[i]), min(least, owned[i])
	}
	return most - least
}

// TestSteps: large changes can be made in small steps, with the same end.
func TestSteps(t *testing.T) {
	for _, racks := range []int{1, 2, 4} {
		table := mustHave(t, 256, racked(8, racks))
		table, _ = apply(t, table, Join{Node{Name: "x", Rack: "r0", Weight: 1}, 1})
		for steps := 0; steps < 30 && uneven(table) > 1; steps++ {
			var moves []Move
			table, moves = apply(t, confirmAll(t, table), Fill{"x", 1})
			if len(moves) > 3 {
				t.Fatalf("a step of one segment makes %d copies", len(moves))
			}
		}
		if uneven(table) > 1 {
			t.Errorf("x never has its share:\n%v", table.Picture())
		}
		table, _ = apply(t, table, Down{"n3"}, Out{"n3"})
		if table = confirmAll(t, table); uneven(table) < 10 {
			t.Errorf("a take-over moves what need not be moved:\n%v", table.Picture())
		}
		for steps := 0; uneven(table) > 1; steps++ {
			if steps > 256/5 {
				t.Fatalf("it never comes out even:\n%v", table.Picture())
			}
			table, _ = apply(t, table, Level{5})
			table = confirmAll(t, table)
		}
		if _, _, err := table.Apply(Remove{"n3"}); err != nil {
			t.Errorf("it is not needed any more: %v", err)
		}
	}
}

// TestReturn: who is out and comes back with all it had costs nothing, as long as nobody
// has copied anything, and afterwards no more than it lacks.
func TestReturn(t *testing.T) {
	for _, racks := range []int{1, 2, 4} {
		table := mustHave(t, 256, racked(8, racks))
		every := table.arcs
		out, _ := apply(t, table, Down{"n3"}, Out{"n3"})
		if copies := len(out.Moves()); copies > 3*256/8*3/2 {
			t.Errorf("%d racks: to go out costs %d copies of the 96 it had", racks, copies)
		}
		back, _ := apply(t, out, Back{"n3", every})
		if !reflect.DeepEqual(back.layout(), table.layout()) || len(back.Moves()) > 0 {
			t.Errorf("%d racks: back at once, %d copies:\n%v", racks, len(back.Moves()), back.Picture())
		}
		back, _ = apply(t, confirmAll(t, out), Back{"n3", every})
		if copies := len(back.Moves()); uneven(back) > 1 || copies > 5*256/8*3/2 {
			t.Errorf("%d racks: back late, %d copies:\n%v", racks, copies, back.Picture())
		}
	}
}

// TestMovedByJoin: a node that joins moves about what it gets and what its neighbours
// exchange for it, whatever the racks.
func TestMovedByJoin(t *testing.T) {
	for _, racks := range []int{1, 2, 3, 4, 8} {
		for _, n := range []int{8, 24, 96} {
			table := mustHave(t, 1<<12, racked(n, racks))
			_, moves := apply(t, table, Join{Node: Node{Name: "x", Rack: "r0", Weight: 1}})
			copies := 0
			for _, m := range moves {
				if m.From != "" {
					copies++
				}
			}
			parts := float64(copies) * float64(n+1) / (1 << 12)
			t.Logf("%d racks, %d nodes: %.2f parts", racks, n, parts)
			if parts > 5 {
				t.Errorf("%d racks, %d nodes: %.2f parts are copied", racks, n, parts)
			}
		}
	}
}

func mustHave(t *testing.T, segments int, nodes []Node) *Table {
	t.Helper()
	table, err := New(segments, 3, nodes...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func BenchmarkJoin(b *testing.B) {
	for _, n := range []int{5, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			table, err := New(1<<12, 3, racked(n, 8)...)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				apply(b, table, Join{Node: Node{Name: "x", Rack: "r0", Weight: 1}})
			}
		})
	}
}

func BenchmarkConfirm(b *testing.B) {
	table, err := New(1<<12, 3, names(100)...)
	if err != nil {
		b.Fatal(err)
	}
	table, moves := apply(b, table, Join{Node: Node{Name: "x", Weight: 1}})
	for b.Loop() {
		apply(b, table, Confirm{moves[0].Node, table.Epoch(), []uint16{moves[0].Segment}})
	}
}

func BenchmarkDecode(b *testing.B) {
	table, err := New(1<<12, 3, racked(100, 8)...)
	if err != nil {
		b.Fatal(err)
	}
	bytes := table.Encode()
	for b.Loop() {
		if _, err := Decode(bytes); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(bytes)), "bytes")
}
