package pagecachetest

import (
	"context"
	"fmt"
	"os"

	"headrace/pagecache"
)

type watched struct {
	m        *Memory
	i        *inode
	resident int64
	blocks   []int64
}

// Watch implements pagecache.Cache.
func (m *Memory) Watch(f *os.File) (pagecache.Watched, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fmt.Errorf("watch %s: %w", f.Name(), pagecache.ErrClosed)
	}
	i, err := m.inode(f)
	if err != nil {
		return nil, err
	}
	files := map[*inode]bool{i: true}
	for w := range m.watched {
		files[w.i] = true
	}
	if m.cfg.Files > 0 && len(files) > m.cfg.Files {
		return nil, fmt.Errorf("watch %s: %w", f.Name(), pagecache.ErrTooMany)
	}
	w := &watched{m: m, i: i}
	w.refresh()
	m.watched[w] = true
	return w, nil
}

// Refresh implements pagecache.Cache.
func (m *Memory) Refresh(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return pagecache.ErrClosed
	}
	for w := range m.watched {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.i.update(); err != nil {
			return err
		}
		w.refresh()
	}
	return nil
}

func (w *watched) refresh() {
	w.resident, w.blocks = 0, w.blocks[:0]
	for off := int64(0); off < w.i.size; off += pagecache.BlockSize {
		var n int64
		if w.m.cfg.Method != pagecache.None {
			n = min(w.i.count(off, pagecache.BlockSize)*pageSize, w.i.size-off)
		}
		w.resident += n
		w.blocks = append(w.blocks, n)
	}
}

// Resident implements pagecache.Watched.
func (w *watched) Resident() int64 {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	return w.resident
}

// Blocks implements pagecache.Watched.
func (w *watched) Blocks(dst []int64) []int64 {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	return append(dst, w.blocks...)
}

// Close implements pagecache.Watched.
func (w *watched) Close() error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	delete(w.m.watched, w)
	return nil
}
