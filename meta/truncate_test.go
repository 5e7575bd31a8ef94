package meta

import (
	"slices"
	"testing"
)

// TestTruncate: at the end of a block a file is cut at once; within one it is open until the block's nodes have cut it.
func TestTruncate(t *testing.T) {
	b := newBench(t)
	alice := alice2(b)
	v := b.open(alice, "/f")
	sizes := []int64{100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 60} // more than lie in the record
	b.write(alice, v.ID, sizes...)
	cut := func(size int64, block uint64) *Truncate {
		return &Truncate{Path: "/f", Size: size, Holder: "t", Machine: "m", Block: block, Nodes: []string{"n3"}}
	}
	b.refused(alice, cut(-1, 0), "HadoopIllegalArgumentException", "Cannot truncate to a negative file size: -1.")
	b.refused(alice, cut(1161, 0), "HadoopIllegalArgumentException", "Cannot truncate to a larger file size. Current size: 1160, truncate size: 1161.")
	b.refused(bob, cut(5, 0), "AccessControlException", "Permission denied: user=bob, access=WRITE")
	b.refused(alice, &Truncate{Path: "/none"}, "FileNotFoundException", "File does not exist: /none")
	b.refused(root, &Truncate{Path: "/"}, "FileNotFoundException", "Path is not a file: /")
	b.says(alice, cut(1160, 0), true)
	b.says(alice, cut(400, 0), true)
	if got := b.layout("/f"); got != "0+100 100+100 200+100 300+100" {
		t.Error(got)
	}
	last := b.stat("/f").Located.Last
	b.says(alice, cut(250, last.ID-1), false)
	third := b.stat("/f").Located.Last
	if closed, _ := b.as(alice).Closed("/f"); closed || b.stat("/f").Size != 300 || !slices.Equal(third.Nodes, []string{"n3"}) || third.ID != last.ID-1 {
		t.Error("the file is closed, or shorter already, or elsewhere", closed, b.stat("/f").Size, third)
	}
	b.says(bob2(b, "/f"), cut(250, 0), false)
	b.refused(alice, cut(249, 0), "AlreadyBeingCreatedException", "Failed to TRUNCATE_FILE /f for t on m because /f is being truncated.")
	b.refused(alice, &Append{Path: "/f", Holder: "h", Machine: "m"}, "RecoveryInProgressException", "Failed to APPEND_FILE /f for h on m because another recovery is in progress by t on m")
	rs := b.as(root).Recoveries()
	if len(rs) != 1 || rs[0].Cut != 50 || rs[0].Stamp <= third.Stamp {
		t.Fatalf("%+v", rs)
	}
	b.refused(root, &CommitRecovery{Block: third.ID, Stamp: rs[0].Stamp, Size: 60, Close: true, Nodes: []string{"n3"}}, "IOException", "")
	check(t, b.v)
	// Whoever takes the file over meanwhile gets it when it is cut, under a newer stamp.
	b.now += recoveryTime
	b.says(alice, &RecoverLease{"/f", "other"}, false)
	b.refused(root, &CommitRecovery{Block: third.ID, Stamp: rs[0].Stamp, Size: 50, Close: true, Nodes: []string{"n3"}}, "IOException", "The recovery id")
	rs = b.as(root).Recoveries()
	b.must(root, &CommitRecovery{Block: third.ID, Stamp: rs[0].Stamp, Size: 50, Close: true, Nodes: []string{"n3"}})
	if closed, _ := b.as(alice).Closed("/f"); !closed || b.layout("/f") != "0+100 100+100 200+50" || b.stat("/f").Located.Last.Stamp != rs[0].Stamp {
		t.Error(closed, b.layout("/f"), b.stat("/f").Located.Last)
	}
	b.says(alice, cut(250, 0), true)
	b.says(alice, cut(0, 0), true)
	if v := b.stat("/f"); v.Size != 0 || len(b.as(root).Garbage(0, 100)) != len(sizes) {
		t.Errorf("%+v, %d blocks are garbage", v, len(b.as(root).Garbage(0, 100)))
	}
	check(t, b.v)
}

// bob2 is bob, who may write to a file.
func bob2(b *bench, path string) Caller {
	b.must(root, &SetPermission{path, 0o666})
	return bob
}
