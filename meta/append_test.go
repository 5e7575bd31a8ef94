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
	late := &Append{Path: "/f", Holder: "q", Machine: "m", Nodes: []string{"n1"}, Block: first.ID, Stamp: first.Stamp}
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
