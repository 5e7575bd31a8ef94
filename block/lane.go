package block

import (
	"context"
	"slices"
	"sync"
	"time"

	"headrace/disk"
	"headrace/internal/linux"
)

// lane is the way of all who read one combined file to the disk. One of them at a time
// asks for a turn there; of those who wait it is the next one behind where the file was
// read last, and at the end the first (the circular scan of the elevator algorithms). So
// tasks that read the blocks of a file side by side read it in order.
type lane struct {
	mu    sync.Mutex
	users int
	turns *disk.Reader // nil: everybody reads at once
	busy  bool
	head  int64
	queue []*waiter
}

type waiter struct {
	off   int64
	ready chan struct{}
}

// enter adds a user.
func (l *lane) enter(s *disk.Scheduler, d disk.Device, c disk.Class, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users++; l.users == 1 && s != nil {
		l.turns = s.Reader(d, c, name)
	}
}

func (l *lane) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users == 0 && l.turns != nil {
		l.turns.Close()
		l.turns = nil
	}
}

// idle reports whether nobody waits.
func (l *lane) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) == 0
}

const (
	// seeklessSpeed, in bytes per second, is more than any disk with a head reads. Virtual
	// disks often say that they have one.
	seeklessSpeed = 500e6
	// trustFor is after how many extents it is looked again whether a disk reads that fast:
	// there may have been a cache in front of it.
	trustFor = 15
	// telling is how long an extent must be to tell how fast the disk is.
	telling = 4 << 20
)

// read calls f, which reads n bytes at off of the file, in a turn. What is in memory needs
// none, nor does a disk that reads too fast to seek.
func (l *lane) read(ctx context.Context, h *handle, off, n int64, f func() error) error {
	v := h.c.v
	if l.turns == nil || v.trusted.Load() > 0 && v.trusted.Add(-1) >= 0 || resident(h, off, n) {
		return f()
	}
	if err := l.acquire(ctx, off); err != nil {
		return err
	}
	defer l.release()
	turn, err := l.turns.Begin(ctx)
	if err != nil {
		return err
	}
	defer turn.End(n)
	l.mu.Lock()
	l.head = off + n
	l.mu.Unlock()
	began := time.Now()
	err = f()
	if took := time.Since(began); err == nil && n >= telling && float64(n) > seeklessSpeed*took.Seconds() {
		v.trusted.Store(trustFor)
	}
	return err
}

func (l *lane) acquire(ctx context.Context, off int64) error {
	l.mu.Lock()
	if !l.busy {
		l.busy = true
		l.mu.Unlock()
		return nil
	}
	w := &waiter{off, make(chan struct{})}
	l.queue = append(l.queue, w)
	l.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	i := slices.Index(l.queue, w)
	if i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 { // it came at the same time
		l.release()
	}
	return ctx.Err()
}

func (l *lane) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := nextInOrder(l.queue, l.head)
	if i < 0 {
		l.busy = false
		return
	}
	close(l.queue[i].ready)
	l.queue = slices.Delete(l.queue, i, i+1)
}

// nextInOrder returns the first waiter at or behind head, or else the first of all, or -1.
func nextInOrder(queue []*waiter, head int64) int {
	best := -1
	for i, w := range queue {
		if best < 0 || before(w.off, queue[best].off, head) {
			best = i
		}
	}
	return best
}

// before reports whether a comes before b on the way from head to the end and on from
// the beginning.
func before(a, b, head int64) bool {
	if (a >= head) != (b >= head) {
		return a >= head
	}
	return a < b
}

// resident reports whether a range of a file is in memory.
func resident(h *handle, off, n int64) bool {
	f := h.OS()
	if f == nil {
		return false
	}
	have := false
	linux.Control(f, func(fd int) error {
		pages, err := linux.CachedPages(fd, off, n)
		have = err == nil && pages*pageSize >= n
		return nil
	})
	return have
}
