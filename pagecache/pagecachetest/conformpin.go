package pagecachetest

import (
	"context"
	"errors"

	"headrace/pagecache"
)

// pinned pins what must go.
func (t *trial) pinned(f func() (pagecache.Pinned, error), bytes, total int64) pagecache.Pinned {
	t.Helper()
	p, err := f()
	t.must(err)
	if p.Bytes() != bytes || t.c.Pinned() != total {
		t.Errorf("%d bytes count, %d of all, want %d, %d", p.Bytes(), t.c.Pinned(), bytes, total)
	}
	return p
}

func (t *trial) pin() {
	c := t.open(pagecache.Config{})
	f := t.file(3*mib + 10)
	all := pagecache.Range{Len: 1 << 62}
	t.Load(t, c, f, pagecache.Range{Off: mib, Len: mib}) // one of the three
	var told, calls int64
	p := t.pinned(func() (pagecache.Pinned, error) {
		return c.Pin(t.Context(), f, pagecache.Range{Off: 5, Len: 1 << 62}, func(n int64) { told += n; calls++ })
	}, 3*mib+pageSize, 3*mib+pageSize)
	if told != 3*mib+10 || calls != 4 {
		t.Errorf("told of %d bytes in %d pieces", told, calls)
	}
	t.want(f, all, 3*mib+10)
	t.must(c.Evict(f, all))
	t.want(f, all, 3*mib+10)
	t.must(p.Release())
	t.must(p.Release())
	if c.Pinned() != 0 {
		t.Errorf("%d bytes are still locked", c.Pinned())
	}
	t.want(f, all, 3*mib+10) // left to the kernel
	t.empty(f, all, 0)

	part := t.pinned(func() (pagecache.Pinned, error) {
		return c.Pin(t.Context(), f, pagecache.Range{Off: mib + 1, Len: 2*pageSize - 2}, nil)
	}, 2*pageSize, 2*pageSize)
	t.want(f, all, 2*pageSize)
	t.must(part.Release())
}

func (t *trial) pinNothing() {
	c := t.open(pagecache.Config{Budget: pageSize})
	f := t.file(pageSize)
	for _, r := range []pagecache.Range{{}, {Off: 100}, {Off: pageSize, Len: 1 << 50}, {Off: 1 << 50, Len: 1}} {
		p := t.pinned(func() (pagecache.Pinned, error) { return c.Pin(t.Context(), f, r, nil) }, 0, 0)
		t.must(p.Release())
	}
	p := t.pinned(func() (pagecache.Pinned, error) {
		return c.Pin(t.Context(), t.file(0), pagecache.Range{Len: 1 << 50}, nil)
	}, 0, 0)
	t.must(p.Release())
}

func (t *trial) budget() {
	c := t.open(pagecache.Config{Budget: 2 * mib})
	if c.Budget() != 2*mib {
		t.Errorf("budget %d", c.Budget())
	}
	f, g := t.file(4*mib), t.file(4*mib)
	a := t.pinned(func() (pagecache.Pinned, error) { return c.Pin(t.Context(), f, pagecache.Range{Len: mib + 1}, nil) },
		mib+pageSize, mib+pageSize)
	_, err := c.Pin(t.Context(), g, pagecache.Range{Len: mib}, func(int64) { t.Error("something was read past the budget") })
	var over *pagecache.BudgetError
	if !errors.Is(err, pagecache.ErrBudget) || !errors.As(err, &over) ||
		*over != (pagecache.BudgetError{Need: mib, Free: mib - pageSize, Budget: 2 * mib}) {
		t.Errorf("%v", err)
	}
	t.want(g, pagecache.Range{Len: 4 * mib}, 0)
	b := t.pinned(func() (pagecache.Pinned, error) {
		return c.Pin(t.Context(), g, pagecache.Range{Off: 1, Len: mib - pageSize - 1}, nil)
	}, mib-pageSize, 2*mib) // all there is
	if _, err := c.Pin(t.Context(), g, pagecache.Range{Off: 3 * mib, Len: 1}, nil); !errors.Is(err, pagecache.ErrBudget) {
		t.Errorf("a byte more: %v", err)
	}
	t.must(a.Release())
	t.must(b.Release())
	d := t.pinned(func() (pagecache.Pinned, error) {
		return c.Pin(t.Context(), f, pagecache.Range{Off: 2 * mib, Len: 2 * mib}, nil)
	}, 2*mib, 2*mib)
	t.must(d.Release())
}

func (t *trial) refuse() {
	c := t.open(pagecache.Config{})
	for _, x := range []struct {
		there   int64
		refused bool
	}{{0, false}, {mib - pageSize, false}, {mib, true}, {2 * mib, true}} {
		f := t.file(2 * mib)
		t.Load(t, c, f, pagecache.Range{Len: x.there})
		p, err := c.Pin(t.Context(), f, pagecache.Range{Len: 2 * mib}, func(int64) {
			if x.refused {
				t.Error("told of what is not kept")
			}
		})
		if errors.Is(err, pagecache.ErrResident) != x.refused || (err == nil) == x.refused {
			t.Errorf("with %d of %d bytes there: %v", x.there, 2*mib, err)
		}
		if p != nil {
			t.must(p.Release())
		}
		t.want(f, pagecache.Range{Len: 2 * mib}, 2*mib) // what was missing is there
		if c.Pinned() != 0 {
			t.Errorf("%d bytes are locked", c.Pinned())
		}
	}
}

func (t *trial) lockOwn() {
	c := t.open(pagecache.Config{Own: true})
	f := t.file(mib)
	t.Load(t, c, f, pagecache.Range{Len: mib})
	p := t.pinned(func() (pagecache.Pinned, error) { return c.Pin(t.Context(), f, pagecache.Range{Len: mib}, nil) }, mib, mib)
	t.must(c.Evict(f, pagecache.Range{Len: mib}))
	t.want(f, pagecache.Range{Len: mib}, mib)
	t.must(p.Release())
}

// Ranges that overlap count each for itself; what the other holds is no reason to
// refuse, and stays when one is released.
func (t *trial) overlap() {
	c := t.open(pagecache.Config{})
	f := t.file(2 * mib)
	pin := func(off, length int64) func() (pagecache.Pinned, error) {
		return func() (pagecache.Pinned, error) {
			return c.Pin(t.Context(), f, pagecache.Range{Off: off, Len: length}, nil)
		}
	}
	a := t.pinned(pin(0, mib), mib, mib)
	b := t.pinned(pin(0, mib), mib, 2*mib)
	d := t.pinned(pin(mib/2, mib), mib, 3*mib)
	t.must(a.Release())
	t.empty(f, pagecache.Range{Len: 2 * mib}, 3*mib/2)
	t.must(b.Release())
	t.empty(f, pagecache.Range{Len: 2 * mib}, mib)
	if _, err := pin(0, 2*mib)(); err != nil { // half is there, but it is ours
		t.Error(err)
	}
	t.must(d.Release())
}

func (t *trial) cancelled() {
	c := t.open(pagecache.Config{})
	f := t.file(8 * mib)
	ctx, cancel := context.WithCancel(t.Context())
	pieces := 0
	_, err := c.Pin(ctx, f, pagecache.Range{Len: 8 * mib}, func(int64) {
		if pieces++; pieces == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || pieces != 3 || c.Pinned() != 0 {
		t.Errorf("%v after %d pieces, %d bytes are locked", err, pieces, c.Pinned())
	}
	t.want(f, pagecache.Range{Len: 8 * mib}, 3*mib)
	if _, err := c.Pin(ctx, t.file(mib), pagecache.Range{Len: mib}, func(int64) { t.Error("something was read") }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	t.empty(f, pagecache.Range{Len: 8 * mib}, 0) // nothing is locked
}

func (t *trial) shorter() {
	c := t.open(pagecache.Config{})
	for _, size := range []int64{0, 1, mib, 2*mib + 5} {
		f := t.file(4 * mib)
		p, err := c.Pin(t.Context(), f, pagecache.Range{Off: pageSize, Len: 4 * mib}, func(int64) { t.must(f.Truncate(size)) })
		t.must(err)
		end := size + pageSize - 1
		want := max(0, end-end%pageSize-pageSize)
		if p.Bytes() != want || c.Pinned() != want {
			t.Errorf("cut to %d: %d bytes count, %d of all, want %d", size, p.Bytes(), c.Pinned(), want)
		}
		t.must(f.Truncate(0)) // under the lock
		t.must(p.Release())
	}
}

func (t *trial) closed() {
	c := t.open(pagecache.Config{})
	f := t.file(mib)
	w, err := c.Watch(f)
	t.must(err)
	p, err := c.Pin(t.Context(), f, pagecache.Range{Len: mib}, nil)
	t.must(err)
	t.must(c.Close())
	t.must(c.Close())
	if c.Pinned() != 0 {
		t.Errorf("%d bytes are locked", c.Pinned())
	}
	t.must(p.Release())
	t.must(w.Close())
	if c.Pinned() != 0 {
		t.Errorf("%d bytes are locked", c.Pinned())
	}
	_, werr := c.Watch(f)
	_, perr := c.Pin(t.Context(), f, pagecache.Range{Len: mib}, nil)
	for _, err := range []error{werr, perr, c.Refresh(t.Context())} {
		if !errors.Is(err, pagecache.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
}

func (t *trial) closedMeanwhile() {
	c := t.open(pagecache.Config{})
	f := t.file(8 * mib)
	closed := make(chan error)
	begun := false
	_, err := c.Pin(t.Context(), f, pagecache.Range{Len: 8 * mib}, func(int64) {
		if begun {
			return
		}
		begun = true
		go func() { closed <- c.Close() }()
		for { // until Close has begun
			w, err := c.Watch(f)
			if err != nil {
				return
			}
			t.must(w.Close())
		}
	})
	if !errors.Is(err, pagecache.ErrClosed) {
		t.Errorf("%v", err)
	}
	t.must(<-closed)
	if c.Pinned() != 0 {
		t.Errorf("%d bytes are locked", c.Pinned())
	}
}
