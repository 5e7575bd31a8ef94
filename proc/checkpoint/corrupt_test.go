package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A wound damages one file of an image. It reports false if the file cannot be
// damaged in this way.
type wound struct {
	name string
	do   func(r *rand.Rand, b []byte) ([]byte, bool)
}

var wounds = []wound{
	{"flipped bit", func(r *rand.Rand, b []byte) ([]byte, bool) {
		if len(b) == 0 {
			return b, false
		}
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		return b, true
	}},
	{"cut off", func(r *rand.Rand, b []byte) ([]byte, bool) {
		if len(b) == 0 {
			return b, false
		}
		return b[:r.IntN(len(b))], true
	}},
	{"longer", func(r *rand.Rand, b []byte) ([]byte, bool) { return append(b, make([]byte, 1+r.IntN(10000))...), true }},
	{"zeroed block", func(r *rand.Rand, b []byte) ([]byte, bool) {
		old := bytes.Clone(b)
		if len(b) > 0 {
			off := r.IntN(len(b)) &^ 4095
			clear(b[off:min(off+4096, len(b))])
		}
		return b, !bytes.Equal(b, old)
	}},
}

func TestDamageIsDetected(t *testing.T) {
	for _, compress := range []bool{false, true} {
		t.Run(fmt.Sprintf("zstd=%v", compress), func(t *testing.T) {
			r := rand.New(rand.NewPCG(8, 8))
			s := openStore(t, Options{Compress: compress})
			w := &world{r, make(memory)}
			for range 3 {
				w.step()
				checkpoint(t, s, "task", w.m, BeginOptions{})
			}
			paths, err := filepath.Glob(filepath.Join(s.Dir, "task", "*", "*"))
			if err != nil || len(paths) < 12 {
				t.Fatalf("files %v: %v", paths, err)
			}
			for _, path := range paths {
				if filepath.Base(path) == parentLink {
					continue
				}
				good, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				for _, wound := range wounds {
					for range 2 {
						bad, ok := wound.do(r, bytes.Clone(good))
						if !ok {
							continue
						}
						os.WriteFile(path, bad, 0o600)
						expectDamage(t, s, path, wound.name)
					}
				}
				os.Remove(path)
				if filepath.Base(path) != manifestName {
					expectDamage(t, s, path, "missing")
				}
				os.WriteFile(path, good, 0o600)
			}
			images, _ := s.Images("task")
			if err := images[len(images)-1].Verify(t.Context(), nil); err != nil {
				t.Fatalf("mended, but: %v", err)
			}
		})
	}
}

// expectDamage expects that the newest image cannot be used, and that the error
// names the file.
func expectDamage(t *testing.T, s *Store, path, what string) {
	t.Helper()
	images, err := s.Images("task")
	if err != nil || len(images) == 0 {
		t.Fatalf("%s: %s: images %v, %v", path, what, images, err)
	}
	im := images[len(images)-1]
	for _, err := range []error{im.Verify(t.Context(), nil), openDamaged(t, im, path)} {
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%s: %s: found %v, want damage", path, what, err)
		}
		if !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %s: the error does not name the file: %v", path, what, err)
		}
	}
}

// openDamaged opens an image for a restore, if that checks the damaged file.
func openDamaged(t *testing.T, im *Image, path string) error {
	needed := !strings.HasSuffix(path, indexSuffix) && (filepath.Dir(path) == im.Dir || filepath.Base(path) != inventoryName)
	if im.Err == nil && (!im.Compressed || !needed) {
		return im.Verify(t.Context(), nil)
	}
	scratch := t.TempDir()
	_, _, err := im.Open(t.Context(), scratch)
	if left, _ := os.ReadDir(scratch); len(left) != 0 {
		t.Errorf("left in scratch: %v", left)
	}
	return err
}

func TestDamagedParentIsNotUsed(t *testing.T) {
	s := openStore(t, Options{})
	w := &world{rand.New(rand.NewPCG(3, 3)), make(memory)}
	w.step()
	im := checkpoint(t, s, "task", w.m, BeginOptions{})
	for _, pattern := range []string{"*" + indexSuffix, manifestName, "pages-*.img"} {
		paths, _ := filepath.Glob(filepath.Join(im.Dir, pattern))
		path := paths[len(paths)-1]
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bad := bytes.Clone(good[:len(good)-1])
		if pattern != "pages-*.img" {
			bad = append(bad, good[len(good)-1]^1)
		}
		os.WriteFile(path, bad, 0o600)
		writer, err := s.Begin("task", BeginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(writer.Full(), path) {
			t.Errorf("%s damaged: full because %q", path, writer.Full())
		}
		if err := writer.Abort(); err != nil {
			t.Fatal(err)
		}
		os.WriteFile(path, good, 0o600)
	}
	if next := checkpoint(t, s, "task", w.m, BeginOptions{}); next.Chain != 2 {
		t.Errorf("undamaged: chain %d, want 2", next.Chain)
	}
}

func TestWrongParentLink(t *testing.T) {
	s := openStore(t, Options{})
	m := memory{"pagemap-1": {0: bytes.Repeat([]byte{9}, pageSize)}}
	for range 3 {
		checkpoint(t, s, "task", m, BeginOptions{})
	}
	link := filepath.Join(s.imageDir("task", 3), parentLink)
	os.Remove(link)
	expectDamage(t, s, link, "missing")
	os.Symlink("../000001", link)
	expectDamage(t, s, link, "to another image")
}

func TestImagesOfAnotherTask(t *testing.T) {
	s := openStore(t, Options{})
	checkpoint(t, s, "a", memory{}, BeginOptions{})
	checkpoint(t, s, "b", memory{}, BeginOptions{})
	if err := os.Rename(s.imageDir("a", 1), s.imageDir("b", 2)); err != nil {
		t.Fatal(err)
	}
	images, err := s.Images("b")
	if err != nil || len(images) != 2 || images[0].Err != nil || !errors.Is(images[1].Err, ErrCorrupt) {
		t.Errorf("images %+v, %v", images, err)
	}
}

func TestNewerVersion(t *testing.T) {
	s := openStore(t, Options{})
	im := checkpoint(t, s, "task", memory{}, BeginOptions{})
	os.WriteFile(filepath.Join(im.Dir, manifestName), []byte(manifestMagic+" 2 0123\nwhatever"), 0o600)
	images, err := s.Images("task")
	if err != nil || len(images) != 1 || !errors.Is(images[0].Err, ErrVersion) || errors.Is(images[0].Err, ErrCorrupt) {
		t.Fatalf("images %+v, %v", images, err)
	}
	if err := s.Collect("task"); !errors.Is(err, ErrVersion) {
		t.Errorf("collect: %v, want ErrVersion", err)
	}
	if err := images[0].Verify(t.Context(), nil); !errors.Is(err, ErrVersion) {
		t.Errorf("verify: %v, want ErrVersion", err)
	}
}

func TestVerifyProgressAndCancel(t *testing.T) {
	for _, compress := range []bool{false, true} {
		s := openStore(t, Options{Compress: compress})
		w := &world{rand.New(rand.NewPCG(4, 4)), make(memory)}
		var im *Image
		for range 3 {
			w.step()
			im = checkpoint(t, s, "task", w.m, BeginOptions{})
		}
		var last, total int64
		err := im.Verify(t.Context(), func(d, n int64) {
			if d < last || d > n {
				t.Errorf("progress %d of %d after %d", d, n, last)
			}
			last, total = d, n
		})
		if err != nil || last != total || total != im.BytesToRead() {
			t.Errorf("read %d of %d, want %d: %v", last, total, im.BytesToRead(), err)
		}
		ctx, cancel := cancelAfter(t, 3)
		if err := im.Verify(ctx, cancel); !errors.Is(err, ctx.Err()) || errors.Is(err, ErrCorrupt) {
			t.Errorf("cancelled: %v", err)
		}
		if compress {
			scratch := t.TempDir()
			if _, _, err := im.Open(ctx, scratch); !errors.Is(err, ctx.Err()) || errors.Is(err, ErrCorrupt) {
				t.Errorf("open, cancelled: %v", err)
			}
			if left, _ := os.ReadDir(scratch); len(left) != 0 {
				t.Errorf("left in scratch: %v", left)
			}
		}
	}
}
