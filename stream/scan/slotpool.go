package scan

import (
	"slices"
	"sync"

	"headrace/stream/protocol"
	"headrace/stream/source"
)

// memory has the arenas that nobody uses at the time. Its lock is that of the set, and
// held by who calls its methods.
type memory struct {
	mu *sync.Mutex
	// forget is told of areas that are gone.
	forget func(id uint32)
	// serves tells whether memory is to be kept for a user.
	serves func(uid uint32) bool
	pool   []*arena
}

// takeArena finds shared memory for uid: of the pool if some fits, else new.
func (m *memory) takeArena(slotSize, n int, uid uint32) (*arena, error) {
	for i, a := range m.pool {
		if a.uid == uid && len(a.mem) >= slotSize*n {
			m.pool = slices.Delete(m.pool, i, i+1)
			a.carve(slotSize)
			return a, nil
		}
	}
	return newArena(slotSize, n, uid)
}

// putArena takes an arena back that nobody uses any more. It is kept for its
// user while they have streams that deal.
func (m *memory) putArena(a *arena) {
	if a.mixed || !m.serves(a.uid) {
		m.dropArena(a)
		return
	}
	m.pool = append(m.pool, a)
}

// dropArena ends an arena and tells those who have mapped it.
func (m *memory) dropArena(a *arena) {
	m.forget(a.ID)
	a.close()
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

// input is a file that is being scanned.
type input struct {
	Area
	source.File
}

func newInput(f source.File) *input {
	is := f.Was()
	id := areaIDs.Add(1)
	return &input{File: f, Area: Area{
		ID: id, Shared: f.Shared(), Announce: &protocol.File{ID: id, Size: uint64(is.Size), Mtime: uint64(is.Mtime)},
	}}
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
	// ended: nobody takes slots any more. The arena goes back, and the file is
	// closed, with the last of them.
	ended bool
}

// newSlotPool has no memory yet.
func newSlotPool(m *memory, uid uint32) slotPool {
	return slotPool{mem: m, cond: sync.NewCond(m.mu), arena: &arena{n: 1, uid: uid}}
}

// equip gives it memory of n slots. It is called without the lock.
func (r *slotPool) equip(slotSize, n int) error {
	r.mem.mu.Lock()
	defer r.mem.mu.Unlock()
	a, err := r.mem.takeArena(slotSize, n, r.arena.uid)
	if err != nil {
		return err
	}
	a.mixed = a.mixed || r.arena.mixed
	r.arena = a
	return nil
}

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
		r.mem.forget(r.input.ID)
		r.input.Close()
		r.input = nil
	}
	if a := r.arena; a.mem != nil {
		r.arena = &arena{n: 1, uid: a.uid}
		r.mem.putArena(a)
	}
}
