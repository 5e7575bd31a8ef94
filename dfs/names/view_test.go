package names

import (
	"fmt"
	"reflect"
	"testing"

	"headrace/quorum"
	"headrace/ring"
)

func sampleView(t testing.TB, nodes int) *View {
	t.Helper()
	v := &View{Members: map[string]Member{}, Seats: map[string]quorum.Replica{}, Index: 77, Leader: "node-1", Term: 5}
	var on []ring.Node
	for i := range nodes {
		m := Member{Name: fmt.Sprintf("node-%d", i), Number: uint32(i + 1), Storage: fmt.Sprintf("DS-%d", i), Host: "10.0.0.1",
			RPC: 8020, Data: 9866, Web: 9870, Peer: uint16(65535 - i), Rack: "/r"}
		v.Members[m.Name] = m
		if i < 3 {
			v.Seats[m.Name] = quorum.NewReplica(m.Number, 2)
		}
		on = append(on, ring.Node{Name: m.Name, Rack: m.Rack, Weight: 1})
	}
	table, err := ring.New(64, 3, on...)
	if err != nil {
		t.Fatal(err)
	}
	v.Table = table
	return v
}

// TestViewBytes: a view is what it was after it was bytes, and changed or cut bytes are refused, or
// are those of another view.
func TestViewBytes(t *testing.T) {
	for _, nodes := range []int{1, 5} {
		v := sampleView(t, nodes)
		b := v.Encode()
		got, err := DecodeView(b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Members, v.Members) || !reflect.DeepEqual(got.Seats, v.Seats) || got.Leader != v.Leader || got.Term != v.Term ||
			got.Index != v.Index || string(got.Table.Encode()) != string(v.Table.Encode()) {
			t.Errorf("%+v", got)
		}
		for i := range b {
			if _, err := DecodeView(b[:i]); err == nil {
				t.Errorf("cut to %d of %d bytes it is a view", i, len(b))
			}
		}
		if _, err := DecodeView(append(b, 0)); err == nil {
			t.Error("with a byte more it is a view")
		}
	}
}

func FuzzDecodeView(f *testing.F) {
	for _, nodes := range []int{1, 5} {
		f.Add(sampleView(f, nodes).Encode())
	}
	f.Add([]byte{version1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := DecodeView(b)
		if err == nil && string(v.Encode()) != string(b) {
			t.Errorf("%q is read, and written as %q", b, v.Encode())
		}
	})
}

// TestMerge: the newer table and the later term win, each for itself.
func TestMerge(t *testing.T) {
	v := sampleView(t, 3)
	next, _, err := v.Table.Apply(ring.Down{Node: "node-2"})
	if err != nil {
		t.Fatal(err)
	}
	newer := &View{Table: next, Members: v.Members, Leader: "node-2", Term: 4}
	if m := v.Merge(newer); m.Table != next || m.Leader != "node-1" || m.Term != 5 {
		t.Errorf("%+v", m)
	}
	if m := newer.Merge(v); m.Table != next || m.Leader != "node-1" || m.Term != 5 {
		t.Errorf("%+v", m)
	}
	if v.Merge(v) != v || v.Merge(&View{Table: v.Table, Index: 76, Term: 4}) != v {
		t.Error("something old is taken for new")
	}
	moved := *v
	moved.Index, moved.Members = 78, map[string]Member{}
	if m := v.Merge(&moved); len(m.Members) != 0 {
		t.Error("new addresses are not taken over")
	}
}
