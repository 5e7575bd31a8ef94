package pagecachetest

import (
	"context"
	"errors"
	"os"
	"testing"

	"headrace/pagecache"
)

func TestMemoryConforms(t *testing.T) {
	Conform(t, World{
		New: func(_ testing.TB, c pagecache.Config) pagecache.Cache { return NewMemory(c) },
		Load: func(t testing.TB, c pagecache.Cache, f *os.File, r pagecache.Range) {
			if err := c.(*Memory).Load(f, r); err != nil {
				t.Fatal(err)
			}
		},
		Dir: t.TempDir(),
	})
}

func makeFile(t *testing.T, size int64) *os.File {
	t.Helper()
	f, err := os.Create(t.TempDir() + "/f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestOnPiece(t *testing.T) {
	m := NewMemory(pagecache.Config{})
	defer m.Close()
	f := makeFile(t, 3*mib)
	broken := errors.New("broken")
	var pieces []pagecache.Range
	m.OnPiece(func(_ context.Context, g *os.File, r pagecache.Range) error {
		if pieces = append(pieces, r); g != f {
			t.Error("another file")
		}
		if len(pieces) == 3 {
			return broken
		}
		return nil
	})
	if _, err := m.Pin(t.Context(), f, pagecache.Range{Off: mib / 2, Len: 2 * mib}, nil); !errors.Is(err, broken) {
		t.Error(err)
	}
	want := []pagecache.Range{{Off: mib / 2, Len: mib / 2}, {Off: mib, Len: mib}, {Off: 2 * mib, Len: mib / 2}}
	if len(pieces) != 3 || pieces[0] != want[0] || pieces[1] != want[1] || pieces[2] != want[2] || m.Pinned() != 0 {
		t.Errorf("pieces %v, %d locked", pieces, m.Pinned())
	}
	if n, err := m.Resident(f, pagecache.Range{Len: 3 * mib}); n != 3*mib/2 || err != nil {
		t.Errorf("%d, %v: what was read before stays", n, err)
	}
}

func TestFaulty(t *testing.T) {
	broken := errors.New("broken")
	for _, method := range []string{"Resident", "Watch", "Refresh", "Pin", "Evict", "Watched.Close", "Pinned.Release", "Close"} {
		t.Run(method, func(t *testing.T) {
			m := NewMemory(pagecache.Config{})
			c := &Faulty{Cache: m, Fail: func(called string, n int) error {
				if called == method && n == 2 {
					return broken
				}
				return nil
			}}
			f := makeFile(t, mib)
			calls := map[string]func() error{
				"Resident": func() error { _, err := c.Resident(f, pagecache.Range{Len: 1}); return err },
				"Refresh":  func() error { return c.Refresh(t.Context()) },
				"Evict":    func() error { return c.Evict(f, pagecache.Range{Len: mib}) },
				"Watch":    func() error { _, err := c.Watch(f); return err },
				"Pin":      func() error { _, err := c.Pin(t.Context(), f, pagecache.Range{Len: 1}, nil); return err },
				"Watched.Close": func() error {
					w, err := c.Watch(f)
					if err != nil {
						t.Fatal(err)
					}
					return w.Close()
				},
				"Pinned.Release": func() error {
					p, err := c.Pin(t.Context(), f, pagecache.Range{Len: 1}, nil)
					if err != nil {
						t.Fatal(err)
					}
					err = p.Release()
					if m.Pinned() != 0 {
						t.Error("it was not released")
					}
					return errors.Join(err, m.Drop(f, pagecache.Range{Len: mib}))
				},
				"Close": c.Close,
			}
			for n := 1; n <= 3; n++ {
				if err := calls[method](); errors.Is(err, broken) != (n == 2) {
					t.Errorf("call %d: %v", n, err)
				}
			}
			if c.Calls(method) != 3 {
				t.Errorf("%d calls", c.Calls(method))
			}
		})
	}
}
