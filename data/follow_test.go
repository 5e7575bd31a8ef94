package data

import (
	"fmt"
	"testing"

	"headrace/data/datatest"
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
	f := b.files.NewFollower()
	if f.Begin() {
		t.Error("there is nothing to measure, and it begins")
	}
	for key, path := range map[string]string{"both": dir, "cold": cold, "many": many, "none": dir + "/none", "gone": hot} {
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
	if f.files != 0 || f.Begin() {
		t.Errorf("%d files are followed for nobody", f.files)
	}
}
