package ring

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// layout says for each segment which nodes have it, the owner first.
type layout [][]string

func (t *Table) layout() layout {
	l := make(layout, len(t.segments))
	for s := range l {
		l[s] = t.Targets(uint16(s))
	}
	return l
}

// quality is what a placement is like.
type quality struct {
	owns, holds       float64 // the most of a node for what is its part
	sets              int     // of nodes that have all copies of something
	fatal             float64 // percent of threes of nodes whose loss at once loses data
	join, out         float64 // percent of all copies that are made when a node joins, or is out
	sources, receiver int     // nodes that give and take when a node is out
}

func names(n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{Name: fmt.Sprintf("n%d", i), Weight: 1}
	}
	return nodes
}

func measure(l, joined, out layout, n int, gone string) quality {
	owns, holds, sets := map[string]float64{}, map[string]float64{}, map[string]bool{}
	copies := 0
	for _, at := range l {
		owns[at[0]]++
		for _, node := range at {
			holds[node]++
			copies++
		}
		sorted := slices.Sorted(slices.Values(at))
		sets[strings.Join(sorted, " ")] = true
	}
	most := func(m map[string]float64) float64 { return slices.Max(slices.Collect(maps.Values(m))) }
	q := quality{owns: most(owns) / float64(len(l)) * float64(n), holds: most(holds) / float64(copies) * float64(n), sets: len(sets)}
	q.fatal = 100 * float64(q.sets) / (float64(n) * float64(n-1) * float64(n-2) / 6)
	made := func(to layout) (count int, from, by map[string]bool) {
		from, by = map[string]bool{}, map[string]bool{}
		for s := range l {
			for _, node := range to[s] {
				if !slices.Contains(l[s], node) {
					count++
					by[node] = true
					for _, source := range l[s] {
						from[source] = source != gone
					}
				}
			}
		}
		return count, from, by
	}
	count, _, _ := made(joined)
	q.join = 100 * float64(count) / float64(copies)
	count, from, by := made(out)
	delete(from, gone)
	q.out = 100 * float64(count) / float64(copies)
	q.sources, q.receiver = len(from), len(by)
	return q
}

// points is the ring of the textbooks: each node has some points, and a segment belongs to
// the node of the next point and to the next nodes after it.
func points(nodes []Node, each, segments int) layout {
	type point struct {
		at   uint64
		node string
	}
	var all []point
	for _, n := range nodes {
		for k := range each {
			all = append(all, point{hash(fmt.Sprint(n.Name, "/", k)), n.Name})
		}
	}
	slices.SortFunc(all, func(a, b point) int {
		if a.at < b.at {
			return -1
		}
		return 1
	})
	l := make(layout, segments)
	for s := range l {
		k, _ := slices.BinarySearchFunc(all, uint64(s)*(1<<63/uint64(segments)*2), func(p point, key uint64) int {
			if p.at < key {
				return -1
			}
			return 1
		})
		for d := 0; len(l[s]) < 3; d++ {
			if n := all[(k+d)%len(all)].node; !slices.Contains(l[s], n) {
				l[s] = append(l[s], n)
			}
		}
	}
	return l
}

// scattered puts the copies of a segment on the nodes with the highest hashes.
func scattered(nodes []Node, segments int) layout {
	l := make(layout, segments)
	for s := range l {
		best := make([]uint64, 3)
		l[s] = make([]string, 3)
		for _, n := range nodes {
			h := mix(hash(n.Name) + uint64(s)*golden)
			for k := range best {
				if h > best[k] {
					best, l[s] = slices.Insert(best, k, h)[:3], slices.Insert(l[s], k, n.Name)[:3]
					break
				}
			}
		}
	}
	return l
}

func without(nodes []Node, i int) []Node { return slices.Delete(slices.Clone(nodes), i, i+1) }

func apply(t testing.TB, table *Table, events ...Event) (*Table, []Move) {
	t.Helper()
	var moves []Move
	for _, e := range events {
		var more func() []Move
		var err error
		if table, more, err = table.Apply(e); err != nil {
			t.Fatalf("%#v: %v", e, err)
		}
		moves = append(moves, more()...)
	}
	return table, moves
}

// TestPlacement prints and holds the table in the package comment:
//
//	go test ./ring -run TestPlacement -v
func TestPlacement(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	row := func(n int, name string, q quality) {
		line := fmt.Sprintf("%4d  %-20s %5.2f  %5.2f  %6d  %8.4f  %5.2f  %5.2f  %4d %4d", n, name, q.owns, q.holds, q.sets, q.fatal, q.join, q.out, q.sources, q.receiver)
		t.Log(line)
		if !strings.Contains(string(doc), strings.TrimSpace(line)) {
			t.Errorf("doc.go does not have: %s", line)
		}
	}
	const segments, fine = 1 << 12, 1 << 16
	for _, n := range []int{5, 20, 100, 1000} {
		nodes, more := names(n), names(n+1)
		out := n / 2
		gone := nodes[out].Name
		row(n, "1 point", measure(points(nodes, 1, fine), points(more, 1, fine), points(without(nodes, out), 1, fine), n, gone))
		row(n, "64 points", measure(points(nodes, 64, fine), points(more, 64, fine), points(without(nodes, out), 64, fine), n, gone))
		row(n, fmt.Sprintf("scattered, %d", segments), measure(scattered(nodes, segments), scattered(more, segments), scattered(without(nodes, out), segments), n, gone))
		sizes := []int{segments}
		if n == 1000 {
			sizes = append(sizes, 1<<16)
		}
		for _, size := range sizes {
			table, err := New(size, 3, nodes...)
			if err != nil {
				t.Fatal(err)
			}
			joined, _ := apply(t, table, Join{Node: more[n]})
			left, _ := apply(t, table, Down{gone}, Out{gone})
			q := measure(table.layout(), joined.layout(), left.layout(), n, gone)
			row(n, fmt.Sprintf("neighbours, %d", size), q)
			if n < 1000 && q.owns > 1.03 || q.sets > n || q.join > 100*5/3.0/float64(n+1)*1.05+0.1 || q.out > 100/float64(n)*1.05+0.1 {
				t.Errorf("worse than was promised: %+v", q)
			}
		}
	}
}

// TestGrown: a ring to which nodes came one by one, from whatever racks, is like one that
// was made at once.
func TestGrown(t *testing.T) {
	for racks := range 8 {
		table, err := New(64, 3, racked(8*racks+8, racks+1)...)
		if err != nil {
			t.Fatal(err)
		}
		for i, at := range table.targets {
			for _, j := range at {
				if d := (int(j) - i + len(table.targets)) % len(table.targets); d > 1 && d < len(table.targets)-1 {
					t.Errorf("%d racks: %d is no neighbour of %d", racks+1, j, i)
				}
			}
		}
	}
	for _, racks := range []int{1, 2, 3, 8} {
		for _, byRack := range []bool{false, true} {
			table, _ := New(1024, 3, Node{Name: "n0", Rack: "r0", Weight: 1})
			for i := 1; i < 24; i++ {
				rack := i % racks
				if byRack {
					rack = i * racks / 24
				}
				table, _ = apply(t, table, Join{Node: Node{Name: fmt.Sprintf("n%d", i), Rack: fmt.Sprintf("r%d", rack), Weight: 1}})
			}
			p := table.Picture()
			most, least, sets := 0, 1024, map[string]bool{}
			holds := map[string]int{}
			for s := range table.segments {
				at := table.Targets(uint16(s))
				sets[fmt.Sprint(slices.Sorted(slices.Values(at)))] = true
				for _, n := range at {
					holds[n]++
				}
			}
			for _, n := range p.Nodes {
				most, least = max(most, n.Owns), min(least, n.Owns)
			}
			t.Logf("%d racks, joined by rack %v: owns %d to %d, holds at most %.2f of the mean, %d copysets", racks, byRack, least, most, float64(slices.Max(slices.Collect(maps.Values(holds))))/128, len(sets))
			if most-least > 1 || len(sets) > 24 || slices.Max(slices.Collect(maps.Values(holds))) > 128*3/2 {
				t.Errorf("not even:\n%v", p)
			}
		}
	}
}

// TestSpread: the blocks of a file go evenly to the owners, also on a ring that has grown.
func TestSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		nodes, blocks int
		most          float64
	}{{5, 8, 1.30}, {20, 40, 1.55}, {20, 800, 1.06}} {
		table, _ := New(4096, 3, names(c.nodes)[:2]...)
		for _, n := range names(c.nodes)[2:] {
			table, _ = apply(t, table, Join{Node: n})
		}
		worst, independent := 0.0, 0.0
		for range 2000 {
			file := r.Uint64()
			golden, random := map[string]int{}, map[string]int{}
			for b := range c.blocks {
				golden[table.Owner(table.Place(file, b))]++
				random[table.Owner(uint16(r.IntN(4096)))]++
			}
			part := float64(c.blocks) / float64(c.nodes) * 2000
			worst += float64(slices.Max(slices.Collect(maps.Values(golden)))) / part
			independent += float64(slices.Max(slices.Collect(maps.Values(random)))) / part
		}
		t.Logf("%d nodes, %d blocks: the largest part is %.2f of the mean; with independent hashes %.2f", c.nodes, c.blocks, worst, independent)
		if worst > c.most || worst >= independent {
			t.Errorf("%d nodes, %d blocks: %.2f of the mean", c.nodes, c.blocks, worst)
		}
	}
}

// TestWeights: nodes own by their weights, and hold nearly so because like ones stand
// together, whether they came at once or one by one.
func TestWeights(t *testing.T) {
	for _, racks := range []int{1, 4} {
		nodes := racked(20, racks)
		for i := range nodes {
			nodes[i].Weight = uint32(1 + 3*(i/4%2))
		}
		grown, _ := New(4096, 3, nodes[0])
		for _, n := range nodes[1:] {
			grown, _ = apply(t, grown, Join{Node: n})
		}
		made, err := New(4096, 3, nodes...)
		if err != nil {
			t.Fatal(err)
		}
		for what, table := range map[string]*Table{"made at once": made, "grown": grown} {
			weights, owns, holds := 0.0, 0.0, 0.0
			held := map[string]float64{}
			for s := range uint16(4096) {
				for _, n := range table.Targets(s) {
					held[n]++
				}
			}
			p := table.Picture()
			for _, n := range p.Nodes {
				weights += float64(n.Weight)
			}
			for _, n := range p.Nodes {
				part := float64(n.Weight) / weights * 4096
				owns, holds = max(owns, float64(n.Owns)/part), max(holds, held[n.Node]/part/3)
			}
			t.Logf("%d racks, weights 1 and 4, %s: a node owns at most %.2f of its part, and holds %.2f", racks, what, owns, holds)
			if owns > 1.02 || holds > 2.05 {
				t.Errorf("not by weight:\n%v", p)
			}
		}
	}
}

// TestRack: a node that stands in another rack has copies put by that one. Only what it has or is to have is moved, there are never fewer copies than before, and the room
// taken meanwhile is that of the copies that are made.
func TestRack(t *testing.T) {
	for _, c := range []struct {
		nodes, racks int
		to           string
	}{{3, 1, "another"}, {4, 2, "another"}, {6, 2, "r0"}, {6, 3, "r0"}, {9, 3, "another"}, {9, 3, "r0"}, {20, 4, "r0"}, {20, 4, "r2"}} {
		table, err := New(512, 3, racked(c.nodes, c.racks)...)
		if err != nil {
			t.Fatal(err)
		}
		was := table
		var moves []Move
		table, moves = apply(t, table, Rack{"n1", c.to})
		if n, _ := table.Node("n1"); n.Rack != c.to {
			t.Fatalf("%+v: %+v", c, n)
		}
		copies := 0
		for _, m := range moves {
			if m.From != "" {
				copies++
			}
			if !slices.Contains(was.Targets(m.Segment), "n1") && !slices.Contains(table.Targets(m.Segment), "n1") {
				t.Fatalf("%+v: %+v is moved from %v to %v", c, m, was.Targets(m.Segment), table.Targets(m.Segment))
			}
		}
		total := func(of *Table) (n int) {
			for s := range uint16(of.Segments()) {
				if live := len(of.ReadFrom(s)); live < 3 {
					t.Fatalf("%+v: %d copies of segment %d", c, live, s)
				}
				n += len(of.Holders(s))
			}
			return n
		}
		before := total(table)
		for _, m := range table.Moves() {
			table, _ = apply(t, table, Confirm{m.Node, table.Epoch(), []uint16{m.Segment}})
			if now := total(table); now > before {
				t.Errorf("%+v: there are %d copies of segments, and were %d", c, now, before)
			}
		}
		for s := range uint16(table.Segments()) {
			if !table.Settled(s) || !slices.Equal(table.Targets(s), wantTargets(table, table.Owner(s))) {
				t.Fatalf("%+v: segment %d is at %v, and is to be at %v", c, s, table.Holders(s), table.Targets(s))
			}
		}
		t.Logf("%+v: %d of %d copies are made", c, copies, before)
		if same, moves := apply(t, table, Rack{"n1", c.to}); same != table || len(moves) > 0 {
			t.Errorf("%+v: said again it changes something", c)
		}
	}
}
