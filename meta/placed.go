package meta

import (
	"encoding/binary"
	"iter"
)

// Expected is what the copies of a block are to be like, and whose it is. A block that is
// being written may have more bytes, and a newer stamp.
type Expected struct {
	Block
	Segment uint16
	File    uint64
}

// Expected returns the blocks of all files, from a number on, in the order of numbers.
func (q Query) Expected(from uint64) iter.Seq[Expected] {
	s := q.state()
	return func(yield func(Expected) bool) {
		for k, v := range q.Reader.Scan(key(keyOwner, from), []byte{keyOwner + 1}) {
			var o owner
			if err := decode(recordVersion, v, &o); err != nil {
				panic("meta: whose a block is cannot be read: " + err.Error())
			}
			id := binary.BigEndian.Uint64(k[1:])
			var b stampedSize
			if !s.load(key(keySegment, uint64(o.Segment), id), &b) {
				continue
			}
			if !yield(Expected{Block{id, b.Stamp, b.Size}, o.Segment, o.File}) {
				return
			}
		}
	}
}

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
}

// Target returns the block as one that may be written, or nil: it is closed, its writer has
// gone, or there is no such block.
func (q Query) Target(block uint64) *Target {
	s := q.state()
	n, b := s.fileOf(block)
	if b == nil || b.State != building || b != n.File.lastBlock() || n.File.Writer == nil || s.upwards(n) == nil {
		return nil
	}
	return &Target{n.ID, n.File.BlockSize, s.next.Stamp - 1}
}
