package jars

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Copies are found from any checkout with the same jars, outlive the first, and are not taken for those of another.
func TestKeep(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	checkout := func(text string) []string {
		top := t.TempDir()
		dirs := []string{filepath.Join(top, "lib"), filepath.Join(top, "hdfs")}
		for _, dir := range dirs {
			must(t, os.Mkdir(dir, 0o755))
			must(t, os.WriteFile(filepath.Join(dir, "a-1.0.jar"), []byte(text), 0o644))
		}
		return dirs
	}
	first, second, other := checkout("some"), checkout("some"), checkout("other")
	if got := Kept(first...); !slices.Equal(got, first) {
		t.Errorf("before there are copies: %v", got)
	}
	copies, err := Keep(first...)
	must(t, err)
	must(t, os.RemoveAll(filepath.Dir(first[0])))
	if got := Kept(second...); !slices.Equal(got, copies) || filepath.Dir(got[0]) != filepath.Dir(got[1]) {
		t.Errorf("of a second checkout: %v, want %v", got, copies)
	}
	if again, err := Keep(second...); err != nil || !slices.Equal(again, copies) {
		t.Errorf("kept again: %v, %v", again, err)
	}
	if got := Kept(other...); !slices.Equal(got, other) {
		t.Errorf("of other jars: %v", got)
	}
	must(t, os.Truncate(filepath.Join(copies[1], "a-1.0.jar"), 1))
	if got := Kept(second...); !slices.Equal(got, second) {
		t.Errorf("of a copy that is damaged: %v", got)
	}
	if _, err := Keep(second...); err != nil || !slices.Equal(Kept(second...), copies) {
		t.Errorf("a copy that is damaged is not made again: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
