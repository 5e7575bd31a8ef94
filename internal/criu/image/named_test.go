package image

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestNamed: the name of a directory may hold what means something in a pattern.
func TestNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*\\")
	if found, err := Named(dir, "*"); found != nil || err != nil {
		t.Errorf("what is not there: %v %v", found, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, "mm-1.img"), filepath.Join(dir, "mm-2.img")}
	for _, path := range append(want, filepath.Join(dir, "mm-1")) {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := Named(dir, "mm-*.img"); !slices.Equal(found, want) || err != nil {
		t.Errorf("%v %v, want %v", found, err, want)
	}
	if _, err := Named(want[0], "*"); err == nil {
		t.Error("what is no directory is no error")
	}
	if _, err := Named(dir, "["); err == nil {
		t.Error("a bad pattern is no error")
	}
}
