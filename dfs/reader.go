package dfs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"headrace/block"
	"headrace/meta"
)

// A Reader reads a part of a file in order, out of the blocks that are here, and others at the nodes that have them. One goroutine
// uses it.
type Reader struct {
	n      *Node
	blocks []meta.LocatedBlock // that are not read yet; the first of them is being read
	r      *block.Reader       // of the copy here
	far    *remote             // of one elsewhere
	from   string              // whose copy that is
	failed map[string]error    // nodes that could not give the first block
	buf    []byte
	// at is where the next byte lies in the file, end where the part ends, Size how long the file is: what is flushed of
	// a file that somebody writes counts.
	at, end, Size int64
}

// OpenFile opens length bytes of a file from offset on, or as many as there are.
func (n *Node) OpenFile(by meta.Caller, path string, offset, length int64) (*Reader, error) {
	var l *meta.Located
	if err := n.Query(by, func(q meta.Query) (err error) { l, err = q.Blocks(path, offset, length); return err }); err != nil {
		return nil, err
	}
	r := &Reader{n: n, Size: l.Size, blocks: l.Blocks}
	if l.Last != nil && !l.LastComplete {
		if n, ok := n.Keeper.Length(n.ctx, *l.Last); ok {
			l.Last.Size = n
			r.Size = l.Last.Offset + n
		}
		if k := len(r.blocks); k > 0 && r.blocks[k-1].ID == l.Last.ID { // the state may not know its length
			r.blocks = r.blocks[:k-1]
		}
		r.blocks = append(r.blocks, *l.Last)
	}
	r.at = min(offset, r.Size)
	r.end = r.at + min(length, r.Size-r.at)
	return r, nil
}

// Left is how many bytes Next has not returned yet.
func (r *Reader) Left() int64 { return r.end - r.at }

// Next returns bytes that were compared with their checksums, which are valid until the next call, or io.EOF. A copy that
// cannot be read is left for another one.
func (r *Reader) Next(ctx context.Context) ([]byte, error) {
	for r.at < r.end {
		if len(r.blocks) == 0 {
			return nil, fmt.Errorf("the blocks of the file end at %d, not at %d: %w", r.at, r.end, io.ErrUnexpectedEOF)
		}
		b := &r.blocks[0]
		if r.at >= b.Offset+b.Size {
			r.Close()
			r.blocks, r.failed = r.blocks[1:], nil
			continue
		}
		data, err := r.next(ctx, b)
		switch {
		case err == nil && len(data) > 0:
			r.at += int64(len(data))
			return data, nil
		case err == nil:
		case ctx.Err() != nil, r.from == "": // nobody is left
			return nil, err
		default:
			r.Close()
			if r.failed == nil {
				r.failed = map[string]error{}
			}
			r.failed[r.from] = err
		}
	}
	return nil, io.EOF
}

// next reads on in the first block.
func (r *Reader) next(ctx context.Context, b *meta.LocatedBlock) ([]byte, error) {
	if r.r == nil && r.far == nil {
		if err := r.open(ctx, b); err != nil {
			return nil, err
		}
	}
	if r.far != nil {
		if r.buf == nil {
			r.buf = make([]byte, 256<<10)
		}
		n, err := r.far.Read(r.buf[:min(int64(len(r.buf)), r.end-r.at, b.Offset+b.Size-r.at)])
		if n > 0 {
			err = nil
		} else if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return r.buf[:n], err
	}
	p, err := r.r.Next(ctx)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("block %d: %w", b.ID, err)
	}
	// A part begins and ends with chunks.
	data := p.Data[min(int64(len(p.Data)), max(0, r.at-b.Offset-p.Off)):]
	return data[:min(int64(len(data)), r.end-r.at, b.Offset+b.Size-r.at)], nil
}

// open opens the nearest copy of the first block that has not failed.
func (r *Reader) open(ctx context.Context, b *meta.LocatedBlock) (err error) {
	off, n := r.at-b.Offset, min(r.end-r.at, b.Offset+b.Size-r.at)
	self := r.n.Identity.Node
	if r.failed[self] == nil { // also one that nobody knows of
		if r.r, err = r.n.Blocks.Open(block.Block{ID: int64(b.ID), Stamp: b.Stamp}, off, n); err == nil {
			r.from = self
			return nil
		}
		r.r = nil
	}
	for _, m := range r.n.Places().Readers(*b, r.n.Keeper.host()) {
		if m.Name == self || r.failed[m.Name] != nil {
			continue
		}
		far, ferr := r.n.Keeper.openAt(ctx, m, b.Block, off, n)
		if ferr == nil {
			r.far, r.from = far, m.Name
			return nil
		}
		err = errors.Join(err, fmt.Errorf("at %s: %w", m.Name, ferr))
	}
	for name, ferr := range r.failed {
		err = errors.Join(err, fmt.Errorf("at %s: %w", name, ferr))
	}
	r.from = ""
	return fmt.Errorf("block %d cannot be read: %w", b.ID, err)
}

// Close ends the reading.
func (r *Reader) Close() {
	if r.r != nil {
		r.r.Close()
		r.r = nil
	}
	if r.far != nil {
		r.far.Close()
		r.far = nil
	}
}
