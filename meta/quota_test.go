package meta

import "testing"

func TestQuotaOfNames(t *testing.T) {
	b := newBench(t)
	b.mkdir("/q/a", "/other/x")
	quota := func(path string, names, space int64) { b.must(root, &SetQuota{path, names, space}) }
	b.refused(alice, &SetQuota{"/q", 1, 1}, "AccessControlException", "Access denied for user alice.")
	b.refused(root, &SetQuota{"/none", 1, 1}, "FileNotFoundException", "Directory does not exist: /none")
	b.refused(root, &SetQuota{"/q", -2, 1}, "IllegalArgumentException", "Illegal value for nsQuota or ssQuota : -2 and 1")
	quota("/q", 3, KeepQuota)
	b.mkdir("/q/b")
	const full = "The NameSpace quota (directories and files) of directory /q is exceeded: quota=3 file count=4"
	b.refused(root, &Mkdirs{Path: "/q/c", Parents: true}, "NSQuotaExceededException", full)
	b.refused(root, &Create{Path: "/q/f", Flags: FlagCreate, Replication: 1, BlockSize: 100}, "NSQuotaExceededException", full)
	b.refused(root, &Rename{From: "/other/x", To: "/q/x"}, "NSQuotaExceededException", full)
	b.refused(root, &Rename{From: "/other/x", To: "/q/x", Old: true}, "NSQuotaExceededException", full)
	b.must(root, &Rename{From: "/other/x", To: "/q/a", Overwrite: true}) // in the place of another
	b.must(root, &Rename{From: "/q/a", To: "/q/b/a"})                    // within
	b.says(root, &Delete{"/q/b", true}, true)
	// What there was room for stays.
	_, err := b.try(root, &Mkdirs{Path: "/q/1/2/3/4", Mode: 0o755, Parents: true})
	b.isError(err, "NSQuotaExceededException", full)
	if b.stat("/q/1/2") == nil || b.stat("/q/1/2/3") != nil {
		t.Error("not as many as fit were made")
	}
	check(t, b.v)
	quota("/q", 1, KeepQuota) // less than there is
	b.refused(root, &Mkdirs{Path: "/q/x", Parents: true}, "NSQuotaExceededException", "The NameSpace quota (directories and files) of directory /q is exceeded: quota=1 file count=4")
	quota("/q", ClearQuota, KeepQuota)
	b.mkdir("/q/x")
	quota("/", 3, KeepQuota)
	b.refused(root, &Mkdirs{Path: "/y", Parents: true}, "NSQuotaExceededException", "The NameSpace quota (directories and files) of directory / is exceeded: quota=3 file count=")
	quota("/", ClearQuota, KeepQuota)
	if s, _ := b.as(root).Summary("/"); s.NameQuota != maxQuota {
		t.Error(s.NameQuota)
	}
	check(t, b.v)
}

func TestQuotaOfSpace(t *testing.T) {
	b := newBench(t)
	b.mkdir("/q")
	b.must(root, &SetQuota{"/q", KeepQuota, 1000})
	b.must(root, &SetQuota{"/", KeepQuota, 1 << 40})
	v := b.open(root, "/q/f") // blocks of 100 with three copies
	add := func(previous *Block) *AddBlock {
		return &AddBlock{Path: "/q/f", ID: v.ID, Holder: "root", Previous: previous, Copies: 1, Nodes: []string{"n"}}
	}
	next := func(size int64, previous *Block) *Block {
		a := b.must(root, add(previous)).(*Allocated)
		return &Block{a.ID, a.Stamp, size}
	}
	last := next(100, next(100, next(100, nil)))
	_, err := b.try(root, add(last))
	b.isError(err, "DSQuotaExceededException", "The DiskSpace quota of /q is exceeded: quota = 1000 B = 1000 B but diskspace consumed = 1200 B = 1.17 KB")
	b.says(root, &Complete{Path: "/q/f", ID: v.ID, Holder: "root", Last: last, Copies: 1}, true)
	check(t, b.v)
	b.refused(root, &SetReplication{"/q/f", 4}, "DSQuotaExceededException", "The DiskSpace quota of /q is exceeded")
	b.says(root, &SetReplication{"/q/f", 2}, true)
	b.must(root, &Truncate{Path: "/q/f", Size: 250, Holder: "root", Machine: "m"}) // which takes as much as before
	for _, r := range b.as(root).Recoveries() {
		b.must(root, &CommitRecovery{Block: r.Block.ID, Stamp: r.Stamp, Size: r.Cut, Close: true, Nodes: []string{"n"}})
	}
	if s, _ := b.as(root).QuotaUsage("/q"); s.Space != 500 || s.SpaceQuota != 1000 {
		t.Errorf("%+v", s)
	}
	check(t, b.v)
	b.must(root, &SetQuota{"/q", KeepQuota, 550})
	b.refused(root, &Append{Path: "/q/f", Holder: "h", Machine: "m"}, "DSQuotaExceededException", "The DiskSpace quota of /q is exceeded: quota = 550 B = 550 B but diskspace consumed = 600 B = 600 B")
	b.refused(root, &Truncate{Path: "/q/f", Size: 240, Holder: "root"}, "DSQuotaExceededException", "The DiskSpace quota of /q is exceeded")
	b.write(root, b.open(root, "/g").ID, 100)
	b.refused(root, &Rename{From: "/g", To: "/q/g"}, "DSQuotaExceededException", "The DiskSpace quota of /q is exceeded: quota = 550 B = 550 B but diskspace consumed = 800 B = 800 B")
	b.must(root, &Rename{From: "/g", To: "/q/f", Overwrite: true})
	check(t, b.v)
}

// TestBlockSize: no quota is lifted by a block whose copies take more than can be counted.
func TestBlockSize(t *testing.T) {
	b := newBench(t)
	create := func(size int64) *Create {
		return &Create{Path: "/f", Holder: "root", Flags: FlagCreate, Replication: 512, BlockSize: size}
	}
	b.refused(root, create(3<<61), "IOException", "Specified block size 6917529027641081856 is greater than 1099511627776")
	b.must(root, &SetQuota{"/", KeepQuota, 1 << 49})
	id := b.must(root, create(1<<40)).(*Status).ID
	add := &AddBlock{Path: "/", ID: id, Holder: "root", Nodes: []string{"n"}}
	a := b.must(root, add).(*Allocated).Block
	a.Size, add.Previous, add.Copies = 1, &a, 1
	_, err := b.try(root, add)
	b.isError(err, "DSQuotaExceededException", "The DiskSpace quota of / is exceeded")
}

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KB", 1536: "1.50 KB", -1536: "-1.50 KB", 1<<20 - 1: "1.00 MB", 1152: "1.13 KB", 5 << 30: "5 GB", 1<<60 + 1<<59: "1.50 EB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d is %q, not %q", n, got, want)
		}
	}
}
