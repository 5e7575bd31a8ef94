package meta

// Truncate cuts a file to a length. At the end of a block that is done at once, and the result is true. Else the file is open until
// the copies of its last block are cut, by a recovery, and the result is false (FSDirTruncateOp).
type Truncate struct {
	Path            string
	Size            int64
	Holder, Machine string
	// Block is that in which the new end lies, and Nodes where it is, as far as the proposer knows.
	Block uint64
	Nodes []string
}

func (o *Truncate) code(c *coder) {
	text(c, &o.Path)
	c.signed(&o.Size)
	text(c, &o.Holder)
	text(c, &o.Machine)
	number(c, &o.Block)
	texts(c, &o.Nodes)
}

func (o *Truncate) apply(s *state) (Result, error) {
	if o.Size < 0 {
		return nil, fail(classHadoopArgument, "Cannot truncate to a negative file size: %d.", o.Size)
	}
	if err := s.awake("Cannot truncate for %s", o.Path); err != nil {
		return nil, err
	}
	t, err := s.resolve(o.Path, toWrite)
	if err == nil {
		err = s.permit(t, demands{last: Write})
	}
	if err != nil {
		return nil, err
	}
	n, err := t.file(t.path())
	if err != nil {
		return nil, err
	}
	f := n.File
	if b := f.lastBlock(); b != nil && b.Cut > 0 {
		if o.Size == f.size()-b.Size+b.Cut { // asked again
			return flag(false), nil
		}
		return nil, fail(classBeingCreated, "Failed to TRUNCATE_FILE %s for %s on %s because %s is being truncated.", t.path(), o.Holder, o.Machine, t.path())
	}
	if _, err := s.reclaim("TRUNCATE_FILE", n, t.path(), o.Holder, o.Machine); err != nil {
		return nil, err
	}
	switch size := f.size(); {
	case size == o.Size:
		return flag(true), nil
	case size < o.Size:
		return nil, fail(classHadoopArgument, "Cannot truncate to a larger file size. Current size: %d, truncate size: %d.", size, o.Size)
	}
	costs, off := s.cutCosts(n, o.Size)
	if off > mostMoved && s.rules > version5 {
		return nil, fail(classHadoopArgument, "Cannot truncate %s by %d blocks, which is more than %d: truncate it in steps", t.path(), off, mostMoved)
	}
	if err := t.affords(usage{space: costs}, nil); err != nil {
		return nil, err
	}
	return flag(o.cut(s, n)), nil
}

// cutCosts is how much more space the copies of a file take while it is cut, as its last block counts as a full one, and how many blocks are
// taken off.
func (s *records) cutCosts(n *inode, size int64) (more int64, off int) {
	end := int64(0)
	s.blocks(n, func(b *block) bool {
		switch from := end; {
		case from >= size:
			more -= b.Size
			off++
		case from+b.Size > size:
			more += n.File.BlockSize - b.Size
		}
		end += b.Size
		return true
	})
	return more * int64(n.File.Replication), off
}

// cut takes off the blocks behind the end, and begins to cut the one in which it lies. It reports whether there is none.
func (o *Truncate) cut(s *state, n *inode) bool {
	f := n.File
	n.Modified = s.now
	for f.count() > 0 && f.size()-f.lastBlock().Size >= o.Size {
		s.discard(f.lastBlock())
		s.dropLast(n)
	}
	if f.size() == o.Size {
		s.save(n)
		return true
	}
	b := f.lastBlock()
	b.Cut = o.Size - (f.size() - b.Size)
	b.State, b.Recovery, b.RecoveryUntil = underRecovery, s.take(&s.counters().Stamp), s.now+recoveryTime
	if b.ID == o.Block {
		b.Nodes = o.Nodes
	}
	f.Writer = writerBy(s, o.Holder, o.Machine)
	s.hold(o.Holder, n)
	s.save(n)
	return false
}
