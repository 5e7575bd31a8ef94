package meta

import (
	"iter"
	"slices"
)

// Has reports whether a block belongs to a file.
func (q Query) Has(block uint64) bool { return q.Reader.Get(key(keyOwner, block)) != nil }

// PathOf returns where a file or directory lies, if it was not deleted.
func (q Query) PathOf(id uint64) (string, bool) {
	s := q.state()
	n := s.byNumber(id)
	if n == nil {
		return "", false
	}
	t := s.upwards(n)
	if t == nil {
		return "", false
	}
	return t.path(), true
}

// A Target is a block that a client may write now.
type Target struct {
	File     uint64
	Capacity int64  // the most that the block may have
	Stamp    uint64 // the newest that anybody has been given
	User     string // who writes it; empty where that was not kept
}

// Target returns the block as one that may be written, or nil: it is closed, its writer has
// gone, or there is no such block.
func (q Query) Target(block uint64) *Target {
	s := q.state()
	n, b := s.fileOf(block)
	if b == nil || b.State != building || b != n.File.lastBlock() || n.File.Writer == nil || s.upwards(n) == nil {
		return nil
	}
	return &Target{n.ID, n.File.BlockSize, s.counters().Stamp - 1, n.File.Writer.User}
}

// A Placed is a block with all that is known of where its copies are to be.
type Placed struct {
	LocatedBlock // its offset is unknown
	File         uint64
	Capacity     int64  // the most that the block may have
	Replication  uint16 // the file's
	Complete     bool   // nobody writes it
}

func placed(n *inode, b *block) Placed {
	return Placed{*located(b, -1), n.ID, n.File.BlockSize, n.File.Replication, n.File.rests(b)}
}

// Placed returns a block, or nil when no file has it.
func (q Query) Placed(id uint64) (p *Placed) {
	s := q.state()
	var o owner
	if !s.load(key(keyOwner, id), &o) {
		return nil
	}
	n := s.byNumber(o.File)
	if n == nil {
		return nil
	}
	if b, _ := (blocksOf{s.records, n}).find(id, o); b != nil {
		found := placed(n, b)
		p = &found
	}
	return p
}

// Unsettled returns those blocks of files from a number on of which it is kept where they are, or of whose files fewer copies are wanted
// than where segments belong (replicas), and which nobody writes, and where to go on; 0: that was all. It ends with a file after mostUnsettled.
func (q Query) Unsettled(from uint64, files, replicas int) (blocks []Placed, next uint64) {
	s := q.state()
	for k := range s.v.Scan(key(keyFile, from), []byte{keyFile + 1}) {
		if files--; files < 0 || len(blocks) >= mostUnsettled {
			return blocks, numberAt(k, 0)
		}
		n := s.byNumber(numberAt(k, 0))
		if n == nil {
			continue
		}
		s.blocks(n, func(b *block) bool {
			if n.File.rests(b) && (len(b.Nodes) > 0 || int(n.File.Replication) < replicas) {
				blocks = append(blocks, placed(n, b))
			}
			return true
		})
		delete(s.loaded, n.ID) // there may be very many
	}
	return blocks, 0
}

// Unfinished returns the blocks of open files that are being written or recovered.
func (q Query) Unfinished() (blocks []Placed) {
	s := q.state()
	for k := range s.v.Scan([]byte{keyOpen}, []byte{keyOpen + 1}) {
		n := s.byNumber(numberAt(k, 0))
		if n == nil || s.upwards(n) == nil {
			continue
		}
		for i := range n.File.Tail {
			if b := &n.File.Tail[i]; b.State != complete {
				blocks = append(blocks, placed(n, b))
			}
		}
	}
	return blocks
}

const mostUnsettled = 20_000

// mostFiles bounds the files that a walk remembers.
const mostFiles = 256

// walk finds blocks in the order of anything but their files. It remembers those of files of which it is not known which of their blocks one is.
type walk struct {
	*state
	files map[uint64]map[uint64]Placed
}

func (q Query) walk() walk { return walk{q.state(), map[uint64]map[uint64]Placed{}} }

// placed returns a block of a file.
func (w walk) placed(id uint64, o owner) (Placed, bool) {
	if o.Place > 0 {
		if len(w.loaded) >= mostFiles {
			clear(w.loaded)
		}
		if n := w.byNumber(o.File); n != nil {
			if b, _ := (blocksOf{w.records, n}).find(id, o); b != nil {
				return placed(n, b), true
			}
		}
		return Placed{}, false
	}
	file := o.File
	f, known := w.files[file]
	if !known {
		if len(w.files) >= mostFiles {
			clear(w.files)
			clear(w.loaded)
		}
		f = map[uint64]Placed{}
		if n := w.byNumber(file); n != nil {
			w.blocks(n, func(b *block) bool { f[b.ID] = placed(n, b); return true })
		}
		w.files[file] = f
	}
	p, ok := f[id]
	return p, ok
}

// scannedApart is up to how many segments are looked up one by one: a look costs as much as passing over many blocks.
const scannedApart = 32

// InSegments returns the blocks of segments that nobody writes, in the order of segments and numbers, from a block of a segment on. It may be
// cut short when the query's context has ended.
func (q Query) InSegments(segments []uint16, segment uint16, block uint64) iter.Seq[Placed] {
	segments = slices.Clone(segments)
	slices.Sort(segments)
	from, _ := slices.BinarySearch(segments, segment)
	segments = segments[from:]
	return func(yield func(Placed) bool) {
		if len(segments) == 0 {
			return
		}
		w := q.walk()
		first := func(s uint16) uint64 {
			if s == segment {
				return block
			}
			return 0
		}
		if len(segments) > scannedApart {
			wanted := map[uint64]bool{}
			for _, s := range segments {
				wanted[uint64(s)] = true
			}
			w.scan(segments[0], segments[len(segments)-1], first(segments[0]), wanted, yield)
			return
		}
		for _, s := range segments {
			if !w.scan(s, s, first(s), map[uint64]bool{uint64(s): true}, yield) {
				return
			}
		}
	}
}

// scan yields the finished blocks of some of a row of segments.
func (w walk) scan(from, to uint16, block uint64, wanted map[uint64]bool, yield func(Placed) bool) bool {
	for k := range w.v.Scan(key(keySegment, uint64(from), block), key(keySegment, uint64(to)+1)) {
		if w.ended() != nil {
			return false
		}
		if !wanted[numberAt(k, 0)] {
			continue
		}
		id := numberAt(k, 1)
		var o owner
		if !w.load(key(keyOwner, id), &o) {
			continue
		}
		if p, ok := w.placed(id, o); ok && p.Complete && !yield(p) {
			return false
		}
	}
	return true
}

// All returns the blocks of all files, from a number on, in the order of numbers.
func (q Query) All(from uint64) iter.Seq[Placed] {
	return func(yield func(Placed) bool) {
		w := q.walk()
		for k, v := range w.v.Scan(key(keyOwner, from), []byte{keyOwner + 1}) {
			var o owner
			if err := decode(recordVersion, v, &o); err != nil {
				panic("meta: whose a block is cannot be read: " + err.Error())
			}
			if p, ok := w.placed(numberAt(k, 0), o); ok && !yield(p) {
				return
			}
		}
	}
}

// LastBlock returns the last block of a file, or nil.
func (q Query) LastBlock(path string) *Placed { return q.BlockAt(path, 1<<63-1) }

// BlockAt returns the block of a file in which an offset lies, or its last one, or nil.
func (q Query) BlockAt(path string, offset int64) (p *Placed) {
	s := q.state()
	s.caller.Super = true
	t, err := s.resolve(path, toRead)
	if err != nil {
		return nil
	}
	n, err := t.file(t.path())
	if err != nil {
		return nil
	}
	found := func(b *block, end int64) bool {
		last := placed(n, b)
		p = &last
		return end > offset
	}
	if at := n.File.SpilledSize; at > offset { // seldom
		at = 0
		s.blocks(n, func(b *block) bool { at += b.Size; return !found(b, at) })
		return p
	}
	at := n.File.SpilledSize
	for i := range n.File.Tail {
		b := &n.File.Tail[i]
		if at += b.Size; found(b, at) {
			break
		}
	}
	return p
}

// A Next is the block that an open file may get next.
type Next struct {
	File        uint64
	Index       int // of the block in the file
	Replication uint16
	BlockSize   int64
}

// Next returns that of a file which a client has open, or nil.
func (q Query) Next(path string, id uint64, holder string) *Next {
	s := q.state()
	t, err := s.byNumberOrPath(path, id)
	if err != nil {
		return nil
	}
	n, err := s.leased(t, id, holder)
	if err != nil {
		return nil
	}
	return &Next{n.ID, n.File.count(), n.File.Replication, n.File.BlockSize}
}

// mostRelocations is how many blocks are to be in a Relocate: nothing else is applied meanwhile.
const mostRelocations = 1000

// Relocate says where copies of blocks are that nobody writes. Without nodes they are where their segments belong. See Relocates.
type Relocate struct{ Blocks []Relocation }

// A Relocation is a block of one generation; of another one nothing is changed.
type Relocation struct {
	Block, Stamp uint64
	Nodes        []string
}

// Relocates returns commands that together say where copies of blocks are. All of a file is written by each, so none has files with more than mostSwept bytes of attributes.
func Relocates(q Query, all []Relocation) (commands []*Relocate) {
	s := q.state()
	var now *Relocate
	attributes := 0
	for _, r := range all {
		var of owner
		more := 0
		if s.load(key(keyOwner, r.Block), &of) {
			if n := s.byNumber(of.File); n != nil {
				more = n.attributes()
				delete(s.loaded, n.ID) // there may be very many
			}
		}
		if attributes += more; now == nil || len(now.Blocks) == mostRelocations || attributes > mostSwept {
			now, attributes = &Relocate{}, more
			commands = append(commands, now)
		}
		now.Blocks = append(now.Blocks, r)
	}
	return commands
}

func (o *Relocate) code(c *coder) {
	list(c, &o.Blocks, func(c *coder, r *Relocation) { number(c, &r.Block); number(c, &r.Stamp); texts(c, &r.Nodes) })
}

func (o *Relocate) apply(s *state) (Result, error) {
	for _, r := range o.Blocks {
		var of owner
		if !s.load(key(keyOwner, r.Block), &of) {
			continue
		}
		if n := s.byNumber(of.File); n != nil {
			s.relocate(n, r, of)
		}
	}
	return nil, nil
}

func (s *records) relocate(n *inode, r Relocation, of owner) {
	b, i := blocksOf{s, n}.find(r.Block, of)
	switch {
	case b == nil, b.Stamp != r.Stamp:
	case i < n.File.Spilled:
		b.Nodes = r.Nodes
		s.store(key(keyBlock, n.ID, uint64(i)), b)
	case b.State == complete, s.rules > version1 && n.File.rests(b):
		b.Nodes = r.Nodes
		s.save(n)
	}
}
