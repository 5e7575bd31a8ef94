package block

// reopen takes a replica from whoever writes it and gives it a new generation.
func (s *Store) reopen(b Block, stamp uint64, allowed func(r *replica) error) (*Writer, error) {
	r, err := s.hold(b.ID)
	if err != nil {
		return nil, err
	}
	defer r.io.Unlock()
	if err := r.fenced(b, stamp); err != nil {
		return nil, err
	}
	if err := allowed(r); err != nil {
		return nil, err
	}
	needs, err := promise(s, r)
	if err != nil {
		return nil, err
	}
	w, err := s.takeUp(r, stamp, needs)
	if err != nil {
		s.mu.Lock()
		r.file.v.promised -= needs
		s.mu.Unlock()
	}
	return w, err
}

// takeUp opens a replica for who goes on with it, to whom its volume has promised bytes.
func (s *Store) takeUp(r *replica, stamp uint64, needs int64) (*Writer, error) {
	s.cutOff(r)
	c := r.file
	if c.v.index.knows(c.id) {
		r.confirmed = r.visible // it was made durable for that
	}
	if err := c.change(); err != nil {
		return nil, err
	}
	h, err := c.use(0)
	if err == nil {
		if err = s.goOn(r, h, stamp); err == nil {
			s.at("reopened")
			s.mu.Lock()
			r.state, r.recovery, r.promised = Writing, 0, needs
			c.v.writers++
			s.mu.Unlock()
			return s.newWriter(r, h), nil
		}
		h.release()
	}
	c.changed()
	return nil, err
}

// promise has a volume promise a replica that is gone on with what it may still get. It refuses where that has no room, beside what others were promised and what is left to nobody.
func promise(s *Store, r *replica) (needs int64, err error) {
	v := r.file.v
	needs = r.head.capacity - r.visible.length
	others := func() int64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return v.promised - r.promised // its writer, if it has one, is cut off
	}
	return needs, v.allot(others, func(free, total int64) error {
		if float64(free-needs) < s.Reserve*float64(total) {
			return refused(ErrFull, r.head.block, "%d bytes free, and it may get %d", free, needs)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		v.promised += needs
		return nil
	})
}

// goOn gives a replica that is written on a new generation.
func (s *Store) goOn(r *replica, h *handle, stamp uint64) error {
	if r.confirmed.length < r.head.durable.length {
		// An earlier process was to make that durable, and nobody knows whether it is. A header that says less could lose it.
		if err := h.sync(); err != nil {
			return err
		}
		r.confirmed = r.visible
	}
	same := stamp == r.head.stamp
	if err := s.rewind(r, h, r.visible, stamp, writing); err != nil || r.confirmed.length == 0 && !same {
		return err
	}
	// The generation will be recorded. If the power took it, bytes that are durable would be of an older one, and would not count. If it is the same one, nothing else says that
	// the block is not closed any more.
	return h.sync()
}

// fenced refuses generations that are older than what is here or was promised.
func (r *replica) fenced(b Block, stamp uint64) error {
	if b.Stamp > r.head.stamp {
		return refused(ErrNotFound, b.ID, "generation %d is here, not %d", r.head.stamp, b.Stamp)
	}
	if stamp < max(r.head.stamp, r.head.fence) {
		return refused(ErrFenced, b.ID, "generation %d is older than %d", stamp, max(r.head.stamp, r.head.fence))
	}
	return nil
}

// rewind brings the bytes, the length and the header of a replica to what they are to be
// for a generation. The last chunk is read again: what is written behind it must not
// lend its checksum to bytes that are wrong.
func (s *Store) rewind(r *replica, h *handle, to mark, stamp uint64, k kind) error {
	if err := r.verifyTail(h, to); err != nil {
		s.report(r, err)
		return err
	}
	if r.confirmed.length > to.length {
		r.confirmed = to
	}
	header := func() error {
		return s.put(r, h, func(next *header) {
			next.mark, next.kind, next.stamp, next.since = to, k, stamp, r.file.v.since // whoever goes on is content with what is here
			next.fence = max(next.fence, stamp)
			next.settled = r.confirmed
			if k == final || next.durable.length > to.length { // whoever closes it syncs it
				next.durable = to
			} else if next.durable.length < r.confirmed.length {
				next.durable = r.confirmed
			}
		})
	}
	erase := func() error {
		if to.length >= r.spilled {
			return nil
		}
		return r.erase(h, to, func() error { return nil })
	}
	// A closed block has the length that its header says, whatever lies behind it. One
	// that is written has what its checksums say. A cut may touch bytes that the old header
	// calls durable, so the new one must be durable before.
	steps := []func() error{erase, header}
	if k == final && to.length < r.spilled {
		steps = []func() error{header, h.sync, erase}
	} else if k == final {
		steps = steps[1:]
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
		s.at("rewind")
	}
	return nil
}

// verifyTail compares the last chunk, if it is not a whole one, with its checksum.
func (r *replica) verifyTail(h *handle, m mark) error {
	n := m.length % Chunk
	if n == 0 {
		return nil
	}
	p, err := h.read(r.head.offset+r.file.v.dataAt(m.length-n), n)
	if err == nil && sum(p) != m.tail {
		err = refused(ErrDamaged, r.head.block, "the chunk at %d", m.length-n)
	}
	return err
}

// Append opens a closed block, or one being written that has this length, for the bytes
// behind it, with a new generation stamp; a closed one also with the one it has.
func (s *Store) Append(b Block, stamp uint64, length int64) (*Writer, error) {
	return s.reopen(b, stamp, func(r *replica) error {
		// Under the same generation only what is closed: not all clients (hdfs-native) take a new one, as HDFS does not insist.
		old := stamp == r.head.stamp && r.state != Final
		if r.state == Temporary || r.state == Recovering || r.visible.length != length || old {
			return refused(ErrState, b.ID, "%v with %d bytes, generation %d: no appending at %d", r.state, r.visible.length, r.head.stamp, length)
		}
		return nil
	})
}

// Recover goes on with a block that is being written, after its pipeline broke, with a new
// generation stamp. What readers see must be at least min and at most max bytes; what
// was not flushed is cut off.
func (s *Store) Recover(b Block, stamp uint64, min, max int64) (*Writer, error) {
	return s.reopen(b, stamp, func(r *replica) error {
		if r.state != Writing && r.state != Waiting || r.visible.length < min || r.visible.length > max {
			return refused(ErrState, b.ID, "%v with %d bytes: no going on between %d and %d", r.state, r.visible.length, min, max)
		}
		return nil
	})
}

// Complete closes a block whose pipeline broke when the client was closing it. A block that
// is closed already gets the new generation stamp.
func (s *Store) Complete(b Block, stamp uint64, length int64) error {
	return s.finish(b, stamp, func(r *replica) (mark, error) {
		if r.state == Temporary || r.state == Recovering || r.visible.length != length {
			return mark{}, refused(ErrState, b.ID, "%v with %d bytes: no closing at %d", r.state, r.visible.length, length)
		}
		return r.visible, nil
	})
}

// StartRecovery promises that no generation older than recovery writes to a block any
// more, and tells what is here. Recovery is the generation that it will have then. Where the end is damaged, what is before that
// is here, as if the power had taken the rest.
func (s *Store) StartRecovery(b Block, recovery uint64) (Info, error) {
	r, err := s.hold(b.ID)
	if err != nil {
		return Info{}, err
	}
	defer r.io.Unlock()
	if err := r.fenced(b, recovery); err != nil {
		return Info{}, err
	}
	if r.state == Temporary || recovery <= r.head.stamp {
		return Info{}, refused(ErrState, b.ID, "%v of generation %d: no recovery as %d", r.state, r.head.stamp, recovery)
	}
	s.cutOff(r)
	torn := false
	err = s.withFile(r, func(h *handle) error {
		if err := r.verifyTail(h, r.visible); err != nil {
			s.report(r, err)
			torn = true
		}
		if err := s.put(r, h, func(next *header) { next.fence = recovery }); err != nil {
			return err
		}
		s.at("recovery.fenced")
		return h.sync()
	})
	if err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.state != Recovering {
		r.before = r.state
	}
	if torn {
		r.lose(r.visible.length)
	}
	r.state, r.recovery = Recovering, recovery
	info := r.info()
	info.State = r.before
	return info, nil
}

// lose gives up the chunk in which a byte lies, and what is behind it, of a replica under recovery: what is before may be all there is
// anywhere. io and Store.mu are held.
func (r *replica) lose(at int64) {
	r.show(mark{length: down(at, Chunk)})
	r.before, r.whole = Waiting, false
	r.hurt(false)
	r.cuts++
}

// FinishRecovery cuts a block under recovery to a length and closes it with the generation
// of the recovery. Done again, it does nothing. If it cannot be cut there, for the chunk is damaged, it ends before that when it is asked
// again what is here.
func (s *Store) FinishRecovery(b Block, recovery uint64, length int64) error {
	return s.finish(b, recovery, func(r *replica) (mark, error) {
		switch {
		case r.state == Final && r.head.stamp == recovery && r.visible.length == length:
			return r.visible, nil
		case r.state != Recovering || r.recovery != recovery || length > r.visible.length:
			return mark{}, refused(ErrState, b.ID, "%v as %d with %d bytes: no end of recovery %d at %d", r.state, r.recovery, r.visible.length, recovery, length)
		}
		m, err := r.markAt(length)
		if err != nil && r.file.v.err() == nil {
			s.report(r, err)
			s.mu.Lock()
			defer s.mu.Unlock()
			r.lose(length)
		}
		return m, err
	})
}

// finish closes a block at a mark with a generation, durably.
func (s *Store) finish(b Block, stamp uint64, where func(*replica) (mark, error)) error {
	r, err := s.hold(b.ID)
	if err != nil {
		return err
	}
	defer r.io.Unlock()
	if err := r.fenced(b, stamp); err != nil {
		return err
	}
	to, err := where(r)
	if err != nil {
		return err
	}
	s.cutOff(r)
	return s.withFile(r, func(h *handle) error {
		if to.length < r.visible.length {
			s.mu.Lock()
			r.cuts++
			s.mu.Unlock()
		}
		if err := s.rewind(r, h, to, stamp, final); err != nil {
			return err
		}
		s.at("finish.header")
		s.mu.Lock()
		r.show(to)
		r.state, r.recovery, r.spilled = Final, 0, to.length
		s.mu.Unlock()
		r.giveBack(h)
		if err := h.sync(); err != nil {
			return err
		}
		r.confirmed = to
		return nil
	})
}

// withFile changes a replica that has no writer.
func (s *Store) withFile(r *replica, f func(*handle) error) error {
	if err := r.file.change(); err != nil {
		return err
	}
	defer r.file.changed()
	h, err := r.file.use(0)
	if err != nil {
		return err
	}
	defer h.release()
	return f(h)
}

// giveBack returns the room behind the end of a closed block. That it stays reserved if
// the disk refuses is no harm.
func (r *replica) giveBack(h *handle) {
	v := r.file.v
	from := up(r.head.offset+v.dataAt(max(0, r.visible.length-1))+1, page)
	to := r.head.offset + v.size(r.head.capacity)
	if from < to && r.head.capacity > r.visible.length {
		v.do(changing, func() error { return h.Punch(from, to-from) })
	}
}

// markAt returns the mark at a length that readers see.
func (r *replica) markAt(length int64) (mark, error) {
	if length == r.visible.length {
		return r.visible, nil
	}
	m := mark{length: length}
	n := length % Chunk
	if n == 0 {
		return m, nil
	}
	h, err := r.file.use(0)
	if err != nil {
		return m, err
	}
	defer h.release()
	at := length - n
	whole := min(Chunk, r.visible.length-at)
	p, err := h.read(r.head.offset+r.file.v.dataAt(at), whole)
	if err != nil {
		return m, err
	}
	// The chunk must be right as it is before a part of it gets a checksum of its own.
	want := r.visible.tail
	if whole == Chunk {
		c, err := h.read(r.head.offset+r.file.v.sumAt(at), SumSize)
		if err != nil {
			return m, err
		}
		want = be32(c)
	}
	if sum(p) != want {
		return m, refused(ErrDamaged, r.head.block, "the chunk at %d", at)
	}
	m.tail = sum(p[:n])
	return m, nil
}
