package meta

import (
	"slices"
	"testing"
)

// TestAppendBehindAnother: a file gets another block between the look where its last one is and the command that appends. Nothing is noted
// of the new one that was said of the old one.
func TestAppendBehindAnother(t *testing.T) {
	b := newBench(t)
	alice := alice2(b)
	id := b.open(alice, "/f").ID
	b.write(alice, id, 100, 60)
	first := b.stat("/f").Located.Last
	late := &Append{Path: "/f", Holder: "q", Machine: "m", Nodes: []string{"n1"}, Block: first.ID, Stamp: first.Stamp, Room: 100}
	b.must(alice, &Append{Path: "/f", Holder: "p", Machine: "m", NewBlock: true})
	a := b.must(alice, &AddBlock{Path: "/f", ID: id, Holder: "p", Previous: &first.Block, Copies: 1, Nodes: []string{"n8", "n9"}}).(*Allocated)
	b.says(alice, &Complete{Path: "/f", ID: id, Holder: "p", Last: &Block{a.ID, a.Stamp, 50}, Copies: 1}, true)
	b.refused(alice, late, "RetriableException", "append: lastBlock=")
	late.Block, late.Stamp, late.Nodes = a.ID, a.Stamp, nil
	b.refused(alice, late, "IOException", "append: lastBlock=")
	// The log may have one from before, which means what it has meant.
	late.Nodes = []string{"n1"}
	c, err := DecodeCommand(Command{Time: b.now, Caller: alice, Op: late, version: version1}.Encode())
	if err != nil || c.Op.(*Append).Block != 0 || c.Encode()[0] != version1 {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := Apply(b.v, c); err != nil || !slices.Equal(b.stat("/f").Located.Last.Nodes, late.Nodes) {
		t.Errorf("%v, %+v", err, b.stat("/f").Located.Last)
	}
	check(t, b.v)
}

// TestAppendBehindASmallerBlock: a last block whose copies have no room for as much as others of the file is like a full one.
func TestAppendBehindASmallerBlock(t *testing.T) {
	b := newBench(t)
	id := b.open(root, "/f").ID
	b.write(root, id, 100, 60)
	last := b.stat("/f").Located.Last
	o := &Append{Path: "/f", Holder: "h", Machine: "m", Nodes: []string{"n1"}, Block: last.ID, Stamp: last.Stamp, Room: 60}
	add := &AddBlock{Path: "/f", ID: id, Holder: "h"}
	b.must(root, &Append{Path: "/f", Holder: "h", Machine: "m", NewBlock: true})
	b.refused(root, add, "IOException", "Cannot allocate block in /f: passed 'previous' block null does not match actual last block in file")
	b.says(root, &Complete{Path: "/f", ID: id, Holder: "h"}, true)
	if r := b.must(root, o).(*Appended); r.Block != nil {
		t.Errorf("%+v", r.Block)
	}
	a := b.must(root, add).(*Allocated)
	b.says(root, &Complete{Path: "/f", ID: id, Holder: "h", Last: &Block{a.ID, a.Stamp, 30}, Copies: 1}, true)
	if got := b.layout("/f"); got != "0+100 100+60 160+30" {
		t.Error(got)
	}
	b.says(root, &Truncate{Path: "/f", Size: 160}, true)
	o.Room = 100 // other copies were made since
	if r := b.must(root, o).(*Appended); r.Block == nil || r.Block.ID != last.ID {
		t.Errorf("%+v", r.Block)
	}
	check(t, b.v)
}
