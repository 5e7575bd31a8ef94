package scan

import (
	"sync"

	"headrace/stream/protocol"
	"headrace/stream/source"
)

// input is a file that is being scanned.
type input struct {
	Area
	source.File
}

func newInput(f source.File) *input {
	is := f.Identity()
	id := areaIDs.Add(1)
	return &input{File: f, Area: Area{
		ID: id, Shared: f.Shared(), Announce: &protocol.File{ID: id, Size: uint64(is.Size), Mtime: uint64(is.Mtime)},
	}}
}

// room is the shared memory that somebody reads into, and who waits for it. The lock
// guards it.
type room struct {
	set   *Set
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

// newRoom has no memory yet.
func newRoom(s *Set, uid uint32) room {
	return room{set: s, cond: sync.NewCond(s.mu), arena: &arena{n: 1, uid: uid}}
}

// equip gives it memory of n slots. It is called without the lock.
func (r *room) equip(slotSize, n int) error {
	r.set.mu.Lock()
	defer r.set.mu.Unlock()
	a, err := r.set.takeArena(slotSize, n, r.arena.uid)
	if err != nil {
		return err
	}
	a.mixed = a.mixed || r.arena.mixed
	r.arena = a
	return nil
}

// mix notes that the data of another user's stream come here too.
func (r *room) mix(uid uint32) {
	if r.arena.uid != uid {
		r.arena.mixed = true
	}
}

// takeSome takes n slots, of which there must be as many.
func (r *room) takeSome(n int) (slots []*slot) {
	for range n {
		slots = append(slots, r.arena.take(r.freed))
	}
	return slots
}

// drop gives slots back. It is called without the lock.
func (r *room) drop(slots []*slot) {
	r.set.mu.Lock()
	defer r.set.mu.Unlock()
	for _, s := range slots {
		s.drop()
	}
}

func (r *room) freed() {
	r.cond.Broadcast()
	r.giveBack()
}

func (r *room) end() {
	r.ended = true
	r.giveBack()
}

func (r *room) giveBack() {
	if !r.ended || r.arena.mem != nil && len(r.arena.free) < r.arena.n {
		return
	}
	if r.input != nil {
		r.set.cfg.Forget(r.input.ID)
		r.input.Close()
		r.input = nil
	}
	if a := r.arena; a.mem != nil {
		r.arena = &arena{n: 1, uid: a.uid}
		r.set.putArena(a)
	}
}
