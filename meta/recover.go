package meta

// recover closes a file whose writer is to go, or begins to (FSNamesystem.internalReleaseLease).
// While its last block has no agreed length, the file is held by heir, or goes on being
// held by who did when that is empty. When its writer's lease has expired it stays his user's.
func (s *state) recover(n *inode, path, heir string) (closed bool, err error) {
	f := n.File
	last, previous := f.lastBlock(), f.fromEnd(2)
	previousDone := previous == nil || previous.State == complete
	switch {
	case last == nil || last.State == complete && previousDone:
		s.close(n)
		return true, nil
	case !previousDone && (previous.State != committed):
		return false, fail(classIO, "DIR* NameSystem.internalReleaseLease: attempt to release a create lock on %s but file is already closed.", path)
	case last.State == committed && previousDone && last.Copies >= s.config.MinReplication:
		s.completeBlock(last)
		s.close(n)
		return true, nil
	case last.State == committed && !previousDone:
		return false, fail(classBeingCreated, "DIR* NameSystem.internalReleaseLease: Failed to release lease for file %s"+
			". Committed blocks are waiting to be minimally replicated.", path)
	case len(last.Nodes) == 0 && last.Size == 0:
		s.discard(last)
		s.dropLast(n)
		s.close(n)
		return true, nil
	}
	if s.now >= last.RecoveryUntil {
		last.State, last.Recovery, last.RecoveryUntil = underRecovery, s.take(&s.counters().Stamp), s.now+recoveryTime
	}
	if heir != "" && heir != f.Writer.Holder {
		s.letGo(f.Writer.Holder, n)
		f.Writer.Holder = heir
		if f.Writer.User != "" && heir != system {
			f.Writer.User = s.caller.User
		}
		s.hold(heir, n)
	} else {
		s.hold(f.Writer.Holder, n)
	}
	s.save(n)
	return false, nil
}

// close makes a file one that nobody writes.
func (s *state) close(n *inode) {
	n.Modified = s.now
	s.release(n)
	s.save(n)
}

// CommitRecovery ends the recovery of a block: its nodes agree on a length, and have given
// their copies the stamp of the recovery.
type CommitRecovery struct {
	Block  uint64
	Stamp  uint64 // the recovery's
	Size   int64
	Delete bool     // no node has any of it
	Close  bool     // the file is to be closed
	Nodes  []string // with a copy
}

func (o *CommitRecovery) code(c *coder) {
	number(c, &o.Block)
	number(c, &o.Stamp)
	number(c, &o.Size)
	c.flag(&o.Delete)
	c.flag(&o.Close)
	texts(c, &o.Nodes)
}

func (o *CommitRecovery) apply(s *state) (Result, error) {
	if err := s.awake("Cannot commitBlockSynchronization while in safe mode"); err != nil {
		return nil, err
	}
	n, b := s.fileOf(o.Block)
	name := blockName(o.Block, o.Stamp)
	switch {
	case n == nil && o.Delete:
		return nil, nil
	case n == nil:
		return nil, fail(classIO, "Block (=%s) not found", name)
	case s.upwards(n) == nil:
		return nil, fail(classNotFound, "File not found: %s, likely due to delayed block removal", n.Name)
	case n.File.Writer == nil, b == nil, b.State == complete:
		return nil, nil // done before
	case b.State != underRecovery, b.Recovery != o.Stamp:
		return nil, fail(classIO, "The recovery id %d does not match current recovery id %d for block %s", o.Stamp, b.Recovery, name)
	case b.Cut > 0 && o.Size > b.Cut: // less may be all there is
		return nil, fail(classIO, "%s is to be cut to %d bytes, and not to %d", name, b.Cut, o.Size)
	}
	if o.Delete {
		s.discard(b)
		s.dropLast(n)
	} else {
		b.Stamp, b.Size, b.Nodes, b.Recovery, b.RecoveryUntil = o.Stamp, o.Size, o.Nodes, 0, 0
		b.Cut = 0
		b.State = building
		s.placed(b)
	}
	if !o.Close {
		s.save(n)
		return nil, nil
	}
	if !o.Delete { // whatever the number of copies: more are made
		b.State, b.Copies = complete, uint16(len(o.Nodes))
	}
	s.close(n)
	return nil, nil
}

// A Recovery is a block whose writer has gone.
type Recovery struct {
	File  uint64
	Block LocatedBlock
	Stamp uint64 // that it is to get
	Until int64  // ms; then another may begin
	Cut   int64  // the length that it is to get; 0: its nodes find out
}

// Recoveries returns the blocks whose nodes are to agree on a length.
func (q Query) Recoveries() []Recovery {
	s := q.state()
	var all []Recovery
	for k := range s.v.Scan([]byte{keyOpen}, []byte{keyOpen + 1}) {
		n := s.byNumber(numberAt(k, 0))
		if n == nil || s.upwards(n) == nil {
			continue
		}
		if b := n.File.lastBlock(); b != nil && b.State == underRecovery {
			all = append(all, Recovery{n.ID, *located(b, n.File.size()-b.Size), b.Recovery, b.RecoveryUntil, b.Cut})
		} else {
			delete(s.loaded, n.ID) // there may be very many
		}
	}
	return all
}
