package scan

import (
	"log/slog"
	"slices"
	"sync"

	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/stream/protocol"
	"headrace/stream/source"
)

// memory has the arenas that nobody uses at the time, and bounds all of them together.
// Its lock is that of the set, and held by who calls its methods.
type memory struct {
	mu *sync.Mutex
	// forget is told of areas that are gone.
	forget func(id uint32)
	// serves tells whether memory is to be kept for a user.
	serves func(uid uint32) bool
	log    *slog.Logger
	pool   []*arena

	// limit bounds all arenas, in bytes; 0: nothing does. share is what each user may
	// have in any case. room is told when some may be free.
	limit, share int64
	used         int64
	usedBy       map[uint32]int64
	room         *sync.Cond
	// going is how much of what is used is being given up.
	going int64
	// closed: all reading has ended, but consumers may not have taken note of it yet.
	closed bool
}

func newMemory(c *Config, serves func(uid uint32) bool) memory {
	return memory{
		mu: c.Lock, forget: c.Forget, serves: serves, log: c.Log,
		limit: c.Memory, share: c.Share, usedBy: map[uint32]int64{}, room: sync.NewCond(c.Lock),
	}
}

// takeArena finds shared memory for uid: of the pool if some fits, else new. It waits
// until there may be, and is, as much; errEnded: it is not needed any more. What was read into it
// before is still there: see wipe.
func (m *memory) takeArena(slotSize, n int, uid uint32, gone func() bool) (*arena, error) {
	if m.limit > 0 {
		n = max(4, min(n, int(m.limit)/slotSize))
	}
	size := int64(slotSize) * int64(n)
	told := false
	for ; !gone(); m.room.Wait() {
		for i, a := range m.pool {
			if a.uid == uid && int64(len(a.mem)) >= size {
				m.pool = slices.Delete(m.pool, i, i+1)
				a.carve(slotSize)
				return a, nil
			}
		}
		if !m.fits(size, uid) {
			continue
		}
		a, err := newArena(slotSize, n, uid)
		if linux.Lacking(err) {
			if !told {
				m.log.Warn("there is too little of something to read a stream's files into memory; it is tried again", "err", err)
			}
			told = true
			continue
		}
		if err == nil {
			m.count(uid, size)
		}
		return a, err
	}
	return nil, errEnded
}

// fits tells whether a user may have so much more; memory that nobody uses is given up
// for it.
func (m *memory) fits(size int64, uid uint32) bool {
	over := func(used int64) bool { return m.limit > 0 && used+size > m.limit }
	for over(m.used-m.going) && len(m.pool) > 0 {
		a := m.pool[0]
		m.pool = m.pool[1:]
		m.dropArena(a)
	}
	return !over(m.used) || m.usedBy[uid]+size <= m.share
}

func (m *memory) count(uid uint32, size int64) {
	m.used += size
	if m.usedBy[uid] += size; m.usedBy[uid] == 0 {
		delete(m.usedBy, uid)
	}
}

// putArena takes an arena back that nobody uses any more. It is kept for its
// user while they have streams that deal.
func (m *memory) putArena(a *arena) {
	if a.mixed || !m.serves(a.uid) {
		m.dropArena(a)
		return
	}
	m.pool = append(m.pool, a)
	m.room.Broadcast()
}

// dropArena ends an arena and tells those who have mapped it. It counts until its memory is
// given back, which takes a while. While consumers may still read, not having been told yet,
// that is left to the end of the last of them.
func (m *memory) dropArena(a *arena) {
	m.forget(a.ID)
	size, empty := int64(len(a.mem)), !m.closed
	m.going += size
	go func() {
		if empty {
			a.empty()
		}
		a.close()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.going -= size
		m.count(a.uid, -size)
		m.room.Broadcast()
	}()
}

// Trim frees memory of users who have no stream at work.
func (m *memory) Trim() {
	m.pool = slices.DeleteFunc(m.pool, func(a *arena) bool {
		if m.serves(a.uid) {
			return false
		}
		m.dropArena(a)
		return true
	})
}

// input is a file that is being scanned. It is closed when nobody refers to it: the scan, and slots
// that have no place with it any more.
type input struct {
	Area
	source.File
	mem  *memory
	refs int
}

func newInput(m *memory, f source.File) *input {
	is := f.Was()
	id := areaIDs.Add(1)
	return &input{mem: m, refs: 1, File: f, Area: Area{
		ID: id, Shared: f.Shared(), Announce: &protocol.File{ID: id, Size: uint64(is.Size), Mtime: uint64(is.Mtime)},
	}}
}

func (in *input) drop() {
	if in.refs--; in.refs == 0 {
		in.mem.forget(in.ID)
		go in.Close() // a file server may let that wait
	}
}

// survey sets found for the blocks from the first on that are in memory, and tells whether any
// is: by halves, because most files are in memory altogether or not at all.
func (in *input) survey(found []bool, first int, block, size int64) bool {
	off := int64(first) * block
	n := min(off+int64(len(found))*block, size) - off
	have, err := in.Resident(pagecache.Range{Off: off, Len: n})
	if err != nil || have == 0 || len(found) == 1 && have < n {
		return false
	}
	if have >= n {
		for i := range found {
			found[i] = true
		}
		return true
	}
	half := len(found) / 2
	a, b := in.survey(found[:half], first, block, size), in.survey(found[half:], first+half, block, size)
	return a || b
}

// slotPool is the shared memory that somebody reads into, and who waits for it. The lock
// guards it.
type slotPool struct {
	mem   *memory
	arena *arena
	// cond is told when a slot becomes free, and of whatever else its owner waits
	// for.
	cond *sync.Cond
	// input, if not nil, is a file that slots may refer to.
	input *input
	// short: it waits for memory.
	short bool
	// ended: nobody takes slots any more. The arena goes back, and the file is
	// closed, with the last of them.
	ended bool
}

// newSlotPool has no memory yet.
func newSlotPool(m *memory, uid uint32) slotPool {
	return slotPool{mem: m, cond: sync.NewCond(m.mu), arena: &arena{n: 1, uid: uid}}
}

// equip gives it memory of n slots, when there is as much, unless it is gone by then. It
// is called without the lock, gone with it.
func (r *slotPool) equip(slotSize, n int, gone func() bool) error {
	r.mem.mu.Lock()
	defer r.mem.mu.Unlock()
	r.short = true
	a, err := r.mem.takeArena(slotSize, n, r.arena.uid, gone)
	r.short = false
	if err != nil {
		return err
	}
	r.mem.mu.Unlock()
	a.wipe() // nobody else has it yet
	r.mem.mu.Lock()
	a.mixed = a.mixed || r.arena.mixed
	r.arena = a
	return nil
}

// quarter is that of the slots.
func (r *slotPool) quarter() int { return max(1, r.arena.n/4) }

// mix notes that the data of another user's stream come here too.
func (r *slotPool) mix(uid uint32) {
	if r.arena.uid != uid {
		r.arena.mixed = true
	}
}

// takeSome takes n slots, of which there must be as many.
func (r *slotPool) takeSome(n int) (slots []*slot) {
	for range n {
		slots = append(slots, r.arena.take(r.freed))
	}
	return slots
}

// drop gives slots back. It is called without the lock.
func (r *slotPool) drop(slots []*slot) {
	r.mem.mu.Lock()
	defer r.mem.mu.Unlock()
	for _, s := range slots {
		s.drop()
	}
}

func (r *slotPool) freed() {
	r.cond.Broadcast()
	r.giveBack()
}

func (r *slotPool) end() {
	r.ended = true
	r.giveBack()
}

func (r *slotPool) giveBack() {
	if !r.ended || r.arena.mem != nil && len(r.arena.free) < r.arena.n {
		return
	}
	if r.input != nil {
		r.input.drop()
		r.input = nil
	}
	if a := r.arena; a.mem != nil {
		r.arena = &arena{n: 1, uid: a.uid}
		r.mem.putArena(a)
	}
}
