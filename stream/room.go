package stream

import "sync"

// room is the shared memory that somebody reads into, and who waits for it. The
// engine's lock guards it.
type room struct {
	e     *Engine
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
func newRoom(e *Engine, uid uint32) room {
	return room{e: e, cond: sync.NewCond(&e.mu), arena: &arena{n: 1, uid: uid}}
}

// equip gives it memory of n slots.
func (r *room) equip(slotSize, n int) error {
	a, err := r.e.takeArena(slotSize, n, r.arena.uid)
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

func (r *room) take() *slot { return r.arena.take(r.freed) }

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
		r.e.forget(r.input.id)
		r.input.Close()
		r.input = nil
	}
	if a := r.arena; a.mem != nil {
		r.arena = &arena{n: 1, uid: a.uid}
		r.e.putArena(a)
	}
}
