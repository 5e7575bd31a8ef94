package block

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"headrace/disk"
	"headrace/internal/linux"
)

// Extent is where the bytes of a closed block lie, with its header and checksums: Size bytes at Off of a file.
type Extent struct {
	Path      string
	Off, Size int64
}

// Extent tells where a closed block lies. Another may lie there after the block has been deleted, so who uses it looks again.
func (s *Store) Extent(id int64) (Info, Extent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(id)
	switch {
	case err != nil:
		return Info{}, Extent{}, err
	case r.state != Final:
		return r.info(), Extent{}, refused(ErrState, id, "%v", r.state)
	}
	s.touched.note(r.file)
	off, size := r.extent()
	return r.info(), Extent{r.file.v.path(r.file.id), off, size}, nil
}

// MemorySize returns how many bytes of memory the extent of a closed block of n bytes takes, at most.
func MemorySize(n int64) int64 {
	// A region begins at a multiple of page, which may lie within one of the kernel's.
	return up(layout{Piece}.size(n), pageSize) + pageSize - page
}

// extent is the part of the file that a reader of all of the replica reads. Store.mu is held.
func (r *replica) extent() (off, size int64) {
	if r.visible.length == 0 {
		return r.head.offset, headerSize
	}
	return r.head.offset, r.file.v.dataAt(r.visible.length-1) + 1
}

// touched are files that were opened since somebody looked.
type touched struct {
	mu    sync.Mutex
	files map[*combined]struct{} // nil: nobody looks
}

func (t *touched) note(c *combined) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files != nil {
		t.files[c] = struct{}{}
	}
}

func (t *touched) take() map[*combined]struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.files
	t.files = map[*combined]struct{}{}
	return was
}

// Memory follows which closed blocks are in memory, by asking the kernel (cachestat, Linux 6.5) about files that were opened
// here lately or had a block in memory, and, as time is left, about all others in turn: what is read past this process shows there. One goroutine uses it.
type Memory struct {
	s *Store
	// in are the blocks in memory of each file that has one.
	in map[*combined][]int64
	// due are to be looked at, in their order, and queued tells which those are; rest is what is left of a walk over all.
	due    []*combined
	queued map[*combined]bool
	rest   []*combined
	debt   time.Duration // by which looks took longer than they should
	now    func() time.Time
}

// Follow begins to follow what is in memory. There is one follower of a store.
func Follow(s *Store) *Memory {
	s.touched.take()
	return &Memory{s: s, in: map[*combined][]int64{}, queued: map[*combined]bool{}, now: time.Now}
}

// Look goes on with looking for about so long; what it takes longer it takes less the next time. What it returns are the blocks in memory of each
// file that was looked at. There is an error where the kernel cannot be asked.
func (m *Memory) Look(budget time.Duration) (blocks []int64, err error) {
	for c := range m.s.touched.take() {
		m.queue(c)
	}
	for c := range m.in {
		m.queue(c)
	}
	began := m.now()
	spent := func() time.Duration { return m.debt + m.now().Sub(began) }
	for len(m.due) > 0 && spent() < budget && err == nil {
		c := m.due[0]
		m.due = m.due[1:]
		delete(m.queued, c)
		err = m.look(c)
	}
	walked := false
	for len(m.due) == 0 && spent() < budget && err == nil {
		if len(m.rest) == 0 {
			if walked {
				break
			}
			m.rest, walked = m.all(), true
			continue
		}
		c := m.rest[0]
		m.rest = m.rest[1:]
		err = m.look(c)
	}
	m.debt = max(0, spent()-budget)
	for ids := range maps.Values(m.in) {
		blocks = append(blocks, ids...)
	}
	slices.Sort(blocks)
	return blocks, err
}

func (m *Memory) queue(c *combined) {
	if !m.queued[c] {
		m.queued[c] = true
		m.due = append(m.due, c)
	}
}

// look asks about all closed blocks of a file.
func (m *Memory) look(c *combined) error {
	type region struct {
		id     int64
		parts  [][2]int64
		needed int64
	}
	var regions []region
	m.s.mu.Lock()
	if c.v.files[c.id] == c {
		for _, r := range c.regions {
			if r.state == Final && r.visible.length > 0 {
				x := region{id: r.head.block, parts: c.v.parts(r.visible.length)}
				for i := range x.parts {
					x.parts[i][0] += r.head.offset
					x.needed += x.parts[i][1]
				}
				regions = append(regions, x)
			}
		}
	}
	m.s.mu.Unlock()
	delete(m.in, c)
	if len(regions) == 0 || c.v.err() != nil {
		return nil
	}
	h, err := c.use(0)
	if err != nil {
		return nil // it was deleted meanwhile, or the disk is out of use
	}
	defer h.release()
	f := h.OS()
	if f == nil {
		return errors.ErrUnsupported
	}
	got := make(chan []int64, 1)
	if err := c.v.do(reading, func() error {
		var in []int64
		err := linux.Control(f, func(fd int) error {
			for _, r := range regions {
				has := int64(0)
				for _, part := range r.parts {
					pages, err := linux.CachedPages(fd, part[0], part[1])
					if err != nil {
						return err
					}
					has += min(pages*pageSize, part[1])
				}
				if has >= r.needed/10*9 {
					in = append(in, r.id)
				}
			}
			return nil
		})
		got <- in
		return err
	}); err != nil {
		return err
	}
	if in := <-got; len(in) > 0 {
		m.in[c] = in
	}
	return nil
}

// parts are what a reader of all of a block reads of its region, offset and size: all pieces but the last, that one's checksums, and
// its bytes.
func (l layout) parts(length int64) [][2]int64 {
	last := down(length-1, l.piece)
	parts := [][2]int64{{l.sumAt(last), up(length-last, Chunk) / Chunk * SumSize}, {l.dataAt(last), length - last}}
	if last > 0 {
		parts = append(parts, [2]int64{l.sumAt(0), l.sumAt(last) - l.sumAt(0)})
	}
	return parts
}

// all are all files, in the order of the disks.
func (m *Memory) all() (all []*combined) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	for _, v := range m.s.volumes {
		if v.err() == nil {
			all = slices.AppendSeq(all, maps.Values(v.files))
		}
	}
	return all
}

// Warm reads all of a closed block, behind everybody else who wants the disk, and compares it with its checksums. So it is in memory for the moment.
func Warm(ctx context.Context, s *Store, id int64) error {
	s.mu.Lock()
	r, err := s.find(id)
	if err == nil && r.state != Final {
		err = refused(ErrState, id, "%v", r.state)
	}
	if err != nil {
		s.mu.Unlock()
		return err
	}
	b, n, device := Block{id, r.head.stamp}, r.visible.length, r.file.v.device
	s.mu.Unlock()
	var l lane
	l.enter(s.Turns, device, disk.Warming, "blocks to be kept in memory")
	defer l.leave()
	reader, err := s.open(b, 0, n, &l)
	if err != nil {
		return err
	}
	defer reader.Close()
	reader.whole = false // nobody will ask for the next block
	for err == nil {
		_, err = reader.Next(ctx)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
