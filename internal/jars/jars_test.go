package jars

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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

// TestClean: the Makefile knows where copies are kept. What was built goes with make clean, which names them; they go when that is
// asked for, and nothing beside them.
func TestClean(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("there is no make")
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	tree, caches := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CACHE_HOME", caches)
	lib, beside := filepath.Join(tree, "lib"), filepath.Join(caches, "another")
	built := filepath.Join(tree, "bin")
	if err := errors.Join(os.WriteFile(filepath.Join(tree, "Makefile"), makefile, 0o600), os.Mkdir(built, 0o700), os.Mkdir(beside, 0o700),
		os.Mkdir(lib, 0o700), os.WriteFile(filepath.Join(lib, "a.jar"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	kept, err := Keep(lib)
	if err != nil {
		t.Fatal(err)
	}
	there := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	run := func(target string) string {
		t.Helper()
		cmd := exec.Command("make", "GO=false", "MVN=false", "XDG_CACHE_HOME="+caches, target)
		cmd.Dir = tree
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("make %s: %v\n%s", target, err, out)
		}
		return string(out)
	}
	if said := run("clean"); !strings.Contains(said, caches+"/headrace") || !strings.Contains(said, "make clean-kept") || there(built) || !there(kept[0]) {
		t.Errorf("make clean says %q; built is there: %v, kept: %v", said, there(built), there(kept[0]))
	}
	if run("clean-kept"); there(kept[0]) || !there(beside) {
		t.Errorf("after make clean-kept what was kept is there: %v, what is beside it: %v", there(kept[0]), there(beside))
	}
	if said := run("clean"); strings.Contains(said, "stay") {
		t.Errorf("make clean, where nothing is kept, says %q", said)
	}
}
