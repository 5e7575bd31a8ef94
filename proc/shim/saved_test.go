package shim

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/proc"
)

// TestFilesThatAreMapped: a file that is written to through a mapping alone is made durable, and compared; what has no name is not.
func TestFilesThatAreMapped(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may follow mappings")
	}
	dir := t.TempDir()
	mapFile := func(name string, share int) (path string) {
		t.Helper()
		path = filepath.Join(dir, name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Truncate(4096); err != nil {
			t.Fatal(err)
		}
		m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, share)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Munmap(m) })
		return path
	}
	shared, private, gone := mapFile("shared", unix.MAP_SHARED), mapFile("private", unix.MAP_PRIVATE), mapFile("gone", unix.MAP_SHARED)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	files := map[[2]uint64]openFile{}
	if err := filesForWriting(os.Getpid(), nil, files); err != nil {
		t.Fatal(err)
	}
	found := map[string]openFile{}
	for _, f := range files {
		found[f.Path] = f
	}
	f, is := found[shared]
	if !is || f.mapped == "" || f.Size != 4096 {
		t.Fatalf("what is mapped: %v", found)
	}
	for _, path := range []string{private, gone, gone + " (deleted)"} {
		if _, is := found[path]; is {
			t.Errorf("%s is there", path)
		}
	}
	sv := saved{Files: []openFile{f}}
	if err := sv.syncFiles(); err != nil {
		t.Error(err)
	}
	if err := (saved{Files: []openFile{{mapped: f.mapped + "0"}}}).syncFiles(); err == nil {
		t.Error("what is not mapped was made durable")
	}
	if err := sv.rewind(proc.Spec{}); err != nil {
		t.Errorf("as it was: %v", err)
	}
	if err := os.Truncate(shared, 8192); err != nil {
		t.Fatal(err)
	}
	if err := sv.rewind(proc.Spec{}); !errors.Is(err, errChanged) {
		t.Errorf("changed since: %v", err)
	}
}
