package meta

import (
	"bytes"
	"fmt"
	"testing"
)

// pools shows what somebody sees of the pools.
func (b *bench) pools(by Caller) (s string) {
	page, _ := b.as(by).CachePools("")
	for _, p := range page {
		if !p.All {
			s += p.Name + "; "
			continue
		}
		s += fmt.Sprintf("%s %s:%s %o %d %d %d; ", p.Name, p.Owner, p.Group, p.Mode, p.Limit, p.MaxTTL, p.Replication)
	}
	return s
}

// directives shows what somebody sees of the directives.
func (b *bench) directives(by Caller, f CacheFilter) (s string) {
	b.Helper()
	page, _, err := b.as(by).CacheDirectives(0, f)
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range page {
		s += fmt.Sprintf("%d %s %s %d; ", d.ID, d.Path, d.Pool, d.Replication)
	}
	return s
}

func TestCachePools(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		by      Caller
		op      Op
		class   string // of what it is refused with
		message string
		pools   string // that root sees afterwards
	}{
		{alice, &ChangeCachePool{Add: true, Name: "p"}, "AccessControlException", "Access denied for user alice.", ""},
		{alice, &RemoveCachePool{"p"}, "AccessControlException", "Access denied for user alice.", ""},
		{root, &ChangeCachePool{Add: true}, "java.io.IOException", "invalid empty cache pool name", ""},
		{root, &ChangeCachePool{Add: true, Name: "p", Limit: new(int64(-1))}, "InvalidRequestException", "Limit is negative.", ""},
		{root, &ChangeCachePool{Add: true, Name: "p", Replication: new(int64(-1))}, "InvalidRequestException", "Default Replication is negative", ""},
		{root, &ChangeCachePool{Add: true, Name: "p", MaxTTL: new(int64(-1))}, "InvalidRequestException", "Max relative expiry is negative.", ""},
		{root, &ChangeCachePool{Add: true, Name: "p", MaxTTL: new(int64(1 << 61))}, "InvalidRequestException", "Max relative expiry is too big.", ""},
		{Caller{User: "lone", Super: true}, &ChangeCachePool{Add: true, Name: "p"}, "java.io.IOException", "There is no primary group for UGI lone", ""},
		{root, &ChangeCachePool{Add: true, Name: "p"}, "", "", "p root:supergroup 755 9223372036854775807 2305843009213693951 1; "},
		{root, &ChangeCachePool{Add: true, Name: "p"}, "InvalidRequestException", "Cache pool p already exists.", "p root:supergroup 755 9223372036854775807 2305843009213693951 1; "},
		{root, &ChangeCachePool{Name: "q"}, "InvalidRequestException", "Cache pool q does not exist.", "p root:supergroup 755 9223372036854775807 2305843009213693951 1; "},
		{root, &ChangeCachePool{Name: "p", Owner: new("alice"), Mode: new(uint16(0o700)), Limit: new(int64(9))}, "", "", "p alice:supergroup 700 9 2305843009213693951 1; "},
		{root, &ChangeCachePool{Name: "p", Group: new("staff"), MaxTTL: new(int64(7)), Replication: new(int64(2))}, "", "", "p alice:staff 700 9 7 2; "},
		{root, &ChangeCachePool{Name: "p"}, "", "", "p alice:staff 700 9 7 2; "},
		{root, &RemoveCachePool{}, "java.io.IOException", "invalid empty cache pool name", "p alice:staff 700 9 7 2; "},
		{root, &RemoveCachePool{"q"}, "InvalidRequestException", "Cannot remove non-existent cache pool q", "p alice:staff 700 9 7 2; "},
		{root, &RemoveCachePool{"p"}, "", "", ""},
	} {
		if c.class == "" {
			b.must(c.by, c.op)
		} else {
			b.refused(c.by, c.op, c.class, c.message)
		}
		if got := b.pools(root); got != c.pools {
			t.Fatalf("after %T%+v: %q, want %q", c.op, c.op, got, c.pools)
		}
	}
	b.must(root, &ChangeCachePool{Add: true, Name: "p", Owner: new("alice"), Mode: new(uint16(0o700))})
	if got := b.pools(bob); got != "p; " {
		t.Errorf("bob sees %q", got)
	}
	if got := b.pools(alice); got != "p alice:supergroup 700 9223372036854775807 2305843009213693951 1; " {
		t.Errorf("alice sees %q", got)
	}
	b.says(root, &SetSafeMode{true}, true)
	for _, o := range []Op{&ChangeCachePool{Add: true, Name: "q"}, &ChangeCachePool{Name: "p"}, &RemoveCachePool{"p"}, &ChangeCacheDirective{}, &RemoveCacheDirective{1}} {
		b.refused(root, o, "SafeModeException", "Cannot ")
	}
}

// TestCachePoolRights: in HDFS an owner may do what the group of a pool may, and others' rights are no owner's or member's.
func TestCachePoolRights(t *testing.T) {
	for _, c := range []struct {
		mode uint16
		by   Caller
		may  bool
	}{
		{0o200, alice, true}, {0o020, alice, true}, {0o002, alice, false}, // the owner, and in the group
		{0o200, bob, false}, {0o020, bob, true}, {0o002, bob, false}, // in the group
		{0o002, carol, true}, {0o770, carol, false}, {0, root, true},
	} {
		b := newBench(t)
		b.must(root, &ChangeCachePool{Add: true, Name: "p", Owner: new("alice"), Group: new("users"), Mode: &c.mode})
		_, err := b.try(c.by, &ChangeCacheDirective{Path: new("/f"), Pool: new("p")})
		if (err == nil) != c.may {
			t.Errorf("mode %o, %s: %v", c.mode, c.by.User, err)
		}
		if !c.may {
			b.isError(err, "AccessControlException", fmt.Sprintf("Permission denied while accessing pool p: user %s does not have WRITE permissions.", c.by.User))
		}
	}
}

func TestCacheDirectives(t *testing.T) {
	b := newBench(t)
	all := uint16(0o777)
	b.must(root, &ChangeCachePool{Add: true, Name: "p", Mode: &all, Replication: new(int64(2))})
	b.must(root, &ChangeCachePool{Add: true, Name: "q", Mode: &all, MaxTTL: new(int64(1000)), Limit: new(int64(100))})
	b.must(root, &ChangeCachePool{Add: true, Name: "closed", Mode: new(uint16(0o700))})
	b.must(root, &ChangeCachePool{Add: true, Name: "zero", Mode: &all, Replication: new(int64(0))})
	const invalid, denied = "InvalidRequestException", "AccessControlException"
	var id int64
	for _, c := range []struct {
		op      *ChangeCacheDirective
		class   string
		message string
		want    string // what alice sees afterwards
	}{
		{&ChangeCacheDirective{Path: new("/f")}, invalid, "No pool specified.", ""},
		{&ChangeCacheDirective{Path: new("/f"), Pool: new("")}, invalid, "Invalid empty pool name.", ""},
		{&ChangeCacheDirective{Path: new("/f"), Pool: new("none")}, invalid, "Unknown pool none", ""},
		{&ChangeCacheDirective{Path: new("/f"), Pool: new("closed")}, denied, "Permission denied while accessing pool closed: user alice does not have WRITE permissions.", ""},
		{&ChangeCacheDirective{Pool: new("p")}, invalid, "No path specified.", ""},
		{&ChangeCacheDirective{Path: new("f:"), Pool: new("p")}, invalid, "Invalid path 'f:'.", ""},
		{&ChangeCacheDirective{Path: new("/f"), Pool: new("p"), Replication: new(int64(-1))}, invalid, "Invalid replication factor -1 <= 0", ""},
		{&ChangeCacheDirective{Path: new("/f"), Pool: new("zero")}, invalid, "Invalid replication factor 0 <= 0", ""},
		{&ChangeCacheDirective{Path: new("/f"), Pool: new("p"), Expiry: &CacheExpiry{Millis: -5}}, invalid, "Cannot set a negative expiration: -5", ""},
		{&ChangeCacheDirective{Path: new("/f"), Pool: new("p"), Expiry: &CacheExpiry{1 << 61, true}}, invalid, "Expiration 26687997791:19:48:13.952 is too far in the future!", ""},
		{&ChangeCacheDirective{Path: new("/f"), Pool: new("q"), Expiry: &CacheExpiry{90_061_001, true}}, invalid, "Expiration 001:01:01:01.001 exceeds the max relative expiration time of 1000 ms.", ""},
		{&ChangeCacheDirective{Path: new("/f"), Pool: new("q"), Expiry: &CacheExpiry{Millis: 1_700_000_000_000}}, invalid, "Expiration 2023-11-14T22:13:20+0000 exceeds", ""},
		{&ChangeCacheDirective{Path: new("/f"), Pool: new("q"), Replication: new(int64(2)), Size: 31, Taken: 40}, invalid,
			"Caching path /f of size 31 bytes at replication 2 would exceed pool q's remaining capacity of 60 bytes.", ""},
		{&ChangeCacheDirective{Path: new("/f/"), Pool: new("p")}, "", "", "1 /f p 2; "},
		{&ChangeCacheDirective{Path: new("/"), Pool: new("q"), Size: 60, Taken: 40}, "", "", "1 /f p 2; 2 / q 1; "},
		{&ChangeCacheDirective{Path: new("/g"), Pool: new("q"), Size: 1000, Force: true}, "", "", "1 /f p 2; 2 / q 1; 3 /g q 1; "},
		{&ChangeCacheDirective{ID: new(int64(0))}, invalid, "Invalid negative ID.", ""},
		{&ChangeCacheDirective{ID: new(int64(9))}, invalid, "No directive with ID 9 found.", ""},
		{&ChangeCacheDirective{ID: new(int64(1)), Path: new("x")}, invalid, "Invalid path 'x'.", ""},
		{&ChangeCacheDirective{ID: new(int64(1)), Replication: new(int64(0))}, invalid, "Invalid replication factor 0 <= 0", ""},
		{&ChangeCacheDirective{ID: new(int64(1)), Pool: new("none")}, invalid, "Unknown pool none", ""},
		{&ChangeCacheDirective{ID: new(int64(1)), Pool: new("")}, invalid, "Invalid empty pool name.", ""},
		{&ChangeCacheDirective{ID: new(int64(1)), Pool: new("closed")}, denied, "Permission denied while accessing pool closed", ""},
		{&ChangeCacheDirective{ID: new(int64(1)), Pool: new("q"), Expiry: &CacheExpiry{0, true}, Size: 51}, invalid, "Caching path /f of size 51 bytes at replication 2", ""},
		{&ChangeCacheDirective{ID: new(int64(1)), Pool: new("q"), Size: 50}, invalid, "Expiration ", ""}, // it lasts for longer than directives do there
		{&ChangeCacheDirective{ID: new(int64(1)), Pool: new("q"), Size: 50, Expiry: &CacheExpiry{1000, true}}, "", "", "1 /f q 2; 2 / q 1; 3 /g q 1; "},
		{&ChangeCacheDirective{ID: new(int64(1)), Path: new("/h"), Replication: new(int64(5)), Size: 1000}, "", "", "1 /h q 5; 2 / q 1; 3 /g q 1; "}, // in the same pool nobody asks
	} {
		if c.class != "" {
			b.refused(alice, c.op, c.class, c.message)
			continue
		}
		r := b.must(alice, c.op).(*DirectiveID)
		if c.op.ID == nil {
			if id++; int64(*r) != id {
				t.Errorf("directive %d, want %d", *r, id)
			}
		}
		if got := b.directives(alice, CacheFilter{}); got != c.want {
			t.Fatalf("after %+v: %q, want %q", c.op, got, c.want)
		}
	}
	b.refused(alice, &RemoveCacheDirective{-3}, invalid, "Invalid negative ID.")
	b.refused(alice, &RemoveCacheDirective{9}, invalid, "No directive with ID 9 found.")
	b.must(alice, &RemoveCacheDirective{3})
	b.refused(alice, &RemoveCacheDirective{3}, invalid, "No directive with ID 3 found.")
	if r := b.must(alice, &ChangeCacheDirective{Path: new("/g"), Pool: new("p")}).(*DirectiveID); *r != 4 {
		t.Errorf("a number was given again: %d", *r)
	}
	b.must(root, &ChangeCachePool{Name: "p", Mode: new(uint16(0o700))})
	b.refused(alice, &RemoveCacheDirective{4}, denied, "Permission denied while accessing pool p")
	b.must(root, &ChangeCacheDirective{ID: new(int64(2)), Pool: new("closed")})
	for _, c := range []struct {
		by   Caller
		f    CacheFilter
		want string
	}{
		{root, CacheFilter{}, "1 /h q 5; 2 / closed 1; 4 /g p 2; "}, {alice, CacheFilter{}, "1 /h q 5; "}, {root, CacheFilter{Pool: new("p")}, "4 /g p 2; "},
		{root, CacheFilter{Path: new("/h/")}, "1 /h q 5; "}, {root, CacheFilter{ID: new(int64(2))}, "2 / closed 1; "}, {alice, CacheFilter{ID: new(int64(2))}, ""},
	} {
		if got := b.directives(c.by, c.f); got != c.want {
			t.Errorf("%s sees by %+v: %q, want %q", c.by.User, c.f, got, c.want)
		}
	}
	for message, f := range map[string]CacheFilter{"Invalid path 'x'.": {Path: new("x")}, "Filtering by replication is unsupported.": {ByCopies: true}, "Did not find requested id 9": {ID: new(int64(9))}} {
		_, _, err := b.as(root).CacheDirectives(0, f)
		b.isError(err, invalid, message)
	}
	b.must(root, &RemoveCachePool{"q"}) // with what is in it
	if got := b.directives(root, CacheFilter{}); got != "2 / closed 1; 4 /g p 2; " {
		t.Errorf("after its pool was removed: %q", got)
	}
}

// TestCachePages: pages of pools and directives come one after the other, to the last.
func TestCachePages(t *testing.T) {
	b := newBench(t)
	for i := range 2*mostCacheListed + 1 {
		b.must(root, &ChangeCachePool{Add: true, Name: fmt.Sprintf("p%03d", i)})
		b.must(root, &ChangeCacheDirective{Path: new("/f"), Pool: new("p000")})
	}
	pools, directives, pages := 0, int64(0), 0
	for after, more := "", true; more; pages++ {
		var page []SeenPool
		page, more = b.as(root).CachePools(after)
		for _, p := range page {
			if after = p.Name; after != fmt.Sprintf("p%03d", pools) {
				t.Fatalf("%s is number %d", after, pools)
			}
			pools++
		}
	}
	for more := true; more; pages++ {
		var page []CacheDirective
		page, more, _ = b.as(root).CacheDirectives(directives, CacheFilter{})
		for _, d := range page {
			if directives++; d.ID != directives {
				t.Fatalf("%d is number %d", d.ID, directives)
			}
		}
	}
	if n := 2*mostCacheListed + 1; pools != n || directives != int64(n) || pages != 6 {
		t.Errorf("%d pools and %d directives on %d pages", pools, directives, pages)
	}
}

// TestCacheUses: a directive wants the finished blocks of its file, or of the files directly in its directory, until it expires or its pool is full.
func TestCacheUses(t *testing.T) {
	b := newBench(t)
	b.mkdir("/d/sub")
	b.write(root, b.open(root, "/d/f").ID, 100, 50)
	b.write(root, b.open(root, "/d/g").ID, 30)
	b.write(root, b.open(root, "/d/sub/h").ID, 7)
	open := b.open(root, "/d/open")
	b.must(root, &AddBlock{Path: "/", ID: open.ID, Holder: "root", Copies: 1, Nodes: []string{"n1"}})
	first := b.as(root).BlockAt("/d/f", 0).ID
	b.must(root, &ChangeCachePool{Add: true, Name: "p", Limit: new(int64(400))})
	add := func(path string, copies int64) {
		b.must(root, &ChangeCacheDirective{Path: &path, Pool: new("p"), Replication: &copies, Force: true})
	}
	add("/d", 2)         // 360 of the limit
	add("/d/sub/h", 1)   // 367
	add("/d/f", 3)       // 817: too much
	add("/d/none/at", 1) // there is nothing
	add("/d/f/x", 1)     // nor below a file
	wanted := map[uint64]int{}
	uses := func() string {
		clear(wanted)
		u, err := b.as(root).CacheUses(func(id uint64) int {
			if id == first {
				return 5 // more than are wanted count for nothing
			}
			return 1
		}, func(p Placed, copies int) { wanted[p.ID] += copies })
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(u.Directives[1], u.Directives[2], u.Directives[3], u.Directives[4], u.Directives[5], u.Pools["p"])
	}
	// Needed and cached: bytes, then files.
	want := "{360 280 3 1} {7 7 1 1} {450 0 1 0} {0 0 0 0} {0 0 0 0} {817 287 5 2}"
	if got := uses(); got != want || len(wanted) != 4 || wanted[first] != 2 {
		t.Errorf("%s\nwant %s; blocks %v", got, want, wanted)
	}
	b.must(root, &ChangeCacheDirective{ID: new(int64(1)), Expiry: &CacheExpiry{0, true}})
	want = "{0 0 0 0} {7 7 1 1} {450 0 1 0} {0 0 0 0} {0 0 0 0} {457 7 2 1}"
	if got := uses(); got != want || len(wanted) != 1 {
		t.Errorf("when one has expired: %s\nwant %s; blocks %v", got, want, wanted)
	}
	room := func(o ChangeCacheDirective) string {
		pool, err := b.as(bob).CacheRoom(&o)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(pool, o.Size)
	}
	b.must(root, &ChangeCachePool{Add: true, Name: "free"})
	for _, c := range []struct {
		o    ChangeCacheDirective
		want string
	}{
		{ChangeCacheDirective{Path: new("/d"), Pool: new("p")}, "p180"}, {ChangeCacheDirective{Path: new("/d/f"), Pool: new("p")}, "p150"}, {ChangeCacheDirective{Path: new("/no"), Pool: new("p")}, "p0"},
		{ChangeCacheDirective{ID: new(int64(2)), Pool: new("p")}, "p7"}, {ChangeCacheDirective{ID: new(int64(2))}, "0"}, {ChangeCacheDirective{Path: new("/d"), Pool: new("free")}, "0"},
		{ChangeCacheDirective{Path: new("/d"), Pool: new("p"), Force: true}, "0"}, {ChangeCacheDirective{Path: new("/d"), Pool: new("none")}, "0"}, {ChangeCacheDirective{Path: new("d"), Pool: new("p")}, "0"},
	} {
		if got := room(c.o); got != c.want {
			t.Errorf("%+v: %s, want %s", c.o, got, c.want)
		}
	}
	check(t, b.v)
}

// TestCacheCommands: they are what they were after they were bytes, of the fifth version; who asks again gets the first answer.
func TestCacheCommands(t *testing.T) {
	b := newBench(t)
	b.must(root, &ChangeCachePool{Add: true, Name: "p"})
	changes := b.as(root).CacheChanges()
	c := Command{Time: b.now, Client: "c", Call: 4, Caller: root, Op: &ChangeCacheDirective{Path: new("/f"), Pool: new("p"), Replication: new(int64(-2)), Expiry: &CacheExpiry{5, true}, Size: 1, Taken: 2}}
	m, err := DecodeCommand(c.Encode())
	if err != nil || m.version != version5 || !bytes.Equal(m.Encode(), c.Encode()) {
		t.Fatalf("%+v %v", m, err)
	}
	c.Op.(*ChangeCacheDirective).Replication = nil
	for range 2 {
		r, err := Apply(b.v, c)
		if id, ok := r.(*DirectiveID); !ok || *id != 1 || err != nil {
			t.Errorf("%v %v", r, err)
		}
		r, err = DecodeAnswer(EncodeAnswer(r, err))
		if id, ok := r.(*DirectiveID); !ok || *id != 1 || err != nil {
			t.Errorf("%v %v as bytes", r, err)
		}
	}
	if now := b.as(root).CacheChanges(); now != changes+1 {
		t.Errorf("%d changes, and then %d", changes, now)
	}
	for place, want := range map[int]Op{34: &ChangeCachePool{}, 35: &RemoveCachePool{}, 36: &ChangeCacheDirective{}, 37: &RemoveCacheDirective{}} {
		if got := indexOf(ops, want); got != place {
			t.Errorf("%T is at %d, not %d", want, got, place)
		}
	}
	// A node of before stops at one, since it does not know the version.
	if v := c.Encode()[0]; v <= version4 {
		t.Errorf("version %d", v)
	}
}
