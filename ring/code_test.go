package ring

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// encoded are tables of all kinds.
func encoded(t testing.TB) [][]byte {
	small, err := New(5, 2, racked(3, 2)...)
	if err != nil {
		t.Fatal(err)
	}
	joined, _ := apply(t, small, Join{Node: Node{Name: "four", Rack: "r1", Weight: 7}})
	half, _ := apply(t, joined, Down{"n1"}, Confirm{"four", joined.Epoch(), []uint16{0, 1, 2}}, Drain{"n0"}, Out{"n1"})
	one, _ := New(1, 1, Node{Name: "a", Weight: 1})
	lost, _ := apply(t, one, Lost{"a", []uint16{0}})
	return [][]byte{small.Encode(), joined.Encode(), half.Encode(), one.Encode(), lost.Encode()}
}

// TestDecodeRefuses tries what is nearly a table: every byte changed, cut off or added.
func TestDecodeRefuses(t *testing.T) {
	for _, b := range encoded(t) {
		if _, err := Decode(b); err != nil {
			t.Fatal(err)
		}
		for i := range b {
			if _, err := Decode(b[:i]); err == nil {
				t.Errorf("%x is a table when cut to %d bytes", b, i)
			}
			for with := range 256 {
				c := bytes.Clone(b)
				c[i] = byte(with)
				if table, err := Decode(c); err == nil && !bytes.Equal(table.Encode(), c) {
					t.Errorf("%x is read as %x", c, table.Encode())
				}
			}
		}
		if _, err := Decode(append(bytes.Clone(b), 0)); err == nil {
			t.Error("something after a table is passed over")
		}
	}
}

// TestDecodeTakesLittle: counts that promise more than follows take no memory.
func TestDecodeTakesLittle(t *testing.T) {
	huge := []byte{0xff, 0xff, 0x03}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		for _, b := range [][]byte{
			append([]byte{version, 1, 3}, huge...),
			append([]byte{version, 1, 3, 1, 1, 'a', 0, 1, 0}, huge...),
			append([]byte{version, 1, 3, 1, 1, 'a', 0, 1, 0, 1, 0, 1, 1}, huge...),
			append([]byte{version, 1, 3, 1}, huge...),
		} {
			if _, err := Decode(b); err == nil {
				t.Fatalf("%x is a table", b)
			}
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 4000; each > 10_000 {
		t.Errorf("%d bytes are taken for a dozen", each)
	}
}

func FuzzDecode(f *testing.F) {
	for _, b := range encoded(f) {
		f.Add(b, uint64(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		table, err := Decode(b)
		if err != nil {
			return
		}
		if !bytes.Equal(table.Encode(), b) {
			t.Fatalf("%x is read as %x", b, table.Encode())
		}
		if len(table.nodes) > 20 || len(table.segments) > 100 {
			return
		}
		// Whatever can be decoded can be gone on with.
		r := rand.New(rand.NewPCG(seed, 0))
		nodes := append(table.Nodes(), Node{Name: strings.Repeat("x", 1+r.IntN(255)), Weight: 1})
		if table.index(nodes[len(nodes)-1].Name) >= 0 || table.epoch > 1<<62 {
			return
		}
		for range 5 {
			may := events(table, nodes)
			table, _, _ = step(t, table, may[r.IntN(len(may))])
			if table.index(nodes[len(nodes)-1].Name) >= 0 {
				return
			}
		}
	})
}
