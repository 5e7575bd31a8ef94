package meta

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPlaced: what is told of blocks by number, segment and file is what the files have, whatever the order in which it is asked for, and in parts.
func TestPlaced(t *testing.T) {
	b := newBench(t)
	r := rand.New(rand.NewPCG(1, 2))
	want := map[uint64]Placed{}
	bySegment := map[uint16][]uint64{}
	for i := range 40 {
		path := fmt.Sprintf("/d%d/f%d", i%3, i)
		f := b.open(root, path)
		var last *Block
		for range r.IntN(30) {
			a := b.must(root, &AddBlock{Path: path, ID: f.ID, Holder: "root", Previous: last, Copies: 1, Segment: uint16(r.IntN(80)), Nodes: []string{"n1", "n2"}}).(*Allocated)
			last = &Block{a.ID, a.Stamp, 1 + r.Int64N(100)}
			l := a.LocatedBlock
			l.Size, l.Offset = last.Size, -1
			want[a.ID] = Placed{l, f.ID, 100, 3, true}
			bySegment[a.Segment] = append(bySegment[a.Segment], a.ID)
		}
		if i == 39 && last != nil { // it stays open
			p := want[last.ID]
			p.Complete, p.Size = false, 0
			want[last.ID] = p
			bySegment[p.Segment] = slices.DeleteFunc(bySegment[p.Segment], func(id uint64) bool { return id == last.ID })
			continue
		}
		b.says(root, &Complete{ID: f.ID, Path: path, Holder: "root", Last: last, Copies: 1}, true)
	}
	equal := func(got, want Placed) bool { return fmt.Sprint(got) == fmt.Sprint(want) }
	settled := 0
	for id := range want { // some are settled
		if p := want[id]; r.IntN(2) == 0 && p.Complete {
			b.must(root, &Relocate{[]Relocation{{id, p.Stamp, nil}, {id, p.Stamp + 1, []string{"wrong"}}}})
			p.Nodes = nil
			want[id] = p
			settled++
		}
	}
	q := b.as(root)
	var ids []uint64
	for p := range q.All(0) {
		if ids = append(ids, p.ID); !equal(p, want[p.ID]) {
			t.Fatalf("%+v, want %+v", p, want[p.ID])
		}
	}
	if !slices.IsSorted(ids) || len(ids) != len(want) {
		t.Errorf("%d blocks, want %d in order", len(ids), len(want))
	}
	for id, p := range want {
		if got := q.Placed(id); got == nil || !equal(*got, p) {
			t.Fatalf("%+v, want %+v", got, p)
		}
	}
	if got := q.Placed(7); got != nil {
		t.Errorf("%+v", got)
	}
	for _, n := range []int{1, 3, scannedApart, scannedApart + 1, 80} {
		var segments []uint16
		for _, s := range r.Perm(80)[:n] {
			segments = append(segments, uint16(s))
		}
		var expected, got []uint64
		sorted := slices.Sorted(slices.Values(segments))
		for _, s := range sorted {
			expected = append(expected, slices.Sorted(slices.Values(bySegment[s]))...)
		}
		at, from := uint16(0), uint64(0)
		for more := true; more; { // in parts of seven
			more = false
			part := 0
			for p := range q.InSegments(segments, at, from) {
				if part++; part > 7 {
					at, from, more = p.Segment, p.ID, true
					break
				}
				if !equal(p, want[p.ID]) {
					t.Fatalf("%+v, want %+v", p, want[p.ID])
				}
				got = append(got, p.ID)
			}
		}
		if !slices.Equal(got, expected) {
			t.Errorf("%d segments: %v, want %v", n, got, expected)
		}
	}
	unsettled, rounds := 0, 0
	for from := uint64(0); ; rounds++ {
		blocks, next := q.Unsettled(from, 7, 0)
		for _, p := range blocks {
			if !equal(p, want[p.ID]) || len(p.Nodes) == 0 || !p.Complete {
				t.Fatalf("%+v, want %+v", p, want[p.ID])
			}
		}
		unsettled += len(blocks)
		if from = next; from == 0 {
			break
		}
	}
	if open := len(want) - settled - unsettled; open != 1 || rounds < 5 {
		t.Errorf("%d blocks, %d settled, %d not, in %d rounds", len(want), settled, unsettled, rounds)
	}
	if next := q.Next("/d0/f39", 0, "root"); next == nil || next.Replication != 3 || next.BlockSize != 100 {
		t.Errorf("%+v", next)
	}
	if next := q.Next("/d0/f38", 0, "root"); next != nil {
		t.Errorf("a closed file gets a block: %+v", next)
	}
}

// counting counts the records that are read.
type counting struct {
	*Memory
	n int
}

func (c *counting) Get(key []byte) []byte { c.n++; return c.Memory.Get(key) }

// TestLargeFiles: to find a block, or to note where it is, takes no look at all of its file, also when that has come together from several.
func TestLargeFiles(t *testing.T) {
	b := newBench(t)
	const files, blocks = 4, 300
	for _, path := range []string{"/f0", "/f1", "/f2", "/f3"} {
		id := b.open(root, path).ID
		var last *Block
		for i := range blocks {
			a := b.must(root, &AddBlock{Path: path, ID: id, Holder: "root", Previous: last, Copies: 1, Segment: uint16(i % 2), Nodes: []string{"n"}}).(*Allocated)
			last = &Block{a.ID, a.Stamp, 100}
		}
		b.says(root, &Complete{ID: id, Path: path, Holder: "root", Last: last, Copies: 1}, true)
	}
	b.must(root, &Concat{Target: "/f3", Sources: []string{"/f2", "/f1"}})
	b.must(root, &Truncate{Path: "/f3", Size: 100*3*blocks - 500, Holder: "root"})
	check(t, b.v)
	v := &counting{Memory: b.v}
	q := Query{Reader: v, Caller: root, Time: b.now}
	listed := 0
	for range q.InSegments([]uint16{0, 1}, 0, 0) {
		listed++
	}
	all, _ := q.Unsettled(0, files, 3)
	if len(all) != listed || listed != files*blocks-5 {
		t.Errorf("%d listed, %d unsettled", listed, len(all))
	}
	v.n = 0
	for range q.InSegments([]uint16{0, 1}, 0, 0) {
	}
	if v.n > 10*listed {
		t.Errorf("%d records were read to list %d blocks", v.n, listed)
	}
	move := &Relocate{}
	for _, p := range all {
		move.Blocks = append(move.Blocks, Relocation{p.ID, p.Stamp, []string{"m"}})
	}
	v.n = 0
	if _, err := Apply(v, Command{Time: b.now, Caller: root, Op: move}); err != nil || v.n > 10*len(all) {
		t.Errorf("%d records were read to move %d blocks: %v", v.n, len(all), err)
	}
	for p := range q.All(0) {
		if !slices.Equal(p.Nodes, []string{"m"}) {
			t.Fatalf("%+v", p)
		}
	}
}

// TestPlacesOfBefore: of blocks that were added by the rules of before it is not kept which they are, and they are found.
func TestPlacesOfBefore(t *testing.T) {
	b := newBench(t)
	id := b.open(root, "/f").ID
	var last *Block
	for range 2 * tailLength {
		r, err := Apply(b.v, Command{Time: b.now, Caller: root, version: version2, Op: &AddBlock{Path: "/f", ID: id, Holder: "root", Previous: last, Copies: 1, Nodes: []string{"n"}}})
		if err != nil {
			t.Fatal(err)
		}
		a := r.(*Allocated)
		last = &Block{a.ID, a.Stamp, 100}
	}
	b.says(root, &Complete{ID: id, Path: "/f", Holder: "root", Last: last, Copies: 1}, true)
	all, _ := b.as(root).Unsettled(0, 9, 0)
	for _, p := range all {
		b.must(root, &Relocate{[]Relocation{{p.ID, p.Stamp, []string{"m"}}}})
	}
	listed := 0
	for p := range b.as(root).InSegments([]uint16{0}, 0, 0) {
		if listed++; !slices.Equal(p.Nodes, []string{"m"}) {
			t.Errorf("%+v", p)
		}
	}
	if listed != 2*tailLength {
		t.Errorf("%d blocks", listed)
	}
	check(t, b.v)
}
