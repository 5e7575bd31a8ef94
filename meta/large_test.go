package meta

import (
	"fmt"
	"iter"
	"slices"
	"testing"
)

// measured counts what is read and written.
type measured struct {
	View
	read, written int
}

func (c *measured) Get(k []byte) []byte { c.read++; return c.View.Get(k) }
func (c *measured) Set(k, v []byte)     { c.written++; c.View.Set(k, v) }
func (c *measured) Delete(k []byte)     { c.written++; c.View.Delete(k) }

func (c *measured) Scan(from, to []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for k, v := range c.View.Scan(from, to) {
			if c.read++; !yield(k, v) {
				return
			}
		}
	}
}

// TestLongFilesAreSweptInSteps: no command takes apart more blocks of deleted files than it is told to.
func TestLongFilesAreSweptInSteps(t *testing.T) {
	b := newBench(t)
	long := func(path string, n int) {
		b.write(root, b.open(root, path).ID, slices.Repeat([]int64{7}, n)...)
	}
	b.must(root, &SetQuota{"/", KeepQuota, 1 << 40})
	long("/alone", 1100)
	long("/over", 1100)
	long("/d/e/f", 1100)
	long("/d/few", 3)
	most := 0
	do := func(o Op) Result {
		t.Helper()
		c := &measured{View: b.v}
		b.now++
		r, err := Apply(c, Command{Time: b.now, Caller: root, Op: o})
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, c.written)
		return r
	}
	do(&Delete{"/alone", false})
	do(&Create{Path: "/over", Holder: "h", Flags: FlagCreate | FlagOverwrite, Replication: 1, BlockSize: 100})
	do(&Delete{"/d", true})
	if s, _ := b.as(root).QuotaUsage("/"); s.Space != 0 || s.Files != 1 {
		t.Errorf("%+v", s)
	}
	check(t, b.v)
	steps := 0
	for b.as(root).Orphaned() && steps < 1000 {
		if do(&Sweep{Most: 250}); steps%5 == 0 {
			check(t, b.v)
		}
		steps++
	}
	check(t, b.v)
	if n := len(b.as(root).Garbage(0, 1<<20)); n != 3303 {
		t.Errorf("%d blocks are garbage", n)
	}
	if most > 5*250 || steps < 14 {
		t.Errorf("a command writes %d times, in %d steps", most, steps)
	}
}

// TestPagesOfListings: a page of a listing reads what it has, and not thousands of entries behind it.
func TestPagesOfListings(t *testing.T) {
	b := newBench(t, func(c *Config) { c.ListLimit = 100 })
	for i := range 3000 {
		b.open(root, fmt.Sprintf("/f%04d", i))
	}
	names, after := 0, ""
	for {
		c := &measured{View: b.v}
		l, err := Query{Reader: c, Caller: root}.List("/", after, false)
		if err != nil {
			t.Fatal(err)
		}
		if c.read > 110 {
			t.Fatalf("a page of %d entries reads %d", len(l.Entries), c.read)
		}
		if names += len(l.Entries); l.Left == 0 {
			break
		}
		after = l.Entries[len(l.Entries)-1].Name
	}
	if names != 3000 {
		t.Errorf("%d names", names)
	}
}

// TestLargeOfBefore: commands of before do what they did: they look at all there is, and take apart whole files.
func TestLargeOfBefore(t *testing.T) {
	b := newBench(t)
	b.must(root, &SetOwner{Path: "/", Owner: "alice"})
	b.write(root, b.open(root, "/long").ID, slices.Repeat([]int64{7}, mostDestroyed+1)...)
	b.write(root, b.open(root, "/d/long").ID, slices.Repeat([]int64{7}, 20)...)
	for i := range mostLooked + 1 {
		b.open(alice, fmt.Sprintf("/many/%d", i))
	}
	do := func(o Op) Result {
		t.Helper()
		// As a node of before has written it: no more than its version differs.
		c := Command{Time: b.now, Caller: alice, Op: o, version: version1}
		m, err := DecodeCommand(c.Encode())
		if err != nil || m.version != version1 {
			t.Fatal(m.version, err)
		}
		r, err := Apply(b.v, m)
		if err != nil {
			t.Fatalf("%T%+v: %v", o, o, err)
		}
		return r
	}
	do(&Delete{"/long", false})
	if b.as(root).Orphaned() || len(b.as(root).Garbage(0, 10_000)) != mostDestroyed+1 {
		t.Error("a file is not taken apart at once")
	}
	b.must(root, &SetOwner{Path: "/d", Owner: "alice"})
	do(&Delete{"/d", true})
	if more := do(&Sweep{Most: 1}).(*Flag); bool(*more) || len(b.as(root).Garbage(0, 10_000)) != mostDestroyed+21 {
		t.Error("a file is taken apart in steps")
	}
	b.must(root, &SetOwner{Path: "/many", Owner: "alice"})
	do(&Delete{"/many", true})
	check(t, b.v)
}
