package pagecachetest

import (
	"context"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/pagecache"
)

type pinned struct {
	m *Memory
	i *inode

	// The mutex of Memory guards these.
	r        pagecache.Range // in whole pages
	released bool
}

// Pin implements pagecache.Cache.
func (m *Memory) Pin(ctx context.Context, f *os.File, r pagecache.Range, progress func(n int64)) (pagecache.Pinned, error) {
	p, err := m.pin(ctx, f, r, progress)
	if err != nil {
		return nil, fmt.Errorf("lock in memory %s: %w", f.Name(), err)
	}
	return p, nil
}

func (m *Memory) pin(ctx context.Context, f *os.File, r pagecache.Range, progress func(n int64)) (*pinned, error) {
	p, onPiece, err := m.reserve(f, r)
	if err != nil {
		return nil, err
	}
	defer m.active.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(m.stop, func() { cancel(pagecache.ErrClosed) })()
	defer cancel(nil)

	for off, end := p.r.Off, p.r.Off+p.r.Len; off < end && err == nil; {
		part := pagecache.Range{Off: off, Len: min(piece-off%piece, end-off)}
		off += part.Len
		if ctx.Err() == nil && onPiece != nil {
			err = onPiece(ctx, f, part)
		}
		if ended := m.ended(ctx); ended != nil {
			err = ended
		}
		if err == nil {
			err = p.read(part, progress)
		}
	}
	if err == nil {
		err = m.ended(ctx)
	}
	if err == nil {
		err = p.lock()
	}
	if err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

// ended returns the reason to stop a Pin, if there is one.
func (m *Memory) ended(ctx context.Context) error {
	if m.stop.Err() != nil {
		return pagecache.ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// reserve makes all checks of a Pin and counts it against the budget.
func (m *Memory) reserve(f *os.File, r pagecache.Range) (*pinned, func(context.Context, *os.File, pagecache.Range) error, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, err := m.inode(f)
	if err == nil {
		err = readable(f)
	}
	if err == nil {
		err = check(r)
	}
	if err != nil {
		return nil, nil, err
	}
	if m.closed {
		return nil, nil, pagecache.ErrClosed
	}
	p := &pinned{m: m, i: i}
	if r = i.cut(r); r.Len > 0 {
		end := r.Off + r.Len + pageSize - 1
		p.r.Off = r.Off - r.Off%pageSize
		p.r.Len = end - end%pageSize - p.r.Off
	}
	if free := m.cfg.Budget - m.locked; p.r.Len > free {
		return nil, nil, &pagecache.BudgetError{Need: p.r.Len, Free: free, Budget: m.cfg.Budget}
	}
	if !m.cfg.Own && m.cfg.Method != pagecache.None {
		if n := i.resident(r, true, p); n > 0 && n >= r.Len/2 {
			i.load(r) // what is missing
			return nil, nil, pagecache.ErrResident
		}
	}
	m.locked += p.r.Len
	m.active.Add(1)
	i.pins = append(i.pins, p)
	return p, m.onPiece, nil
}

func readable(f *os.File) error {
	return linux.Control(f, func(fd int) error {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err == nil && (flags&(unix.O_DIRECT|unix.O_PATH) != 0 || flags&unix.O_ACCMODE == unix.O_WRONLY) {
			err = pagecache.ErrNotCached
		}
		return err
	})
}

// read brings a piece into memory, as far as the file has it.
func (p *pinned) read(r pagecache.Range, progress func(n int64)) error {
	p.m.mu.Lock()
	if err := p.i.update(); err != nil {
		p.m.mu.Unlock()
		return err
	}
	p.i.load(r)
	n := p.i.cut(r).Len
	p.m.mu.Unlock()
	if progress != nil && n > 0 {
		progress(n)
	}
	return nil
}

// lock ends a Pin. Where the file has become shorter, so does the range.
func (p *pinned) lock() error {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if err := p.i.update(); err != nil {
		return err
	}
	there := max(0, int64(len(p.i.pages))*pageSize-p.r.Off)
	if lost := p.r.Len - there; lost > 0 {
		p.m.locked -= lost
		p.r.Len -= lost
	}
	p.i.load(p.r)
	return nil
}

// Bytes implements pagecache.Pinned.
func (p *pinned) Bytes() int64 {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	return p.r.Len
}

// Release implements pagecache.Pinned.
func (p *pinned) Release() error {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	p.release()
	return nil
}

func (p *pinned) release() {
	if p.released {
		return
	}
	p.released = true
	p.m.locked -= p.r.Len
	p.i.pins = slices.DeleteFunc(p.i.pins, func(o *pinned) bool { return o == p })
}
