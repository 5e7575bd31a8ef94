package ring

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata anew")

// TestHistory holds one life of a ring: a table's bytes and what is moved must be the same
// for ever, or nodes of different versions have different tables.
func TestHistory(t *testing.T) {
	table, err := New(16, 3, racked(4, 2)...)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	show := func(what string, moves []Move) {
		fmt.Fprintf(&b, "%s\n%v", what, table.Picture())
		for s := range uint16(table.Segments()) {
			fmt.Fprintf(&b, " %d:%s", s, strings.Join(table.Holders(s), ","))
		}
		fmt.Fprintf(&b, "\n%x\n", table.Encode())
		for _, m := range moves {
			if m.From == "" {
				fmt.Fprintf(&b, "\t%s forgets %d\n", m.Node, m.Segment)
			} else {
				fmt.Fprintf(&b, "\t%s copies %d from %s\n", m.Node, m.Segment, m.From)
			}
		}
		b.WriteString("\n")
	}
	show("new", nil)
	do := func(e Event) {
		var moves []Move
		table, moves = apply(t, table, e)
		show(fmt.Sprintf("%T %v", e, e), moves)
	}
	confirm := func(node string) {
		var s []uint16
		for _, m := range table.Reconcile(node, nil).Fetch {
			s = append(s, m.Segment)
		}
		do(Confirm{node, table.Epoch(), slices.Sorted(slices.Values(s))})
	}
	do(Join{Node: Node{Name: "new", Rack: "r0", Weight: 2}})
	for _, n := range table.Nodes() {
		confirm(n.Name)
	}
	do(Down{"n1"})
	do(Out{"n1"})
	confirm("n2")
	do(Back{"n1", []uint16{0, 1, 2, 3, 4, 5, 6, 7, 8}})
	do(Drain{"n0"})
	for _, n := range table.Nodes() {
		confirm(n.Name)
	}
	do(Remove{"n0"})
	do(Level{})
	do(Rack{"n3", "r2"})
	for _, n := range table.Nodes() {
		confirm(n.Name)
	}
	golden := filepath.Join("testdata", "history.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("history has changed (-update writes it anew, and then nodes of two versions disagree):\n%s", got)
	}
}

// TestThreeConsecutive tries the paper's claim (III.D): what is stored can be read unless
// three consecutive nodes fail at once.
func TestThreeConsecutive(t *testing.T) {
	for _, n := range []int{4, 5, 8, 13} {
		table, err := New(4*n, 3, names(n)...)
		if err != nil {
			t.Fatal(err)
		}
		ring := table.Nodes()
		lost := 0
		for dead := range 1 << n {
			var which []int
			failed := table
			for i := range n {
				if dead>>i&1 == 1 {
					which = append(which, i)
				}
			}
			if len(which) > 3 {
				continue
			}
			for _, i := range which {
				failed, _ = apply(t, failed, Down{ring[i].Name})
			}
			consecutive := len(which) == 3 && slices.ContainsFunc(which, func(i int) bool {
				return slices.Contains(which, (i+1)%n) && slices.Contains(which, (i+2)%n)
			})
			missing := failed.Missing()
			if consecutive != (len(missing) > 0) {
				t.Errorf("%d nodes, %v fail: %d segments are missing", n, which, len(missing))
			}
			if !consecutive {
				continue
			}
			lost++
			// They are those of the middle one, and are back with any of the three.
			for _, s := range missing {
				if !slices.ContainsFunc(which, func(i int) bool { return ring[i].Name == failed.Owner(s) }) || len(failed.Holders(s)) != 3 {
					t.Errorf("segment %d of %s is missing, and %v failed", s, failed.Owner(s), which)
				}
			}
			every := make([]uint16, table.Segments())
			for s := range every {
				every[s] = uint16(s)
			}
			for _, i := range which {
				if back, _ := apply(t, failed, Back{ring[i].Name, every}); len(back.Missing()) > 0 {
					t.Errorf("%d nodes, %v fail, %d is back: %v are missing", n, which, i, back.Missing())
				}
			}
		}
		if want := n; lost != want {
			t.Errorf("%d nodes: %d threes lose data, want %d", n, lost, want)
		}
		// With time to copy between failures, all but one node may go.
		for _, node := range ring[1:] {
			table, _ = apply(t, table, Down{node.Name}, Out{node.Name})
			for _, m := range table.Moves() {
				table, _ = apply(t, table, Confirm{m.Node, table.Epoch(), []uint16{m.Segment}})
			}
			if missing := table.Missing(); len(missing) > 0 {
				t.Fatalf("%d nodes, one after the other, %s: %v are missing", n, node.Name, missing)
			}
		}
	}
}
