package block

import (
	"bytes"
	"encoding/binary"
	"errors"
)

func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }

// salvage brings a replica that was being written when its process ended to its last good
// byte, durably. It reports which that is, also where it cannot be made the last one, and whether nothing behind it was ever handed to the
// kernel, unless the machine has ended.
func (s *Store) salvage(r *replica) (good mark, all bool, err error) {
	err = s.withFile(r, func(h *handle) error {
		var err error
		if good, all, err = r.lastGood(h); err != nil {
			return err
		}
		less := func() error { // the next start has to know, too, and finds nothing of it
			all = false
			return errors.Join(s.put(r, h, func(next *header) { next.since = 0 }), h.sync())
		}
		if !all {
			err = less()
		}
		if err == nil {
			err = r.erase(h, good, less)
		}
		if err != nil {
			return err
		}
		s.at("salvage.erased")
		if had := r.head.settled.length; good.length < had {
			s.Log.Error("a block has lost some of what was synced: it is not on the disk as it was written", "block", r.head.block, "disk", r.file.v.dir, "synced", had, "left", good.length)
		}
		err = s.put(r, h, func(next *header) {
			next.kind, next.mark, next.durable, next.settled = writing, good, good, good
			if r.file.v.back {
				next.since = 0
			}
		})
		if err != nil {
			return err
		}
		s.mu.Lock()
		r.show(good)
		s.mu.Unlock()
		if err := h.sync(); err != nil {
			return err
		}
		r.confirmed = good
		return nil
	})
	return good, all, err
}

// lastGood finds the end of what can be trusted: from what is known to be durable on,
// chunk by chunk, as far as they agree with their checksums. It reports whether the checksum in which that ends, if there is one, is of what
// is before. What cannot be read is an end as well, and an error.
//
// Where the end of the last chunk lies nobody has noted: it is where the bytes have the
// checksum. (That one of the 511 ends fits by chance has a probability of one in eight
// million, and takes a damaged chunk.) If the power failed while the chunk was written,
// bytes and checksum may be of different times; then what was made durable of it is known
// by the marks.
func (r *replica) lastGood(h *handle) (end mark, clean bool, err error) {
	l, hd, most := r.file.v.layout, &r.head, int64(1<<20)
	for at := down(hd.settled.length, Chunk); at < hd.capacity; {
		n := min(hd.capacity-at, l.pieceEnd(at)-at, most)
		sums, err := h.read(hd.offset+l.sumAt(at), up(n, Chunk)/Chunk*SumSize)
		if err != nil {
			return mark{length: at}, false, err
		}
		data, err := h.read(hd.offset+l.dataAt(at), n)
		switch {
		case err == nil:
		case most > Chunk && r.file.v.err() == nil: // it may be behind the end
			most = Chunk
			continue
		case be32(sums) == 0:
			return mark{length: at}, true, nil
		default:
			return mark{length: at}, false, err
		}
		for ; len(data) > 0; sums = sums[SumSize:] {
			chunk := data[:min(Chunk, len(data))]
			if sum(chunk) != be32(sums) {
				end := r.goodPart(at, chunk, be32(sums))
				return end, end.tail == be32(sums), nil
			}
			if len(chunk) < Chunk { // the end of the capacity
				return mark{at + int64(len(chunk)), be32(sums)}, true, nil
			}
			at += Chunk
			data = data[Chunk:]
		}
	}
	return mark{length: down(max(hd.capacity, 0), Chunk)}, true, nil
}

// goodPart returns the end of what is good in a chunk that does not agree with its checksum
// as a whole.
func (r *replica) goodPart(at int64, chunk []byte, want uint32) mark {
	best := mark{length: at}
	if want != 0 {
		var c uint32
		for i := range len(chunk) - 1 {
			if c = update(c, chunk[i:i+1]); c == want {
				best = mark{at + int64(i) + 1, want}
			}
		}
	}
	for _, m := range []mark{r.head.durable, r.head.settled} {
		n := m.length - at
		if n > 0 && n < int64(len(chunk)) && m.length > best.length && sum(chunk[:n]) == m.tail {
			best = m
		}
	}
	return best
}

// erase removes the checksums behind a mark durably, so that bytes of an earlier life,
// or of a writer that was fenced off, never count as those of a later one. If there are any it calls found before.
func (r *replica) erase(h *handle, to mark, found func() error) error {
	l, off := r.file.v.layout, r.head.offset
	if to.length%Chunk != 0 {
		if err := h.write(binary.BigEndian.AppendUint32(nil, to.tail), off+l.sumAt(to.length)); err != nil {
			return err
		}
	}
	size, err := r.file.size(h)
	if err != nil {
		return err
	}
	some := false
	for at := up(to.length, Chunk); at < r.head.capacity; at = l.pieceEnd(at) {
		from := off + l.sumAt(at)
		if from >= size {
			break
		}
		n := (l.pieceEnd(at) - at) / Chunk * SumSize
		if old, err := h.read(from, n); err == nil && len(bytes.TrimLeft(old, "\x00")) == 0 {
			continue
		}
		if !some {
			if err := found(); err != nil {
				return err
			}
		}
		some = true
		if err := h.write(make([]byte, n), from); err != nil {
			return err
		}
	}
	if err := h.sync(); err != nil {
		return err
	}
	r.spilled = to.length
	return nil
}

// report tells of a replica that cannot be read as it was written, once.
func (s *Store) report(r *replica, cause error) {
	if r.file.v.err() != nil {
		return // that is told of the disk
	}
	s.mu.Lock()
	first := !r.damaged
	r.hurt(true)
	info := r.info()
	s.mu.Unlock()
	if first {
		tell(s, info, cause)
	}
}

// tell tells of a damaged replica.
func tell(s *Store, info Info, cause error) {
	s.Log.Error("a replica is damaged", "block", info.ID, "disk", info.Dir, "cause", cause)
	if s.Damaged != nil {
		go s.Damaged(info, cause)
	}
}

// examine looks at a replica in which a bad chunk was found. If it was closed shortly
// before the machine ended, only the end may be missing: then what is good becomes a
// block that waits to be recovered, as if it had not been closed.
func (s *Store) examine(r *replica, cuts int, cause error) error {
	r.io.Lock()
	defer r.io.Unlock()
	if r.cuts != cuts {
		return refused(ErrChanged, r.head.block, "while it was read")
	}
	s.report(r, cause)
	if !r.suspect || r.state != Final {
		return cause
	}
	length := r.visible.length
	if _, _, err := s.salvage(r); err != nil {
		return cause
	}
	s.mu.Lock()
	r.suspect, r.state = false, Waiting
	r.hurt(false) // what is left is as it was written
	r.cuts++
	s.mu.Unlock()
	s.Log.Warn("a block lost its end with the power", "block", r.head.block, "length", length, "left", r.visible.length)
	return cause
}
