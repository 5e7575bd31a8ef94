package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestStoreGoes: a store that goes when it has been opened, or is in use, has not lost its images, and nothing is made in its place. When
// it is back all is as it was.
func TestStoreGoes(t *testing.T) {
	for _, empty := range []bool{false, true} {
		for _, compress := range []bool{false, true} {
			t.Run(fmt.Sprintf("empty directory %v, compressed %v", empty, compress), func(t *testing.T) {
				place := filepath.Join(t.TempDir(), "store")
				id, err := Mark(place)
				if err != nil {
					t.Fatal(err)
				}
				s, err := Open(place, Options{ID: id, Compress: compress, Patience: time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				im := checkpoint(t, s, "t1", page(1), BeginOptions{})
				next, err := s.Begin("t2", BeginOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer next.Abort()
				if err := (fakeCriu{}).dumpInto(next, page(2), nil); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(place, place+".mounted"); err != nil {
					t.Fatal(err)
				}
				if empty {
					if err := os.Mkdir(place, 0o700); err != nil {
						t.Fatal(err)
					}
				}
				for what, do := range map[string]func() error{
					"images":  func() error { _, err := s.Images("t1"); return err },
					"verify":  func() error { return im.Verify(t.Context(), nil) },
					"discard": func() error { return s.Discard("t1", im.Seq) },
					"collect": func() error { return s.Collect("t1") },
					"remove":  func() error { return s.Remove("t1") },
					"begin":   func() error { _, err := s.Begin("t1", BeginOptions{}); return err },
					"commit":  func() error { _, err := next.Commit(nil); return err },
					"import": func() error {
						_, err := s.Import(t.Context(), "t1", func(func(string) (*os.File, error)) error { return nil })
						return err
					},
				} {
					if err := do(); !errors.Is(err, ErrNotThere) || !errors.Is(err, ErrUnreadable) || errors.Is(err, ErrCorrupt) {
						t.Errorf("%s: %v", what, err)
					}
				}
				if _, _, err := im.Open(t.Context(), t.TempDir()); err == nil || errors.Is(err, ErrCorrupt) {
					t.Errorf("open: %v", err)
				}
				if left, err := os.ReadDir(place); len(left) > 0 || empty == (err != nil) {
					t.Errorf("in the place of the store is %v, %v", left, err)
				}
				if err := errors.Join(os.RemoveAll(place), os.Rename(place+".mounted", place)); err != nil {
					t.Fatal(err)
				}
				if images, err := s.Images("t1"); err != nil || len(images) != 1 {
					t.Fatal(images, err)
				}
				compareMemory(t, restored(t, im), page(1))
			})
		}
	}
}

// TestStoreGoesBelowStaleImage: nothing is committed to an image directory of the same name that lies in the place of the store.
func TestStoreGoesBelowStaleImage(t *testing.T) {
	place := filepath.Join(t.TempDir(), "store")
	id, err := Mark(place)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(place, Options{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Begin("t1", BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := errors.Join(os.Rename(place, place+".mounted"), os.MkdirAll(w.Dir(), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := (fakeCriu{}).dumpInto(w, page(1), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(nil); !errors.Is(err, ErrNotThere) {
		t.Error(err)
	}
	if _, err := readManifest(w.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is committed: %v", err)
	}
}
