package dfs

import (
	"context"
	"errors"
	"testing"

	"headrace/meta"
	"headrace/ring"
)

// TestViewOfOne: a node alone leads, admits others once, changes the ring, and stops answering when another
// one is said to lead.
func TestViewOfOne(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir(), Self: Member{Host: "127.0.0.1", Peer: 1}})
	defer closeNode(t, n)
	v := n.View()
	if m := v.Members[n.Identity.Node]; !n.Leads() || m.Number == 0 || m.Peer != 1 || m.Storage != n.Identity.Storage {
		t.Fatalf("%+v", v)
	}
	changed := n.Changed()
	for i := range uint16(3) {
		v, number, err := n.Admit(context.Background(), Member{Name: "other", Host: "127.0.0.2", Peer: i / 2})
		if err != nil || number != 2 || v.Members["other"].Peer != i/2 || len(v.Table.Nodes()) != 2 {
			t.Fatalf("%+v, %d, %v", v, number, err)
		}
	}
	<-changed
	v, err := n.ChangeRing(context.Background(), ring.Down{Node: "other"})
	if other, _ := v.Table.Node("other"); err != nil || other.State != ring.IsDown {
		t.Fatalf("%+v, %v", v, err)
	}
	n.Learn(&View{Table: v.Table, Leader: "other", Term: v.Term + 1})
	_, err = n.do(&meta.Mkdirs{Path: "/d"})
	for _, err := range []error{err, n.Query(n.root(), func(meta.Query) error { return nil })} {
		if e, ok := errors.AsType[*NotLeader](err); !ok || e.Leader != "other" {
			t.Errorf("%v", err)
		}
	}
}
