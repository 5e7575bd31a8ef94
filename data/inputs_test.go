package data

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/data/datatest"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/warm"
)

func idOf(t *testing.T, path string) linux.FileID {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return linux.FileID{Dev: uint64(st.Dev), Ino: st.Ino}
}

func TestHad(t *testing.T) {
	dir := t.TempDir()
	var files []warm.File
	for _, name := range []string{"a", "b", "c", "d"} {
		files = append(files, warm.File{Path: testkit.ColdFile(t, dir, name, 100, 0o644), Size: 100})
	}
	gone := warm.File{Path: filepath.Join(dir, "gone"), Size: 100}
	for _, k := range []struct {
		name  string
		files []warm.File
		at    map[string]int64
		want  string
	}{
		{"none is open", files, nil, "[]"},
		{"in the first", files, map[string]int64{"a": 30}, "[a 30 b 0 c 0 d 0]"},
		{"in the second", files, map[string]int64{"b": 30}, "[b 30 c 0 d 0]"},
		{"at the end of the second", files, map[string]int64{"b": 100}, "[c 0 d 0]"},
		{"beyond the end", files, map[string]int64{"d": 300}, "[]"},
		{"in two, with one between", files, map[string]int64{"a": 30, "c": 0}, "[a 30 c 0 d 0]"},
		{"one is gone", []warm.File{files[0], gone, files[1]}, map[string]int64{"a": 1}, "[a 1 gone 0 b 0]"},
		{"another file is open", files, map[string]int64{".": 1}, "[]"},
	} {
		t.Run(k.name, func(t *testing.T) {
			at := map[linux.FileID]int64{}
			for name, pos := range k.at {
				at[idOf(t, filepath.Join(dir, name))] = pos
			}
			read, got := had(k.files, at), []string{}
			for i, f := range k.files {
				if read[i] < f.Size {
					got = append(got, fmt.Sprint(filepath.Base(f.Path), " ", read[i]))
				}
			}
			if fmt.Sprint(got) != k.want {
				t.Errorf("%v, want %s", got, k.want)
			}
		})
	}
}

// TestRestOfAnInput: who has read a part before has the rest kept, in whole blocks; also who reads on, and comes to wait again.
func TestRestOfAnInput(t *testing.T) {
	datatest.NeedCachestat(t)
	b := newBed(t)
	b.start()
	dir := testkit.OpenDir(t)
	const block = 16 << 20
	var paths []string
	for _, name := range []string{"a", "b", "c"} {
		paths = append(paths, testkit.ColdFile(t, dir, name, 2*block, 0o644))
	}
	in := Input{
		Key: "task:1", Name: "task 1", Alive: func() bool { return true }, Owner: linux.Self(), Paths: []string{dir}, Bytes: 6 * block,
		Positions: map[linux.FileID]int64{idOf(t, paths[1]): block + 5},
	}
	b.files.Keep(in)
	pinned := func() (all []int64) {
		for _, p := range paths {
			n, _ := b.calls().PinnedBy(p)
			all = append(all, n)
		}
		return all
	}
	want := []int64{0, block, 2 * block}
	testkit.Await(t, fmt.Sprint("pinned ", want), func() bool { return slices.Equal(pinned(), want) }, func() string { return fmt.Sprint(pinned()) })
	in.Positions = map[linux.FileID]int64{idOf(t, paths[2]): block}
	b.files.Keep(in)
	want = []int64{0, 0, block}
	testkit.Await(t, fmt.Sprint("pinned ", want, ", as it has read on"), func() bool { return slices.Equal(pinned(), want) }, func() string { return fmt.Sprint(pinned()) })
	in.Positions = nil
	b.files.Keep(in)
	var st warm.Status
	testkit.Await(t, "all kept, as it starts from the beginning", func() bool {
		st, _ = b.files.warming.engine.Status("task:1")
		return st.Bytes == 6*block && st.Pinned+st.Resident == 6*block
	}, func() string { return fmt.Sprintf("%+v", st) })
	b.files.LetGo("task:1")
	testkit.Await(t, "none pinned", func() bool { return slices.Equal(pinned(), []int64{0, 0, 0}) }, func() string { return fmt.Sprint(pinned()) })
}
