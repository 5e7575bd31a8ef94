package block

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// Delete removes replicas, but none of a newer generation. Those of one file are best
// deleted together: then the file is removed at once if nothing is left of it.
func (s *Store) Delete(blocks ...Block) error {
	blocks = slices.Clone(blocks)
	slices.SortFunc(blocks, func(a, b Block) int { return cmp.Compare(a.ID, b.ID) }) // so that two calls cannot wait for each other
	blocks = slices.CompactFunc(blocks, func(a, b Block) bool { return a.ID == b.ID })
	var errs []error
	files := map[*combined][]*replica{}
	for _, b := range blocks {
		r, err := s.hold(b.ID)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer r.io.Unlock()
		if b.Stamp < r.head.stamp {
			errs = append(errs, refused(ErrFenced, b.ID, "generation %d is here", r.head.stamp))
			continue
		}
		s.cutOff(r)
		files[r.file] = append(files[r.file], r)
	}
	for _, r := range files {
		errs = append(errs, s.drop(r...))
	}
	return errors.Join(errs...)
}

// drop takes replicas of one file, which have no writers, off the disk; io of each is
// held. A file without a block is removed, any other gets holes, once it is durable that
// nothing is to be there.
func (s *Store) drop(rs ...*replica) error {
	c := rs[0].file
	s.mu.Lock()
	for _, r := range rs {
		s.leave(r)
	}
	s.mu.Unlock()
	if err := s.tidy(c); err != nil {
		return err
	}
	s.mu.Lock()
	there := len(c.regions) > 0
	s.mu.Unlock()
	if !there {
		return nil
	}
	return s.withFile(rs[0], func(h *handle) error {
		for _, r := range rs {
			if err := s.put(r, h, func(next *header) { next.kind = gone }); err != nil {
				return err
			}
		}
		s.at("delete.header")
		if err := h.sync(); err != nil {
			return err
		}
		for _, r := range rs {
			from := r.head.offset + headerSize
			n := c.v.size(r.head.capacity) - headerSize
			if err := c.v.do(changing, func() error { return h.Punch(from, n) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// dropFor drops a replica in whose place another one is. That it cannot be removed is no failure of the other: the next start finds it again.
func dropFor(s *Store, r, old *replica) error {
	err := s.drop(old)
	if err == nil || r.file.v.err() != nil {
		return err
	}
	r.file.v.log.Warn("a replica in whose place another one is could not be removed", "block", r.head.block, "disk", old.file.v.dir, "cause", err)
	return nil
}

// tidy removes a file that has no blocks any more. Until its name is gone it is the one that whoever creates a block in it finds, and waits
// for: another one of the same name would be made on what is about to be removed. One that cannot be removed, as it cannot be read, stays as a gap.
func (s *Store) tidy(c *combined) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.mu.Lock()
	live := len(c.gaps) > 0 || c.left || c.v.files[c.id] != c
	for _, r := range c.regions {
		live = live || r.state != 0
	}
	s.mu.Unlock()
	if live {
		return nil
	}
	s.at("delete.unlink")
	err := c.unlink()
	cause := err
	stays := errors.Is(err, unix.EIO) && c.v.err() == nil
	if stays { // the index would say at the next start that its blocks are there
		c.v.log.Error("a file of blocks could not be removed", "file", c.v.path(c.id), "cause", err)
		err = c.v.index.forget(c.v, c.id)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.regions = nil; stays {
		c.gaps = []Gap{{c.id, 0, math.MaxInt64, cause}}
		c.v.torn = append(slices.DeleteFunc(c.v.torn, func(o *combined) bool { return o == c }), c)
		return nil
	}
	delete(c.v.files, c.id)
	return nil
}
