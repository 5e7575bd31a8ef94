package pagecache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// readPiece is how much is read at once: there is progress and an ear for the
	// end after each. It is as fast as any larger one.
	readPiece = 1 << 20
	// lockPiece is how much is locked at once; what is in memory takes a moment.
	lockPiece = 16 << 20
)

// pieces has buffers to read into. What is read is in the page cache then.
var pieces = sync.Pool{New: func() any { return new([readPiece]byte) }}

// pinned is a range that is being locked, or is locked.
type pinned struct {
	c    *cache
	id   fileID
	once sync.Once
	// reads is the file's name while Pin is at work.
	reads atomic.Pointer[string]

	// The cache's mutex guards these.
	r   Range   // in whole pages
	not []Range // what is not to be locked, as others have it
	mem []byte  // mapped; nobody may touch it: a fault blocks, or kills, the process
}

// Pin implements Cache.
func (c *cache) Pin(ctx context.Context, f *os.File, r Range, progress func(n int64)) (Pinned, error) {
	p, err := c.pin(ctx, f, r, progress)
	if err != nil {
		return nil, fileError("lock in memory", f, err)
	}
	return p, nil
}

func (c *cache) pin(ctx context.Context, f *os.File, r Range, progress func(n int64)) (*pinned, error) {
	fd, err := duplicate(f)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	id, fileSize, err := regular(fd)
	if err != nil {
		return nil, err
	}
	if err := readable(fd); err != nil {
		return nil, err
	}
	if r, err = clamp(r, fileSize); err != nil {
		return nil, err
	}
	p := &pinned{c: c, id: id, r: wholePages(r)}
	if r.Len == 0 {
		p.r = Range{}
	}
	if err := c.reserve(p); err != nil {
		return nil, err
	}
	defer c.active.Done()
	name := f.Name()
	p.reads.Store(&name)
	defer p.reads.Store(nil)
	cached := c.cachedOf(fsType(fd))
	var refused error
	if !c.cfg.Own {
		refused = p.disown(cached, fd, r)
	}
	if refused != nil {
		progress = nil
	}
	err = c.readIn(ctx, cached, fd, p.r, progress)
	if err == nil {
		err = refused
	}
	if err == nil {
		err = p.lock(ctx, fd)
	}
	if err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

// ended returns the reason to stop a Pin, if there is one.
func (c *cache) ended(ctx context.Context) error {
	if c.stop.Err() != nil {
		return ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// readable checks that reading a descriptor brings pages into memory.
func readable(fd int) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if flags&(unix.O_DIRECT|unix.O_PATH) != 0 || flags&unix.O_ACCMODE == unix.O_WRONLY {
		return ErrNotCached
	}
	return nil
}

// reserve counts a range against the budget, and the Pin as at work.
func (c *cache) reserve(p *pinned) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if free := c.cfg.Budget - c.locked; p.r.Len > free {
		return &BudgetError{Need: p.r.Len, Free: free, Budget: c.cfg.Budget}
	}
	c.locked += p.r.Len
	c.pins[p.id] = append(c.pins[p.id], p)
	c.active.Add(1)
	return nil
}

// shrink gives back what a range has lost with the end of its file.
func (p *pinned) shrink(length int64) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.c.locked -= p.r.Len - length
	p.r.Len = length
}

// disown drops what is in memory of a range for other reasons than other Pins, so that it is
// read again and charged to us: locked as it is, it would stay charged to the cgroup of whoever
// read it, which could not get rid of it any more. What cannot be dropped is left out of what is
// locked. It fails if half of the range, or more, is there; then nothing is dropped.
func (p *pinned) disown(cached cachedFunc, fd int, r Range) error {
	var resident int64
	known := true
	for _, part := range p.c.others(p, r) {
		n, err := residentBytes(cached, fd, part)
		known = known && err == nil // else all of it is dropped
		resident += n
	}
	switch {
	case !known:
	case resident == 0:
		return nil
	case resident >= r.Len/2:
		return fmt.Errorf("%w: %s of %s", ErrResident, size(resident), size(r.Len))
	}
	for _, part := range p.c.others(p, p.r) {
		unix.Fadvise(fd, part.Off, part.Len, unix.FADV_DONTNEED)
		for off, end := part.Off, part.Off+part.Len; off < end; {
			piece := Range{off, min(readPiece-off%readPiece, end-off)}
			if n, err := cached(fd, piece.Off, piece.Len); n > 0 && err == nil {
				p.not = append(p.not, piece)
			}
			off += piece.Len
		}
	}
	return nil
}

// others returns r without what other Pins hold of the same file.
func (c *cache) others(p *pinned, r Range) []Range {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := []Range{r}
	for _, o := range c.pins[p.id] {
		if o != p {
			rest = cutOut(rest, o.r)
		}
	}
	return rest
}

// cutOut cuts a hole into ranges.
func cutOut(parts []Range, hole Range) (rest []Range) {
	for _, part := range parts {
		rest = append(rest, without(part, hole)...)
	}
	return rest
}

// without cuts a hole into a range.
func without(r, hole Range) []Range {
	end, holeEnd := r.Off+r.Len, hole.Off+hole.Len
	if hole.Len == 0 || holeEnd <= r.Off || hole.Off >= end {
		return []Range{r}
	}
	var rest []Range
	if hole.Off > r.Off {
		rest = append(rest, Range{r.Off, hole.Off - r.Off})
	}
	if holeEnd < end {
		rest = append(rest, Range{holeEnd, end - holeEnd})
	}
	return rest
}

// readIn brings a range of whole pages into memory. It ends early where the file
// does.
func (c *cache) readIn(ctx context.Context, cached cachedFunc, fd int, r Range, progress func(n int64)) error {
	buf := pieces.Get().(*[readPiece]byte)
	defer pieces.Put(buf)
	for off, end := r.Off, r.Off+r.Len; off < end; {
		if err := c.ended(ctx); err != nil {
			return err
		}
		length := min(readPiece-off%readPiece, end-off)
		there := length
		if in, err := cached(fd, off, length); err != nil || in*pageSize < length {
			n, err := readFull(fd, buf[:length], off)
			if err != nil {
				return err
			}
			there = int64(n)
		}
		if progress != nil && there > 0 {
			progress(there)
		}
		if there < length {
			return nil // the end of the file
		}
		off += length
	}
	return nil
}

// readFull reads until the buffer is full or the file ends.
func readFull(fd int, b []byte, off int64) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Pread(fd, b[done:], off+int64(done))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return done, os.NewSyscallError("pread", err)
		}
		if n == 0 {
			break
		}
		done += n
	}
	return done, nil
}

// lock maps and locks the range. Where the file has become shorter, so does the
// range.
func (p *pinned) lock(ctx context.Context, fd int) error {
	for {
		_, fileSize, err := regular(fd)
		if err != nil {
			return err
		}
		if there := max(0, wholePages(Range{0, fileSize}).Len-p.r.Off); there < p.r.Len {
			p.shrink(there)
		}
		if p.r.Len == 0 {
			return nil
		}
		err = p.tryLock(ctx, fd)
		if err == nil || !errors.Is(err, unix.ENOMEM) && !errors.Is(err, unix.EPERM) {
			return err
		}
		_, now, serr := regular(fd)
		if serr != nil || now >= fileSize {
			return explainLock(err, p.r.Len)
		}
	}
}

func (p *pinned) tryLock(ctx context.Context, fd int) error {
	mem, err := unix.Mmap(fd, p.r.Off, int(p.r.Len), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	parts := []Range{{0, p.r.Len}}
	for _, not := range p.not {
		parts = cutOut(parts, Range{not.Off - p.r.Off, not.Len})
	}
	for _, part := range parts {
		for off, end := part.Off, part.Off+part.Len; off < end && err == nil; off += lockPiece {
			if err = p.c.ended(ctx); err == nil {
				err = os.NewSyscallError("mlock", unix.Mlock(mem[off:min(off+lockPiece, end)]))
			}
		}
	}
	if err == nil {
		err = p.c.ended(ctx)
	}
	if err != nil {
		return errors.Join(err, os.NewSyscallError("munmap", unix.Munmap(mem)))
	}
	p.c.mu.Lock()
	p.mem = mem
	p.c.mu.Unlock()
	return nil
}

// explainLock says what it may be that the kernel refused.
func explainLock(err error, length int64) error {
	l, lerr := ReadLimits()
	if lerr == nil && l.Lock != Unlimited {
		return fmt.Errorf("%w: %s is wanted, %s is allowed (RLIMIT_MEMLOCK): raise it (`ulimit -l`, LimitMEMLOCK= in a systemd unit), "+
			"or give the process CAP_IPC_LOCK: %w", ErrLockLimit, size(length), size(l.Lock), err)
	}
	return fmt.Errorf("%w (the pages cannot be read, or there are too many mappings: vm.max_map_count)", err)
}

// Bytes implements Pinned.
func (p *pinned) Bytes() int64 {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.r.Len
}

// Release implements Pinned.
func (p *pinned) Release() error {
	var err error
	p.once.Do(func() {
		c := p.c
		c.mu.Lock()
		mem := p.mem
		p.mem = nil
		c.mu.Unlock()
		if mem != nil {
			err = os.NewSyscallError("munmap", unix.Munmap(mem)) // unlocks too
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.locked -= p.r.Len
		rest := slices.DeleteFunc(c.pins[p.id], func(o *pinned) bool { return o == p })
		if c.pins[p.id] = rest; len(rest) == 0 {
			delete(c.pins, p.id)
		}
	})
	return err
}

func (c *cache) allPins() []*pinned {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*pinned
	for _, pins := range c.pins {
		all = append(all, pins...)
	}
	return all
}

// Pinned implements Cache.
func (c *cache) Pinned() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.locked
}

// Budget implements Cache.
func (c *cache) Budget() int64 { return c.cfg.Budget }
