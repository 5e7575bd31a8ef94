package block

import (
	"errors"
	"slices"
	"testing"
)

// TestSame: bytes that come again are compared with what was written, in whatever pieces it lies, and with what the kernel does not have yet.
func TestSame(t *testing.T) {
	f := openFaulty(t, 1<<24, 2*page, "/a")
	content := pattern(5*page + 700)
	w := mustCreate(t, f.Store, Block{1, 1}, 1, 10*page)
	must(t, errors.Join(w.Write(content[:3*page+100], 0), w.Flush(), w.Write(content[3*page+100:], 3*page+100)))
	for _, part := range []struct{ from, to int }{{0, len(content)}, {page, 3 * page}, {3*page + 50, 4 * page}, {5 * page, 5*page + 700}, {7, 8}, {len(content), len(content)}} {
		p := slices.Clone(content[part.from:part.to])
		if same, err := w.Same(p, int64(part.from)); !same || err != nil {
			t.Errorf("%v: %v, %v", part, same, err)
		}
		for _, at := range []int{0, len(p) / 2, len(p) - 1} {
			if len(p) == 0 {
				break
			}
			p[at] ^= 1
			if same, err := w.Same(p, int64(part.from)); same || err != nil {
				t.Errorf("%v with another byte at %d: %v, %v", part, at, same, err)
			}
			p[at] ^= 1
		}
	}
	if _, err := w.Same([]byte{1, 2}, int64(len(content)-1)); !errors.Is(err, ErrState) {
		t.Errorf("behind the end: %v", err)
	}
	must(t, w.Close())
	if _, err := w.Same(content[:1], 0); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
