package data

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/data/datatest"
	"headrace/internal/budget"
	"headrace/internal/linux"
	"headrace/internal/testkit"
)

func TestFollower(t *testing.T) {
	datatest.NeedCachestat(t)
	b := newBed(t)
	b.start()
	dir, many := testkit.OpenDir(t), testkit.OpenDir(t)
	hot, cold := testkit.File(t, dir, "hot", datatest.FileSize, 0o644), testkit.File(t, dir, "cold", datatest.FileSize, 0o644)
	testkit.DropFile(t, cold)
	for i := range maxFollowedOne + 1 {
		testkit.File(t, many, fmt.Sprint(i), 1, 0o644)
	}
	cred, err := me().Credentials()
	if err != nil {
		t.Fatal(err)
	}
	f := b.follower()
	if f.Begin() {
		t.Error("there is nothing to measure, and it begins")
	}
	large := testkit.File(t, testkit.OpenDir(t), "large", 1, 0o644)
	if err := os.Truncate(large, maxFollowedBytesOne+1); err != nil {
		t.Skip(err)
	}
	for key, path := range map[string]string{"both": dir, "cold": cold, "many": many, "large": large, "none": dir + "/none", "gone": hot} {
		if !f.Follow(key, cred, []string{path}) {
			t.Errorf("%s is not followed", key)
		}
	}
	f.Drop("gone")
	measure := func() map[string]int64 {
		t.Helper()
		if !f.Begin() || f.Begin() {
			t.Error("not one measurement at a time")
		}
		resident, err := f.Measure(t.Context())
		if err != nil {
			t.Error(err)
		}
		return resident
	}
	got := measure()
	for key, want := range map[string]int64{"both": datatest.FileSize, "cold": 0} {
		if n, known := got[key]; n != want || !known {
			t.Errorf("%s: %d, %v; want %d", key, n, known, want)
		}
	}
	if len(got) != 2 || f.files != 3 {
		t.Errorf("%v of %d files: no more than two sets are known, of three files", got, f.files)
	}
	testkit.DropFile(t, hot)
	f.Drop("cold")
	if got := measure(); len(got) != 1 || got["both"] != 0 {
		t.Errorf("afterwards: %v", got)
	}
	f.Drop("both")
	if f.files != 0 || f.bytes != 0 || f.Begin() {
		t.Errorf("%d files of %d bytes are followed for nobody", f.files, f.bytes)
	}
}

// A set that there is no room for waits until others are dropped.
func TestFollowerIsFull(t *testing.T) {
	datatest.NeedCachestat(t)
	b := newBed(t)
	b.start()
	path := testkit.File(t, testkit.OpenDir(t), "f", 1, 0o644)
	cred, err := me().Credentials()
	if err != nil {
		t.Fatal(err)
	}
	f := b.follower()
	f.bytes = maxFollowedBytes - maxFollowedBytesOne + 1
	f.Follow("waits", cred, []string{path})
	for _, want := range []int{0, 1} {
		if !f.Begin() {
			t.Fatal("nothing is measured")
		}
		if got, err := f.Measure(t.Context()); err != nil || len(got) != want {
			t.Errorf("%v, %v; want %d sets", got, err, want)
		}
		f.bytes = 0
	}
	f.Drop("waits")
}

// What ordinary users have followed leaves room for others, and for root.
func TestFollowerHasPartsForAll(t *testing.T) {
	f := (&Files{}).NewFollower()
	sets := func(uid uint32) (n int) {
		for f.takeRoom(uid) {
			n++
			f.mu.Lock()
			f.files += maxFollowedOne
			f.mu.Unlock()
		}
		return n
	}
	f.bytesOf = budget.Ordinary("bytes", 1<<60, 1<<60)
	const part = maxFollowed / followedParts / maxFollowedOne
	for _, c := range []struct {
		uid  uint32
		want int
	}{{54321, part}, {54322, part}, {54323, part}, {54324, 0}, {uint32(os.Geteuid()), part}} {
		if got := sets(c.uid); got != c.want {
			t.Errorf("user %d has %d sets followed, want %d", c.uid, got, c.want)
		}
	}
}

// Paths that lead to a file server that does not answer keep those who follow others waiting once.
func TestFollowerBesideSilentServer(t *testing.T) {
	datatest.NeedCachestat(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can look with the rights of others")
	}
	b := newBed(t)
	b.start()
	dir, silent := testkit.OpenDir(t), t.TempDir()
	fail := testkit.SilentFS(t, silent)
	hot := testkit.File(t, dir, "hot", datatest.FileSize, 0o644)
	f := b.follower()
	f.within = time.Second
	stranger := linux.Credentials{UID: 54321, GID: 54321}
	if err := os.Chown(hot, 54321, 54321); err != nil { // what is in memory of a file its owner may know
		t.Fatal(err)
	}
	f.Follow("silent", linux.Self(), []string{silent + "/x"})
	f.Follow("behind", linux.Self(), []string{dir})
	f.Follow("other", stranger, []string{dir})
	measure := func(of ...string) bool {
		t.Helper()
		if !f.Begin() { // all sets are being looked up still
			return false
		}
		resident, err := f.Measure(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range of {
			if resident[key] != datatest.FileSize {
				return false
			}
		}
		return true
	}
	testkit.Await(t, "another user's set to be followed", func() bool { return measure("other") })
	f.Follow("later", linux.Self(), []string{dir})
	f.Follow("new", stranger, []string{dir})
	f.within = 2 * time.Minute
	began := time.Now()
	if !measure("other", "new") {
		t.Error("a new set of another user was not followed")
	}
	if took := time.Since(began); took >= f.within {
		t.Errorf("a server that is known to be silent has held up a measurement for %v", took)
	}
	fail()
	f.within = time.Second
	testkit.Await(t, "all sets to be followed", func() bool { return measure("behind", "other", "later", "new") })
	for _, key := range []string{"silent", "behind", "other", "later", "new"} {
		f.Drop(key)
	}
}

// What somebody has read of a set, and what of that is in memory.
func TestFollowerTellsWhatWasRead(t *testing.T) {
	datatest.NeedCachestat(t)
	b := newBed(t)
	b.start()
	dir := testkit.OpenDir(t)
	const size = datatest.FileSize
	var ids []linux.FileID
	for _, name := range []string{"a", "b", "c"} {
		var st unix.Stat_t
		if err := unix.Stat(testkit.File(t, dir, name, size, 0o644), &st); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, linux.FileID{Dev: uint64(st.Dev), Ino: st.Ino})
	}
	testkit.DropFile(t, dir+"/b")
	cred, err := me().Credentials()
	if err != nil {
		t.Fatal(err)
	}
	f := b.follower()
	if _, _, known := f.Had("x", nil, 0); known {
		t.Error("something is known of a set that is not followed")
	}
	f.Follow("x", cred, []string{dir})
	if _, _, known := f.Had("x", nil, 0); known {
		t.Error("something is known of a set that was never looked at")
	}
	if !f.Begin() {
		t.Fatal("there is nothing to measure")
	}
	if _, err := f.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer f.Drop("x")
	for _, x := range []struct {
		at         map[linux.FileID]int64
		asked      int64
		read, cold int64
	}{
		{nil, 0, 0, 0},                                                          // it has not begun
		{nil, 3*size - 1, 0, 0},                                                 // it has opened none of them yet, or reads them by mapping
		{nil, 3 * size, 3 * size, size},                                         // all of it
		{map[linux.FileID]int64{ids[0]: 1000}, 1000, 1000, 0},                   // in the first, which is in memory
		{map[linux.FileID]int64{ids[1]: 1000}, 0, size + 1000, 1000},            // in the second, which is not
		{map[linux.FileID]int64{ids[2]: 10}, 0, 2*size + 10, size},              // in the third
		{map[linux.FileID]int64{ids[0]: 7 * size}, 0, size, 0},                  // beyond its end
		{map[linux.FileID]int64{{Dev: 1, Ino: 1}: 7}, 5 * size, 3 * size, size}, // something else is open
	} {
		read, cold, known := f.Had("x", x.at, x.asked)
		if !known || read != x.read || cold != x.cold {
			t.Errorf("%+v: %d, %d cold, %v", x, read, cold, known)
		}
	}
}
