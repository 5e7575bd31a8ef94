package inputs

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// named makes files and returns how they are named, in another order than that of their names.
func (f *nameNode) named(dir string, from, n int) (paths []string) {
	for i := from; i < from+n; i++ {
		at := fmt.Sprintf("%s/%03d", dir, i)
		f.files[at] = nameFile{blocks: blocksOf(int64(len(f.files))+1, 1, "a.example")}
		paths = append(paths, "hdfs://c"+at)
	}
	slices.Reverse(paths)
	return paths
}

// TestManySiblings: where many files of a directory are named it is listed, and not each of them asked for; what they are and
// their order is the same.
func TestManySiblings(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{"/d/_hidden": {blocks: blocksOf(1000, 1, "a.example")}, "/d/below/x": {blocks: blocksOf(1001, 1, "a.example")}}}
	paths := append(f.named("/d", 0, 50), "hdfs://c/d/_hidden", "hdfs://c/d/none", "hdfs://c/d/below", "hdfs://c/d/007/", "hdfs://c/d/../d/008")
	few := f.named("/few", 0, siblings-1)
	f.named("/large", 0, 3000)
	large := f.named("/large", 4000, siblings)
	in := newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}})
	look := func(paths ...string) (names []string, faults faults, asked map[string]int) {
		t.Helper()
		f.mu.Lock()
		f.asked = nil
		f.mu.Unlock()
		found, done, err := in.find(t.Context(), "alice", paths)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		for _, file := range found.files {
			names = append(names, file.Name)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if blocks := f.asked["GET_BLOCK_LOCATIONS"]; blocks != len(names) || found.blocks != len(names) {
			t.Errorf("for %d files the blocks of %d are asked for, and %d are found", len(names), blocks, found.blocks)
		}
		return names, found.faults, f.asked
	}
	names, faults, asked := look(paths...)
	wantEqual(t, "names", names, append(slices.Clone(paths[:51]), "hdfs://c/d/below/x"))
	if faults.failed != 1 || faults.problems[0].Path != "hdfs://c/d/none" {
		t.Errorf("%+v", faults)
	}
	// The one that is not there, the directory, and the odd path are asked for by themselves.
	if asked["GETFILESTATUS"] != 3 || asked["LISTSTATUS_BATCH"] != 2 {
		t.Errorf("the name node was asked %v", asked)
	}
	if names, _, asked := look(few...); !slices.Equal(names, few) || asked["LISTSTATUS_BATCH"] != 0 {
		t.Errorf("%d of a few files; the name node was asked %v", len(names), asked)
	}
	if names, _, asked := look(large...); !slices.Equal(names, large) || asked["GETFILESTATUS"] != 0 {
		t.Errorf("%d of files behind many others; the name node was asked %v", len(names), asked)
	}
	large[0] = "hdfs://c/large/000"
	if names, _, asked := look(large...); !slices.Equal(names, large) || asked["GETFILESTATUS"] != siblings-1 {
		t.Errorf("%d of files far behind the first; the name node was asked %v", len(names), asked)
	}
}

// TestSideBySide: files of which none is beside another are looked up several at a time: a job may name thousands.
func TestSideBySide(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{}}
	var paths []string
	for i := range 2 * lookups {
		paths = append(paths, f.named(fmt.Sprintf("/d%02d", i), 0, 1)...)
	}
	var mu sync.Mutex
	waiting, together := map[string]int{}, map[string]chan struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, op := range []string{"GETFILESTATUS", "GET_BLOCK_LOCATIONS"} {
		together[op] = make(chan struct{})
	}
	f.gate = func(op string) {
		mu.Lock()
		if waiting[op]++; waiting[op] == lookups {
			close(together[op])
		}
		mu.Unlock()
		select {
		case <-together[op]:
		case <-ctx.Done():
		}
	}
	in := newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}})
	found, done, err := in.find(ctx, "alice", paths)
	if err != nil {
		t.Fatalf("fewer than %d are asked for at a time: %v", lookups, err)
	}
	defer done()
	for i, file := range found.files {
		if file.Name != paths[i] {
			t.Errorf("file %d is %s, want %s", i, file.Name, paths[i])
		}
	}
	if len(found.files) != len(paths) {
		t.Errorf("%d files of %d", len(found.files), len(paths))
	}
}
