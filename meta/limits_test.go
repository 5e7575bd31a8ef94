package meta

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestNamesOfWho: names of users and groups are bounded, as they are kept with each file, and inherited.
func TestNamesOfWho(t *testing.T) {
	b := newBench(t)
	b.mkdir("/d")
	long := strings.Repeat("x", MostWho+1)
	b.refused(root, &SetOwner{Path: "/d", Owner: long}, "IllegalArgumentException", "the name of a user or group has 256 bytes")
	b.refused(root, &SetOwner{Path: "/d", Group: long}, "IllegalArgumentException", "the name of a user or group has 256 bytes")
	b.refused(root, &ChangeACL{Path: "/d", How: ModifyACL, Entries: []ACLEntry{{Default: true, Type: User, Name: long, Access: All}}}, "IllegalArgumentException", "the name of a user or group has 256 bytes")
	b.must(root, &ChangeACL{Path: "/d", How: ModifyACL, Entries: []ACLEntry{{Default: true, Type: User, Name: long[1:], Access: All}}})
	b.must(root, &SetOwner{Path: "/d", Owner: long[1:]})
}

// TestLooksRememberNothing: who counts or asks all that is below a directory has not all of it in memory.
func TestLooksRememberNothing(t *testing.T) {
	b := newBench(t)
	for i := range 20 {
		b.mkdir(fmt.Sprintf("/d/%d", i))
		for k := range 10 {
			b.write(root, b.open(root, fmt.Sprintf("/d/%d/f%d", i, k)).ID, 10)
		}
	}
	b.must(root, &SetOwner{Path: "/d", Owner: "alice"})
	s := open(newDraft(b.v), b.now, alice)
	way, err := s.resolve("/d", toRead)
	if err != nil {
		t.Fatal(err)
	}
	before := len(s.loaded)
	sum := &Summary{}
	if err := s.sum(way.last(), sum); err != nil || sum.Files != 200 || sum.Directories != 21 {
		t.Errorf("%+v, %v", sum, err)
	}
	if u, err := s.through(way.last(), Read, false); err != nil || u.names != 221 {
		t.Errorf("%+v, %v", u, err)
	}
	if u := s.usage(way.last()); u.names != 221 {
		t.Errorf("%+v", u)
	}
	if n := len(s.loaded) - before; n > 0 {
		t.Errorf("%d files and directories are remembered", n)
	}
}

// TestDepth: a tree does not come to be deeper than a path may be by moving directories, or by paths that begin with a number.
func TestDepth(t *testing.T) {
	b := newBench(t)
	chain := func(n int) string { return strings.Repeat("/d", n) }
	b.mkdir("/a" + chain(600))
	b.mkdir("/b" + chain(399))
	b.mkdir("/c" + chain(397))
	const deep = " would be, or have below it, more than 1000 levels of directories."
	for _, old := range []bool{false, true} {
		b.refused(root, &Rename{From: "/a", To: "/b" + chain(399) + "/a", Old: old}, "IOException", "a"+deep)
	}
	b.must(root, &Rename{From: "/a", To: "/b" + chain(398) + "/a"})
	b.must(root, &Rename{From: "/b" + chain(398) + "/a", To: "/a"})
	b.must(root, &Rename{From: "/a/d", To: "/c" + chain(397) + "/x"})
	check(t, b.v)
	last := b.stat("/c" + chain(397) + "/x" + chain(599))
	if last == nil {
		t.Fatal("the end of the tree is not where it should be")
	}
	b.mkdir("/c" + chain(397) + "/x" + chain(599) + "/y/z")
	b.refused(root, &Mkdirs{Path: fmt.Sprintf("/.reserved/.inodes/%d/y/z/1", last.ID), Parents: true}, "IOException", "1"+deep)
	b.refused(root, &Create{Path: fmt.Sprintf("/.reserved/.inodes/%d/y/z/f", last.ID), Flags: FlagCreate, Replication: 1, BlockSize: 100}, "IOException", "f"+deep)
	b.refused(root, &Rename{From: "/c", To: "/b/c"}, "IOException", "c"+deep)
	b.says(root, &Delete{"/c" + chain(397) + "/x", true}, true)
	b.says(root, &Delete{"/c/d", true}, true)
	b.must(root, &Rename{From: "/c", To: "/b" + chain(399) + "/c"}) // it is empty
	check(t, b.v)
}

// TestDeepTreeOfBefore: by the rules of before a tree could become as deep as anybody wanted. It is counted and deleted like others.
func TestDeepTreeOfBefore(t *testing.T) {
	b := newBench(t)
	b.must(root, &SetOwner{Path: "/", Owner: "alice"})
	before := func(o Op) {
		t.Helper()
		if _, err := Apply(b.v, Command{Time: b.now, Caller: alice, Op: o, version: version1}); err != nil {
			t.Fatal(err)
		}
	}
	below := strings.Repeat("/d", 490)
	before(&Mkdirs{Path: "/top" + below, Mode: 0o755, Parents: true})
	for range 3 {
		before(&Mkdirs{Path: "/a" + below, Mode: 0o755, Parents: true})
		before(&Rename{From: "/top", To: "/a" + below + "/top"})
		before(&Rename{From: "/a", To: "/top"})
	}
	if sum, err := b.as(alice).Summary("/top"); err != nil || sum.Directories != 4*491 {
		t.Errorf("%+v, %v", sum, err)
	}
	b.must(root, &SetQuota{"/", 10_000, KeepQuota})
	b.says(alice, &Delete{"/top", true}, true)
	for b.as(root).Orphaned() {
		b.must(root, &Sweep{Most: 1000})
	}
	if s, _ := b.as(root).QuotaUsage("/"); s.Directories != 1 {
		t.Errorf("%+v", s)
	}
}

// TestLooksEnd: what looks at much ends when nobody waits for it any more.
func TestLooksEnd(t *testing.T) {
	b := newBench(t)
	b.must(root, &SetOwner{Path: "/", Owner: "alice"})
	for i := range 1200 {
		b.open(alice, fmt.Sprintf("/f%d", i))
	}
	q := b.as(alice)
	if sum, err := q.Summary("/"); err != nil || sum.Files != 1200 {
		t.Errorf("%+v, %v", sum, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	q.Context = ctx
	if _, err := q.QuotaUsage("/"); err != nil {
		t.Error(err)
	}
	cancel()
	if _, err := q.Summary("/"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := q.QuotaUsage("/"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
