package meta

// tailLength is how many blocks lie in a file's own record: the last ones.
const tailLength = 8

func (f *file) count() int { return f.Spilled + len(f.Tail) }

// lastBlock returns the last block, or nil.
func (f *file) lastBlock() *block { return f.fromEnd(1) }

// fromEnd returns the i-th block from the end, or nil: only the last two are asked for,
// and a long file has eight in its record.
func (f *file) fromEnd(i int) *block {
	if len(f.Tail) < i {
		return nil
	}
	return &f.Tail[len(f.Tail)-i]
}

// size is the length as far as it is known; settled is that without a last block that is
// still written.
func (f *file) size() int64 {
	n := f.SpilledSize
	for i := range f.Tail {
		n += f.Tail[i].Size
	}
	return n
}

// rests reports whether nobody writes a block of the file, or finds out what it has.
func (f *file) rests(b *block) bool {
	return b.State == complete || b.State == committed && f.Writer == nil
}

func (f *file) settled() int64 {
	if b := f.lastBlock(); b != nil && b.State != complete {
		return f.size() - b.Size
	}
	return f.size()
}

// addBlock puts a block at the end of a file. Of those in the record the first goes apart
// when they become too many.
func (s *records) addBlock(n *inode, b block) {
	f := n.File
	f.Tail = append(f.Tail, b)
	for len(f.Tail) > tailLength {
		first := f.Tail[0]
		s.store(key(keyBlock, n.ID, uint64(f.Spilled)), &first)
		f.Spilled++
		f.SpilledSize += first.Size
		f.Tail = f.Tail[1:]
	}
}

// dropLast takes the last block off a file, and refills its record from those apart, so
// that the last two are always there.
func (s *records) dropLast(n *inode) {
	f := n.File
	f.Tail = f.Tail[:len(f.Tail)-1]
	if len(f.Tail) < 2 && f.Spilled > 0 {
		f.Spilled--
		k := key(keyBlock, n.ID, uint64(f.Spilled))
		var b block
		s.load(k, &b)
		s.v.Delete(k)
		f.SpilledSize -= b.Size
		f.Tail = append([]block{b}, f.Tail...)
	}
}

// blocks calls each for all blocks of a file, until it returns false.
func (s *records) blocks(n *inode, each func(*block) bool) {
	all := blocksOf{s, n}
	for i := range n.File.count() {
		if !each(all.at(i)) {
			return
		}
	}
}

// blocksOf are the blocks of a file by their places, from 0 on.
type blocksOf struct {
	*records
	n *inode
}

func (f blocksOf) at(i int) *block {
	if i >= f.n.File.Spilled {
		return &f.n.File.Tail[i-f.n.File.Spilled]
	}
	b := &block{}
	f.load(key(keyBlock, f.n.ID, uint64(i)), b)
	return b
}

// find returns a block by its number, and its place; nil if it is not there.
func (f blocksOf) find(id uint64, o owner) (*block, int) {
	if i := o.Place - 1; i >= 0 && i < f.n.File.count() {
		if b := f.at(i); b.ID == id {
			return b, i
		}
	}
	for i := f.n.File.count() - 1; i >= 0; i-- { // most that is asked for is among the last ones
		if b := f.at(i); b.ID == id {
			return b, i
		}
	}
	return nil, 0
}

// ownLast enters the last block of a file into the indexes of blocks: to which file it belongs, and in which
// segment its copies are to be. Segments keep what a node needs to compare with its disks.
func (s *records) ownLast(n *inode) {
	b, o := n.File.lastBlock(), &owner{File: n.ID}
	o.Segment = b.Segment
	if s.rules > version2 {
		o.Place = n.File.count()
	}
	s.store(key(keyOwner, b.ID), o)
	s.placed(b)
}

func (s *records) placed(b *block) {
	s.store(key(keySegment, uint64(b.Segment), b.ID), &stampedSize{b.Stamp, b.Size})
}

// stampedSize is what a copy of a block is to be like.
type stampedSize struct {
	Stamp uint64
	Size  int64
}

func (v *stampedSize) code(c *coder) { number(c, &v.Stamp); number(c, &v.Size) }

// discard takes a block out of the indexes; its copies are garbage.
func (s *records) discard(b *block) {
	s.v.Delete(key(keyOwner, b.ID))
	s.v.Delete(key(keySegment, uint64(b.Segment), b.ID))
	s.store(key(keyGarbage, s.take(&s.counters().Garbage)), b)
}

// fileOf returns the file of a block and its place from the end, if it is one of the last
// two: no other block changes.
func (s *records) fileOf(id uint64) (*inode, *block) {
	var o owner
	if !s.load(key(keyOwner, id), &o) {
		return nil, nil
	}
	n := s.byNumber(o.File)
	if n == nil {
		return nil, nil
	}
	for i := 1; i <= 2; i++ {
		if b := n.File.fromEnd(i); b != nil && b.ID == id {
			return n, b
		}
	}
	return n, nil
}

// commit notes the length that a client gives for the last block of its file, and that the
// block is complete if enough copies are known (BlockManager.commitOrCompleteLastBlock).
func (s *records) commit(n *inode, given *Block, copies uint16) error {
	b := n.File.lastBlock()
	if given == nil || b == nil || b.State == complete {
		return nil
	}
	if b.State == underRecovery {
		return fail(classIO, "Commit or complete block %v, whereas it is under recovery.", given)
	}
	if b.State == building {
		if b.Stamp != given.Stamp {
			return fail(classIO, "Commit block with mismatching GS. NN has %v, client submits %v", b.public(), given)
		}
		if s.rules > version1 && (given.ID != b.ID || given.Size < 0 || given.Size > n.File.BlockSize) {
			return fail(classIO, "Commit block %v with %d bytes, whereas it is %v and has at most %d", given, given.Size, b.public(), n.File.BlockSize)
		}
		b.State, b.Size = committed, given.Size
	}
	if s.rules == version1 || *given == *b.public() { // copies are of what is given
		b.Copies = max(b.Copies, copies)
	}
	s.completeBlock(b)
	return nil
}

// completeBlock makes a committed block with enough copies complete.
func (s *records) completeBlock(b *block) {
	if b.State == committed && b.Copies >= s.config.MinReplication {
		b.State = complete
	}
	s.placed(b)
}

// A Block names a block as clients do.
type Block struct {
	ID    uint64
	Stamp uint64
	Size  int64
}

func (b *Block) code(c *coder) { number(c, &b.ID); number(c, &b.Stamp); number(c, &b.Size) }

func codePublic(c *coder, b *Block) { b.code(c) }

func (b *Block) String() string { return blockName(b.ID, b.Stamp) }

func (b *block) public() *Block { return &Block{b.ID, b.Stamp, b.Size} }

// same reports whether two blocks, or none, are the same with the same stamp.
func same(given *Block, b *block) bool {
	if given == nil || b == nil {
		return given == nil && b == nil
	}
	return given.ID == b.ID && given.Stamp == b.Stamp
}

// A LocatedBlock is a block, where in its file it begins, and where its copies are: at Nodes,
// which write it, or have it since it was written; without any they are where its segment
// belongs.
type LocatedBlock struct {
	Block
	Offset  int64
	Segment uint16
	Nodes   []string
}

func codeLocated(c *coder, l *LocatedBlock) {
	l.Block.code(c)
	c.signed(&l.Offset)
	number(c, &l.Segment)
	texts(c, &l.Nodes)
}

func located(b *block, offset int64) *LocatedBlock {
	return &LocatedBlock{*b.public(), offset, b.Segment, b.Nodes}
}
