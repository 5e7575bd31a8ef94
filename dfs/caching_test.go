package dfs

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/meta"
	"headrace/wire"
)

// TestAssign: blocks are kept in their order as far as budgets go, where they are kept already, and else where there is most room.
func TestAssign(t *testing.T) {
	kept := func(ids ...uint64) map[uint64]struct{} {
		m := map[uint64]struct{}{}
		for _, id := range ids {
			m[id] = struct{}{}
		}
		return m
	}
	all := []string{"a", "b", "c"}
	for name, c := range map[string]struct {
		blocks []*toKeep
		nodes  map[string]keeping
		want   map[string][]uint64
	}{
		"nobody is there":    {[]*toKeep{{1, 5, 1, all}}, nil, map[string][]uint64{}},
		"the most room":      {[]*toKeep{{1, 5, 2, all}}, map[string]keeping{"a": {budget: 5}, "b": {budget: 9}, "c": {budget: 7}}, map[string][]uint64{"b": {1}, "c": {1}}},
		"who has a copy":     {[]*toKeep{{1, 5, 2, []string{"a"}}}, map[string]keeping{"a": {budget: 5}, "b": {budget: 9}}, map[string][]uint64{"a": {1}}},
		"who keeps it":       {[]*toKeep{{1, 5, 1, all}}, map[string]keeping{"a": {budget: 5, kept: kept(1)}, "b": {budget: 9}}, map[string][]uint64{"a": {1}}},
		"by turns":           {[]*toKeep{{1, 5, 1, all}, {2, 5, 1, all}, {3, 4, 1, all}}, map[string]keeping{"a": {budget: 10}, "b": {budget: 10}}, map[string][]uint64{"a": {1, 3}, "b": {2}}},
		"what fits":          {[]*toKeep{{1, 5, 1, all}, {2, 9, 1, all}, {3, 4, 1, all}}, map[string]keeping{"a": {budget: 10}}, map[string][]uint64{"a": {1, 3}}},
		"the first go first": {[]*toKeep{{1, 8, 1, all}, {2, 8, 1, all}}, map[string]keeping{"a": {budget: 10, kept: kept(2)}}, map[string][]uint64{"a": {1}}},
		"no budget":          {[]*toKeep{{1, 1, 3, all}}, map[string]keeping{"a": {}, "b": {}}, map[string][]uint64{}},
	} {
		if got := assign(c.blocks, c.nodes); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	var many []*toKeep
	for i := range mostKept + 5 {
		many = append(many, &toKeep{uint64(i), 1, 1, all})
	}
	if n := len(assign(many, map[string]keeping{"a": {budget: 1 << 40}})["a"]); n != mostKept {
		t.Errorf("%d blocks", n)
	}
}

// TestHeardOfKeeping: a node is told what to keep once somebody has looked since it was heard of; until then it lets nothing go.
func TestHeardOfKeeping(t *testing.T) {
	c := newCaching()
	q := &wire.KeepRequest{Node: "a", Budget: 9, Kept: []uint64{1, 2}}
	if _, known := c.hear(q); known {
		t.Error("a new node is told what to keep")
	}
	c.order(map[string]keeping{"a": *c.nodes["a"]}, map[string][]uint64{"a": {2}})
	if keep, known := c.hear(q); !known || !slices.Equal(keep, []uint64{2}) {
		t.Error(keep, known)
	}
	c.forget()
	if _, known := c.hear(q); known {
		t.Error("another that leads tells what was decided before it")
	}
}

// TestAsksLess: the node that leads is asked ever less while nothing changes, and at once when another one leads or something else is kept.
func TestAsksLess(t *testing.T) {
	var a asks
	v := &View{Leader: "a", Term: 1}
	rounds := func(kept, keep []uint64) (asked string) {
		for range 14 {
			if !a.due(v, kept) {
				asked += "."
				continue
			}
			asked += "?"
			a.answered(v, kept, keep)
		}
		return asked
	}
	for i, c := range []struct {
		do   func()
		keep []uint64
		want string
	}{
		{func() {}, nil, "??.?...?....?."},
		{func() { v = &View{Leader: "b", Term: 2} }, nil, "??.?...?....?."},
		{func() {}, []uint64{1}, "...??.?...?..."}, // the answer has changed
	} {
		c.do()
		if got := rounds(nil, c.keep); got != c.want {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
	if got := rounds([]uint64{1}, []uint64{1}); got != "??.?...?....?." {
		t.Errorf("what is kept has changed: %s", got)
	}
}

// resident is how many bytes of a block are in memory.
func resident(t *testing.T, n *Node, id uint64) (in, size int64) {
	t.Helper()
	_, e, err := n.Blocks.Extent(int64(id))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(e.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// What is not locked goes.
	if err := errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), e.Off, (e.Size+4095)/4096*4096, unix.FADV_DONTNEED)); err != nil {
		t.Fatal(err)
	}
	pages, err := linux.CachedPages(int(f.Fd()), e.Off, e.Size)
	if err != nil {
		t.Fatal(err)
	}
	return min(pages*4096, e.Size), e.Size
}

// TestDirectivesKeepBlocks: what directives want is read into memory and stays there, as far as the budget goes; what nobody wants any more, or is no more what
// it was, is let go. What is told of that is so.
func TestDirectivesKeepBlocks(t *testing.T) {
	if err := linux.ProbeCachestat(); err != nil {
		t.Skip(err)
	}
	const budget = 1 << 20
	n := open(t, Config{Dir: t.TempDir(), Memory: 5 * time.Millisecond, CacheMemory: budget})
	first, second := write(t, n, "/d/a", strings.Repeat("a", 300<<10)), write(t, n, "/d/b", strings.Repeat("b", 300<<10))
	write(t, n, "/d/c", strings.Repeat("c", 600<<10)) // for which there is no room
	uses := func() *meta.CacheUses {
		t.Helper()
		u, err := n.CacheUses(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	is := func(what, want string) {
		t.Helper()
		got := ""
		testkit.Await(t, what, func() bool {
			_, used := n.Keeper.Cache(n.Identity.Node)
			u := uses()
			got = fmt.Sprint(u.Directives[1], u.Pools["p"], used > 0)
			return got == want
		}, &got)
	}
	inMemory := func(id uint64, want bool) {
		t.Helper()
		if in, size := resident(t, n, id); (in == size) != want || !want && in > size/2 {
			t.Errorf("%d of %d bytes of block %d are in memory", in, size, id)
		}
	}
	inMemory(first.ID, false)
	must[meta.Result](t)(n.do(&meta.ChangeCachePool{Add: true, Name: "p", Group: new(string)}))
	path, pool := "/d", "p"
	must[meta.Result](t)(n.do(&meta.ChangeCacheDirective{Path: &path, Pool: &pool}))
	is("two files to be kept", "{1228800 614400 3 2} {1228800 614400 3 2} true")
	inMemory(first.ID, true)
	inMemory(second.ID, true)
	must[meta.Result](t)(n.do(&meta.Delete{Path: "/d/c"}))
	must[meta.Result](t)(n.do(&meta.Rename{From: "/d/b", To: "/b", Old: true}))
	is("one file to be kept", "{307200 307200 1 1} {307200 307200 1 1} true")
	testkit.Await(t, "the other to be let go", func() bool { in, _ := resident(t, n, second.ID); return in == 0 })
	inMemory(first.ID, true)
	must[meta.Result](t)(n.do(&meta.ChangeCacheDirective{ID: new(int64(1)), Expiry: &meta.CacheExpiry{Relative: true}}))
	is("nothing to be kept by a directive that has expired", "{0 0 0 0} {0 0 0 0} false")
	inMemory(first.ID, false)
	must[meta.Result](t)(n.do(&meta.ChangeCacheDirective{ID: new(int64(1)), Expiry: &meta.CacheExpiry{Millis: 1 << 40, Relative: true}}))
	is("the file to be kept again", "{307200 307200 1 1} {307200 307200 1 1} true")
	must[meta.Result](t)(n.do(&meta.Delete{Path: "/d", Recursive: true}))
	is("nothing to be kept of what was deleted", "{0 0 0 0} {0 0 0 0} false")
}

// TestNothingIsKept: a node without a budget keeps nothing, and says so.
func TestNothingIsKept(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir(), Memory: 5 * time.Millisecond, CacheMemory: -1})
	write(t, n, "/f", "some bytes")
	must[meta.Result](t)(n.do(&meta.ChangeCachePool{Add: true, Name: "p", Group: new(string)}))
	path, pool := "/f", "p"
	must[meta.Result](t)(n.do(&meta.ChangeCacheDirective{Path: &path, Pool: &pool}))
	for range 3 {
		u, err := n.CacheUses(t.Context())
		if want := (meta.CacheUse{BytesNeeded: 10, FilesNeeded: 1}); err != nil || u.Directives[1] != want {
			t.Errorf("%+v, %v", u, err)
		}
	}
	if budget, used := n.Keeper.Cache(n.Identity.Node); budget != 0 || used != 0 {
		t.Error(budget, used)
	}
}
