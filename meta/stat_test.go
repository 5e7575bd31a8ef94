package meta

import (
	"reflect"
	"slices"
	"testing"
)

// TestPart: the blocks of a part are the same whether they are asked for at once or one after the other.
func TestPart(t *testing.T) {
	b := newBench(t)
	b.write(root, b.open(root, "/f").ID, 100, 50, 100, 100, 1, 100, 100, 100, 100, 100, 100, 60) // more than lie in the record
	b.write(root, b.open(root, "/one").ID, 7)
	b.open(root, "/empty")
	add := func(path string, last *Block) *Block {
		t.Helper()
		a := b.must(root, &AddBlock{Path: path, ID: b.stat(path).ID, Holder: root.User, Previous: last, Copies: 1, Nodes: []string{"n1"}}).(*Allocated)
		return &Block{a.ID, a.Stamp, 100}
	}
	b.open(root, "/begun")
	add("/begun", nil)
	b.open(root, "/open")
	add("/open", add("/open", nil)) // the last one is empty so far
	for _, path := range []string{"/f", "/one", "/empty", "/begun", "/open"} {
		for _, span := range [][2]int64{{0, 1 << 62}, {0, 0}, {0, 1}, {149, 1}, {149, 2}, {150, 100}, {1, 1<<63 - 1}, {100, 1}, {1010, 1}, {1011, 1}, {5000, 1}} {
			want, err := b.as(root).Blocks(path, span[0], span[1])
			if err != nil {
				t.Fatal(err)
			}
			for most := range 14 {
				var got []LocatedBlock
				for p := (Part{Path: path, Offset: span[0], Length: span[1], Most: most}); !p.Over; {
					l, err := p.Next(b.as(root))
					if err != nil || l.Size != want.Size || most > 0 && len(l.Blocks) > most {
						t.Fatalf("%s %v: %+v, %v", path, span, l, err)
					}
					got = append(got, l.Blocks...)
				}
				if !reflect.DeepEqual(got, want.Blocks) {
					t.Fatalf("%s %v, %d at a time: %v, want %v", path, span, most, got, want.Blocks)
				}
			}
		}
	}
}

// TestPartOfAFileThatChanges: blocks that come in the meantime are left out, and what is no longer the same is not told for it.
func TestPartOfAFileThatChanges(t *testing.T) {
	sizes := slices.Repeat([]int64{100}, 12)
	for what, change := range map[string]func(*bench){
		"replaced": func(b *bench) {
			b.must(root, &Delete{"/f", false})
			b.write(root, b.open(root, "/f").ID, sizes...)
		},
		"gone":      func(b *bench) { b.must(root, &Delete{"/f", false}) },
		"cut off":   func(b *bench) { b.says(root, &Truncate{Path: "/f", Size: 600, Holder: "t", Machine: "m"}, true) },
		"forbidden": func(b *bench) { b.must(root, &SetPermission{"/f", 0o600}) },
		"longer": func(b *bench) {
			v := b.must(root, &Append{Path: "/f", Holder: root.User, Machine: "m", NewBlock: true}).(*Appended)
			b.write(root, v.Status.ID, 5)
		},
	} {
		b := newBench(t)
		b.write(root, b.open(root, "/f").ID, sizes...)
		p := Part{Path: "/f", Length: 1 << 62, Most: 11}
		if l, err := p.Next(b.as(alice)); err != nil || len(l.Blocks) != p.Most || p.Over {
			t.Fatalf("%v, %v", l, err)
		}
		change(b)
		l, err := p.Next(b.as(alice))
		if what != "longer" && err == nil || what == "longer" && (err != nil || len(l.Blocks) != 1 || !p.Over) {
			t.Errorf("%s: %+v, %v", what, l, err)
		}
	}
}
