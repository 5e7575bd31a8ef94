package block

import (
	"errors"
	"slices"
)

// Create begins a new block of a file, of at most capacity bytes. A temporary one is a
// copy from another node: it may be made while there is a replica that nobody writes and
// that is no newer, and takes that one's place when it is final.
func (s *Store) Create(b Block, file uint64, capacity int64, temporary bool) (*Writer, error) {
	if capacity < 0 || capacity > maxCapacity {
		return nil, refused(ErrState, b.ID, "a capacity of %d bytes", capacity)
	}
	for {
		c, err := s.fileFor(b, file, capacity, temporary)
		if err != nil {
			return nil, err
		}
		w, err := s.createIn(c, b, capacity, temporary)
		if err != errMoved {
			return w, err
		}
	}
}

// errMoved: the combined file is not in use any more.
var errMoved = errors.New("the file was removed meanwhile")

// mayCreate says why a block cannot be created, with Store.mu held.
func (s *table) mayCreate(b Block, temporary bool) error {
	r, err := s.find(b.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case errors.Is(err, ErrOut):
		return nil // what is on that disk is lost to us
	case err != nil:
		return err
	case temporary && r.replaceable(b.Stamp):
		return nil
	case b.Stamp < max(r.head.stamp, r.head.fence):
		return refused(ErrFenced, b.ID, "generation %d is here", r.head.stamp)
	}
	return refused(ErrExists, b.ID, "%v", r.state)
}

// replaceable reports whether a copy of a generation may take the place of a replica; Store.mu is held.
func (r *replica) replaceable(stamp uint64) bool {
	return r.state != Temporary && r.writer == nil && stamp >= max(r.head.stamp, r.head.fence)
}

// HasRoom reports whether a disk has room for a copy of a block, beside what is to stay free there.
func HasRoom(s *Store, id, capacity int64) bool {
	var rooms []Room
	for _, v := range s.Volumes() {
		rooms = append(rooms, v.Room)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return Place(rooms, capacity, keepFor(s, id, true)) >= 0
}

// keepFor is the share of a disk that is to stay free beside a new replica. One in the place of a damaged one takes no room for long: on a disk that writers have filled, decay
// would else only add up. Store.mu is held.
func keepFor(s *Store, id int64, temporary bool) float64 {
	if r, err := s.find(id); err == nil && temporary && r.damaged {
		return s.Reserve
	}
	return s.KeepFree
}

// fileFor chooses the combined file for a new block: the one of its file that is there,
// if its disk has room, else one on the disk that Place chooses.
func (s *Store) fileFor(b Block, file uint64, capacity int64, temporary bool) (*combined, error) {
	volumes := s.Volumes()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayCreate(b, temporary); err != nil {
		return nil, err
	}
	rooms, keep := make([]Room, len(volumes)), keepFor(s, b.ID, temporary)
	var last *combined // of which not all is known: that would be given up; or which cannot be opened
	hidden := false    // in a directory that cannot be listed there may be one
	for i, v := range volumes {
		rooms[i] = v.Room
		if slices.ContainsFunc(s.volumes[i].unlisted, func(g Gap) bool { return g.Has(file) }) {
			rooms[i].Out, hidden = true, true
			continue
		}
		c := s.volumes[i].files[file]
		if c == nil || Place([]Room{v.Room}, capacity, keep) < 0 {
			continue
		}
		if _, open := c.openGap(); !open && !c.unreadable.Load() {
			return c, nil
		}
		rooms[i].Out, last = true, c
	}
	i := Place(rooms, capacity, keep)
	if i < 0 && last != nil {
		return last, nil
	}
	if i < 0 && hidden {
		return nil, refused(ErrFull, b.ID, "%w: its directory cannot be listed", ErrNoEnd)
	}
	if i < 0 {
		return nil, refused(ErrFull, b.ID, "%d bytes on none of %d disks", capacity, len(rooms))
	}
	v := s.volumes[i]
	if v.files[file] == nil {
		v.files[file] = &combined{v: v, id: file}
	}
	return v.files[file], nil
}

// createIn adds a region to a combined file.
func (s *Store) createIn(c *combined, b Block, capacity int64, temporary bool) (*Writer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := s.findEnd(c); err != nil {
		return nil, refused(ErrFull, b.ID, "%w: %s: %w", ErrNoEnd, c.v.path(c.id), err)
	}
	k := writing
	if temporary {
		k = copying
	}
	r := &replica{file: c, state: Writing, promised: capacity,
		head: header{disk: c.v.id, file: c.id, block: b.ID, stamp: b.Stamp, capacity: capacity, kind: k, since: c.v.since}}
	if temporary {
		r.state = Temporary
	}
	r.io.Lock()
	defer r.io.Unlock()
	s.mu.Lock()
	err := s.mayCreate(b, temporary)
	if err == nil && c.v.files[c.id] != c {
		err = errMoved
	}
	if other := s.copies[b.ID]; err == nil && other != nil && other.file.v.err() == nil {
		err = refused(ErrExists, b.ID, "%v", Temporary)
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	if other := s.blocks[b.ID]; other != nil && other.head.stamp == b.Stamp {
		r.beside = other.visible.length
	}
	r.head.offset = c.end
	c.end += c.v.size(capacity)
	c.regions = append(c.regions, r)
	c.v.promised += capacity
	c.v.writers++
	s.enter(r)
	s.mu.Unlock()
	w, err := s.begin(r)
	if err != nil {
		s.mu.Lock()
		s.leave(r)
		s.settleUp(r)
		// The region has no header, or one that nobody was told of. Another may begin there.
		if n := len(c.regions) - 1; c.regions[n] == r {
			c.regions, c.end = c.regions[:n], r.head.offset
		}
		s.mu.Unlock()
		return nil, err
	}
	return w, nil
}

// enter makes a replica known under its block, a copy apart while there is another.
func (s *table) enter(r *replica) {
	if s.blocks[r.head.block] != nil && r.state == Temporary && s.blocks[r.head.block].file.v.err() == nil {
		s.copies[r.head.block] = r
	} else {
		s.place(r)
	}
	r.count(true)
}

// place makes a replica that of its block. One on a disk that is out of use is not forgotten for that, but for what was known of it before
// that disk came back in vain.
func (s *table) place(r *replica) {
	id := r.head.block
	if old := s.blocks[id]; old != nil && old != r && old.file.v.err() != nil && old.state != Temporary {
		known := func(r *replica) bool { return r.file.v.dir == old.file.v.dir }
		s.behind[id] = append(slices.DeleteFunc(s.behind[id], known), old)
	}
	s.blocks[id] = r
}

// leave is the end of a replica; Store.mu is held.
func (s *table) leave(r *replica) {
	for _, m := range []map[int64]*replica{s.blocks, s.copies} {
		if m[r.head.block] == r {
			delete(m, r.head.block)
		}
	}
	r.count(false)
	r.state, r.writer = 0, nil
	r.cuts++
}

// settleUp takes back what a writer was promised.
func (s *table) settleUp(r *replica) {
	v := r.file.v
	v.promised -= r.promised
	r.promised = 0
	v.writers--
}

// begin writes the header of a new region; combined.mu is held.
func (s *Store) begin(r *replica) (*Writer, error) {
	c := r.file
	// The index may know a file of this name that was removed. It forgets that before the new one is made: the process may die in
	// between, and the blocks of the old one would be taken for those of the new one.
	if err := c.changeLocked(); err != nil {
		return nil, err
	}
	h, err := c.create()
	if err != nil {
		c.busy--
		return nil, err
	}
	s.at("create.opened")
	r.head.seq = 2
	b := make([]byte, page)
	copy(b, r.head.append(nil))
	if err := h.write(b, r.head.offset); err != nil {
		c.busy--
		h.release()
		return nil, err
	}
	s.at("create.header")
	return s.newWriter(r, h), nil
}

// put writes a new header of a region.
func (s *table) put(r *replica, h *handle, change func(*header)) error {
	next := r.head
	next.seq++
	change(&next)
	if err := h.write(next.append(nil), next.offset+next.slot()); err != nil {
		return err
	}
	s.mu.Lock()
	r.head = next
	s.mu.Unlock()
	return nil
}

// cutOff takes the writer off a replica; io is held. Its next call fails.
func (s *table) cutOff(r *replica) {
	if w := r.writer; w != nil {
		s.mu.Lock()
		r.writer = nil
		s.settleUp(r)
		s.mu.Unlock()
		w.handle.release()
		r.file.changed()
	}
}
