package meta

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// TestLeasesAreRenewedAtOnce: however many there are, a new leader renews them by one record.
func TestLeasesAreRenewedAtOnce(t *testing.T) {
	b := newBench(t)
	for i := range 50 {
		b.must(root, &Create{Path: fmt.Sprintf("/f%d", i), Holder: fmt.Sprint("h", i), Flags: FlagCreate, Replication: 1, BlockSize: 100})
	}
	renew := func(set bool) int {
		b.now++
		c := &measured{View: b.v}
		if _, err := Apply(c, Command{Time: b.now, Caller: root, Op: &RenewLeases{Set: set}}); err != nil {
			t.Fatal(err)
		}
		return c.written
	}
	b.now += 21 * 60_000
	if n := renew(false); n != 1 || b.as(root).Expired() {
		t.Errorf("%d records are written, expired: %v", n, b.as(root).Expired())
	}
	if at := b.as(root).LastRenewed(); at != b.now {
		t.Errorf("renewed at %d, not %d", at, b.now)
	}
	b.now -= 60 * 60_000 // the clock is set back
	if n := renew(true); n != 51 {
		t.Errorf("%d records are written", n)
	}
	if at := b.as(root).LastRenewed(); at != b.now {
		t.Errorf("renewed at %d, and it is %d", at, b.now)
	}
	b.now += 21 * 60_000
	if !b.as(root).Expired() {
		t.Error("leases from before the clock was set back have not expired")
	}
}

// TestMovedAndTakenOff: what one command moves or takes off is bounded.
func TestMovedAndTakenOff(t *testing.T) {
	defer func(n int) { mostMoved = n }(mostMoved)
	mostMoved = 1000
	b := newBench(t)
	b.must(root, &SetQuota{"/", KeepQuota, 1 << 40})
	var all []string
	for i := range 3 {
		all = append(all, fmt.Sprint("/", i))
		b.write(root, b.open(root, all[i]).ID, slices.Repeat([]int64{1}, mostMoved/2)...)
	}
	b.write(root, b.open(root, "/f").ID, 1)
	b.refused(root, &Concat{"/f", all}, "HadoopIllegalArgumentException", "concat: the source files have 1500 blocks, more than 1000")
	b.must(root, &Concat{"/f", all[:2]})
	b.must(root, &Concat{"/f", all[2:]})
	cut := func(size int64) *Truncate { return &Truncate{Path: "/f", Size: size, Holder: "h", Machine: "m"} }
	b.refused(root, cut(0), "HadoopIllegalArgumentException", "Cannot truncate /f by 1501 blocks, which is more than 1000")
	b.says(root, cut(600), true)
	b.says(root, cut(0), true)
	check(t, b.v)
}

// TestAttributesAreSweptInSteps: no command deletes files with more attributes than fit into memory everywhere.
func TestAttributesAreSweptInSteps(t *testing.T) {
	b := newBench(t)
	b.mkdir("/d")
	const files = 4 * mostSwept / (10 * 16_000)
	for i := range files {
		path := fmt.Sprint("/d/", i)
		b.write(root, b.open(root, path).ID, 1)
		for k := range 10 {
			b.must(root, &SetXAttr{Path: path, XAttr: XAttr{Name: fmt.Sprint("a", k), Value: make([]byte, 16_000)}, Flags: XAttrCreate})
		}
	}
	b.must(root, &Delete{"/d", true})
	steps := 1
	for ; bool(*b.must(root, &Sweep{1000}).(*Flag)); steps++ {
		check(t, b.v)
	}
	if steps < 4 {
		t.Errorf("%d files of 160 kB of attributes are gone in %d steps", files, steps)
	}
	if n := len(b.as(root).Garbage(0, 1000)); n != files {
		t.Errorf("%d blocks of %d are garbage", n, files)
	}
}

// TestUnreadableBySuperuser: only the owner of a file keeps it from the superuser, and so out of everybody's backup.
func TestUnreadableBySuperuser(t *testing.T) {
	b := newBench(t)
	b.mkdir("/d")
	b.must(root, &SetPermission{Path: "/d", Mode: 0o777})
	b.write(alice, b.open(alice, "/d/f").ID, 1)
	set := &SetXAttr{Path: "/d/f", XAttr: unreadable, Flags: XAttrCreate}
	b.refused(bob, set, "AccessControlException", "")
	b.must(alice, set)
	if _, err := b.as(root).Blocks("/d/f", 0, 1); err == nil {
		t.Error("the superuser may read it")
	}
}
