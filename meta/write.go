package meta

import "fmt"

func blockName(id, stamp uint64) string { return fmt.Sprintf("blk_%d_%d", id, stamp) }

// AddBlock gives an open file another block, and says how long the one before it became.
// Its result is *Allocated.
type AddBlock struct {
	Path     string
	ID       uint64 // the file's; 0 from clients that do not know it
	Holder   string
	Previous *Block
	Copies   uint16   // finished ones of the previous block that the proposer knows of
	Segment  uint16   // of the new block
	Nodes    []string // that are to write it
}

func (o *AddBlock) code(c *coder) {
	text(c, &o.Path)
	number(c, &o.ID)
	text(c, &o.Holder)
	optional(c, &o.Previous, codePublic)
	number(c, &o.Copies)
	number(c, &o.Segment)
	texts(c, &o.Nodes)
}

// Allocated is the result of AddBlock and NewStamp.
type Allocated struct{ LocatedBlock }

func (a *Allocated) code(c *coder) { codeLocated(c, &a.LocatedBlock) }

func (o *AddBlock) apply(s *state) (Result, error) {
	t, err := s.byNumberOrPath(o.Path, o.ID)
	if err != nil {
		return nil, err
	}
	if err := s.awake("Cannot add block to %s", t.path()); err != nil {
		return nil, err
	}
	n, err := s.leased(t, o.ID, o.Holder)
	if err != nil {
		return nil, err
	}
	f := n.File
	retried, err := o.retried(f, t.path())
	if err != nil || retried != nil {
		return o.again(s, n, retried), err
	}
	if b := f.fromEnd(2); b != nil && b.State != complete {
		return nil, fail(classNotReplicated, "Not replicated yet: %s", t.path())
	}
	if f.count() >= s.config.MaxBlocks {
		return nil, fail(classIO, "File has reached the limit on maximum number of blocks (dfs.namenode.fs-limits.max-blocks-per-file): %d >= %d",
			f.count(), s.config.MaxBlocks)
	}
	if err := s.commit(n, o.Previous, o.Copies); err != nil {
		return nil, err
	}
	s.save(n)
	if b := f.lastBlock(); s.rules > version1 && b != nil && b.State != complete { // behind another one it would never be
		return nil, &partial{fail(classNotReplicated, "Not replicated yet: %s", t.path())}
	}
	if err := t.affords(usage{space: f.BlockSize * int64(f.Replication)}, nil); err != nil {
		return nil, &partial{err} // that the one before is finished stays
	}
	b := block{ID: s.take(&s.counters().Block), Stamp: s.take(&s.counters().Stamp), Segment: o.Segment, State: building, Nodes: o.Nodes}
	offset := f.size()
	s.addBlock(n, b)
	s.ownLast(n)
	s.save(n)
	return &Allocated{*located(&b, offset)}, nil
}

// retried compares what the client takes for the last block. If it is the one before the
// last, the client has not got the answer of the first time, and gets the same block
// (FSDirWriteFileOp.analyzeFileState).
func (o *AddBlock) retried(f *file, path string) (*block, error) {
	last := f.lastBlock()
	if same(o.Previous, last) {
		return nil, nil
	}
	if o.Previous == nil && last != nil && (last.Size >= f.BlockSize || last.Full) && last.State == complete {
		return nil, nil // the first block that is appended after a full one
	}
	if last == nil || !same(o.Previous, f.fromEnd(2)) {
		return nil, fail(classIO, "Cannot allocate block in %s: passed 'previous' block %v does not match actual last block in file %v",
			path, shown(o.Previous), shownBlock(last))
	}
	if last.Size != 0 {
		return nil, fail(classIO, "Request looked like a retry to allocate block %v but it already contains %d bytes", last.public(), last.Size)
	}
	return last, nil
}

func (o *AddBlock) again(s *state, n *inode, b *block) Result {
	if b == nil {
		return nil
	}
	if len(b.Nodes) == 0 {
		b.Nodes = o.Nodes
		s.save(n)
	}
	return &Allocated{*located(b, n.File.size())}
}

func shown(b *Block) string {
	if b == nil {
		return "null"
	}
	return b.String()
}

func shownBlock(b *block) string {
	if b == nil {
		return "null"
	}
	return b.public().String()
}

// AbandonBlock takes the last block off a file that its client could not write.
type AbandonBlock struct {
	Path   string
	ID     uint64
	Holder string
	Block  Block
}

func (o *AbandonBlock) code(c *coder) {
	text(c, &o.Path)
	number(c, &o.ID)
	text(c, &o.Holder)
	o.Block.code(c)
}

func (o *AbandonBlock) apply(s *state) (Result, error) {
	if err := s.awake("Cannot abandon block %v for file%s", &o.Block, o.Path); err != nil {
		return nil, err
	}
	t, err := s.byNumberOrPath(o.Path, o.ID)
	if err != nil {
		return nil, err
	}
	n, err := s.leased(t, o.ID, o.Holder)
	if err != nil {
		return nil, err
	}
	if b := n.File.lastBlock(); b != nil && b.ID == o.Block.ID && b.State != complete {
		s.discard(b)
		s.dropLast(n)
		s.save(n)
	}
	return nil, nil
}

// written returns the file and the block that a client writes, by the block.
func (s *state) written(b *Block, holder string) (*inode, *block, error) {
	if err := s.awake("Cannot get a new generation stamp and an access token for block %v", b); err != nil {
		return nil, nil, err
	}
	n, last := s.fileOf(b.ID)
	switch {
	case n == nil:
		return nil, nil, fail(classIO, "%v does not exist.", b)
	case last == nil, last.State != building:
		state := complete
		if last != nil {
			state = last.State
		}
		return nil, nil, fail(classIO, "Unexpected BlockUCState: %v is %v but not UNDER_CONSTRUCTION", b, state)
	case n.File.Writer == nil, s.upwards(n) == nil:
		return nil, nil, fail(classIO, "The file %v belonged to does not exist or it is not under construction.", b)
	case n.File.Writer.Holder != holder, !n.File.Writer.allows(s.caller):
		return nil, nil, fail(classLeaseExpired, "Lease mismatch: %v is accessed by a non lease holder %s", b, holder)
	}
	return n, last, nil
}

// NewStamp takes a generation stamp for a block that is written, for a pipeline that is to
// be built anew (updateBlockForPipeline). The block gets it with UpdatePipeline. Its result
// is *Allocated.
type NewStamp struct {
	Block  Block
	Holder string
}

func (o *NewStamp) code(c *coder) { o.Block.code(c); text(c, &o.Holder) }

func (o *NewStamp) apply(s *state) (Result, error) {
	_, b, err := s.written(&o.Block, o.Holder)
	if err != nil {
		return nil, err
	}
	l := located(b, -1)
	l.Stamp, l.Size = s.take(&s.counters().Stamp), o.Block.Size
	return &Allocated{*l}, nil
}

// UpdatePipeline says which nodes write a block now, with which stamp.
type UpdatePipeline struct {
	Holder   string
	Old, New Block
	Nodes    []string
}

func (o *UpdatePipeline) code(c *coder) {
	text(c, &o.Holder)
	o.Old.code(c)
	o.New.code(c)
	texts(c, &o.Nodes)
}

func (o *UpdatePipeline) apply(s *state) (Result, error) {
	if err := s.awake("Pipeline not updated"); err != nil {
		return nil, err
	}
	n, b, err := s.written(&o.Old, o.Holder)
	switch {
	case err != nil:
		return nil, err
	case o.New.Stamp <= b.Stamp:
		return nil, fail(classIO, "Update %v but the new block %v does not have a larger generation stamp than the last block %v", &o.Old, &o.New, b.public())
	case o.New.Size < b.Size:
		return nil, fail(classIO, "Update %v (size=%d) to a smaller size block %v (size=%d)", &o.Old, o.Old.Size, &o.New, o.New.Size)
	}
	b.Stamp, b.Size, b.Nodes, b.Copies = o.New.Stamp, o.New.Size, o.Nodes, 0
	s.placed(b)
	s.save(n)
	return nil, nil
}

// Complete closes a file. The result is false while too few copies of its last blocks are
// known: ask again.
type Complete struct {
	Path   string
	ID     uint64
	Holder string
	Last   *Block
	Copies uint16 // finished ones of the last block that the proposer knows of
}

func (o *Complete) code(c *coder) {
	text(c, &o.Path)
	number(c, &o.ID)
	text(c, &o.Holder)
	optional(c, &o.Last, codePublic)
	number(c, &o.Copies)
}

func (o *Complete) apply(s *state) (Result, error) {
	if err := s.awake("Cannot complete file %s", o.Path); err != nil {
		return nil, err
	}
	t, err := s.byNumberOrPath(o.Path, o.ID)
	if err != nil {
		return nil, err
	}
	n, err := s.leased(t, o.ID, o.Holder)
	if err != nil {
		e := err.(*Error)
		if f := t.last(); e.Class == classLeaseExpired && f != nil && !f.Directory && f.File.Writer == nil && same(o.Last, f.File.lastBlock()) {
			return flag(true), nil // closed before
		}
		return nil, err
	}
	if b := n.File.fromEnd(2); b != nil && b.State != complete {
		return flag(false), nil
	}
	if err := s.commit(n, o.Last, o.Copies); err != nil {
		return nil, err
	}
	if b := n.File.lastBlock(); b != nil && b.State != complete {
		s.save(n)
		return flag(false), nil
	}
	s.close(n)
	return flag(true), nil
}

// Fsync keeps the length that the last block of an open file has reached.
type Fsync struct {
	Path   string
	ID     uint64
	Holder string
	Size   int64 // of the last block; not above 0 when it is not to be kept
}

func (o *Fsync) code(c *coder) {
	text(c, &o.Path)
	number(c, &o.ID)
	text(c, &o.Holder)
	c.signed(&o.Size)
}

func (o *Fsync) apply(s *state) (Result, error) {
	if err := s.awake("Cannot fsync file %s", o.Path); err != nil {
		return nil, err
	}
	t, err := s.byNumberOrPath(o.Path, o.ID)
	if err != nil {
		return nil, err
	}
	n, err := s.leased(t, o.ID, o.Holder)
	if err != nil {
		return nil, err
	}
	if b := n.File.lastBlock(); b != nil && o.Size > 0 && b.State != complete {
		b.Size = o.Size
		s.save(n)
	}
	return nil, nil
}
