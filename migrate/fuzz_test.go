package migrate

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func testSealer(t testing.TB) sealer {
	t.Helper()
	s, err := newSealer(testToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// FuzzManifest: what carries no mark of ours is refused; what does, and is garbage,
// too; what is accepted is in itself consistent.
func FuzzManifest(f *testing.F) {
	s := testSealer(f)
	m := &Manifest{Description: describe("k"), ID: NewID(), Raw: 5, Size: 5, Parts: []int{1}, Blocks: []Block{{Size: 5}},
		Files: []File{{In: InImage, Path: "000001/x", Type: Regular, Size: 3}, {In: InPlace, Path: "/a", Type: Symlink, Link: "b"}}}
	if err := m.check(); err != nil {
		f.Fatal(err)
	}
	b, err := m.encode(s)
	if err != nil {
		f.Fatal(err)
	}
	_, body, _ := bytes.Cut(b, []byte{'\n'})
	f.Add(b)
	f.Add(body)
	f.Add([]byte(`{"parts":[-1],"blocks":["0:"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parseManifest(s, b); err == nil {
			if err := m.check(); err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForged) && !errors.Is(err, ErrVersion) {
			t.Errorf("%v has no kind", err)
		}
		// The same with a mark.
		head := []byte("headrace-archive 1 ")
		marked := append(append([]byte(nil), head...), []byte(hexOf(s.mark(head, b))+"\n")...)
		m, err := parseManifest(s, append(marked, b...))
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%v is not damage", err)
			}
			return
		}
		if err := m.check(); err != nil {
			t.Error(err)
		}
		for i := range m.Blocks {
			if n := m.rawSize(i); n < 1 || n > blockSize {
				t.Errorf("block %d has %d bytes", i, n)
			}
		}
		if _, err := m.encode(s); err != nil {
			t.Error(err)
		}
	})
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var s []byte
	for _, c := range b {
		s = append(s, digits[c>>4], digits[c&15])
	}
	return string(s)
}

// FuzzContents: no contents lead outside their file.
func FuzzContents(f *testing.F) {
	f.Add([]byte{0, 3, 'a', 'b', 'c', 0, 0}, int64(3))
	f.Add([]byte{5, 1, 'x', 2, 1, 'y', 0, 0}, int64(100))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1}, int64(10))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		if size < 0 {
			return
		}
		c := &Contents{r: bufio.NewReader(bytes.NewReader(b)), size: size, buf: make([]byte, maxChunk)}
		at := int64(0)
		err := c.Each(func(off int64, p []byte) error {
			if off < at || len(p) == 0 || off > size-int64(len(p)) {
				t.Fatalf("%d bytes at %d of %d, after %d", len(p), off, size, at)
			}
			at = off + int64(len(p))
			return nil
		})
		if err != nil && !errors.Is(err, ErrCorrupt) && err.Error() == "" {
			t.Error(err)
		}
	})
}

// FuzzContentsRoundTrip: a file comes back as it was.
func FuzzContentsRoundTrip(f *testing.F) {
	f.Add([]byte("hello"), uint32(0), uint32(0))
	f.Add([]byte("hello"), uint32(70000), uint32(10000))
	f.Fuzz(func(t *testing.T, data []byte, off, after uint32) {
		off, after = off%(4<<20), after%(4<<20)
		dir := t.TempDir()
		name := filepath.Join(dir, "f")
		from, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		if _, err := from.WriteAt(data, int64(off)); err != nil {
			t.Fatal(err)
		}
		size := int64(off) + int64(len(data)) + int64(after)
		if err := from.Truncate(size); err != nil {
			t.Fatal(err)
		}
		var stream bytes.Buffer
		if err := writeContents(t.Context(), &stream, from, size, make([]byte, maxChunk)); err != nil {
			t.Fatal(err)
		}
		stream.WriteString("next")
		to, err := os.Create(filepath.Join(dir, "g"))
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		c := &Contents{r: bufio.NewReader(&stream), size: size, buf: make([]byte, maxChunk)}
		if err := c.WriteToFile(to); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(c.r); err != nil || string(rest) != "next" {
			t.Errorf("the next file begins with %q, %v", rest, err)
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "g"))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes came back of %d, or others", len(got), len(want))
		}
	})
}
