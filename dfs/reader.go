package dfs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"headrace/block"
	"headrace/meta"
)

// A Reader reads a part of a file in order, out of the blocks that are here. One goroutine uses it.
type Reader struct {
	n      *Node
	blocks []meta.LocatedBlock // that are not read yet; the first of them is being read
	r      *block.Reader
	// at is where the next byte lies in the file, end where the part ends, Size how long the file is: what is flushed of
	// a file that somebody writes counts.
	at, end, Size int64
}

// OpenFile opens length bytes of a file from offset on, or as many as there are.
func (n *Node) OpenFile(by meta.Caller, path string, offset, length int64) (*Reader, error) {
	r := &Reader{n: n}
	err := n.Query(by, func(q meta.Query) error {
		l, err := q.Blocks(path, offset, length)
		if err != nil {
			return err
		}
		r.Size, r.blocks = l.Size, l.Blocks
		if l.Last != nil && !l.LastComplete {
			if i, err := n.Blocks.Stat(int64(l.Last.ID)); err == nil {
				l.Last.Size = i.Length
				r.Size = l.Last.Offset + i.Length
			}
			if k := len(r.blocks); k > 0 && r.blocks[k-1].ID == l.Last.ID { // the state may not know its length
				r.blocks = r.blocks[:k-1]
			}
			r.blocks = append(r.blocks, *l.Last)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.at = min(offset, r.Size)
	r.end = r.at + min(length, r.Size-r.at)
	return r, nil
}

// Left is how many bytes Next has not returned yet.
func (r *Reader) Left() int64 { return r.end - r.at }

// Next returns bytes that were compared with their checksums, which are valid until the next call, or io.EOF.
func (r *Reader) Next(ctx context.Context) ([]byte, error) {
	for r.at < r.end {
		if len(r.blocks) == 0 {
			return nil, fmt.Errorf("the blocks of the file end at %d, not at %d: %w", r.at, r.end, io.ErrUnexpectedEOF)
		}
		b := &r.blocks[0]
		if r.at >= b.Offset+b.Size {
			r.Close()
			r.blocks = r.blocks[1:]
			continue
		}
		if r.r == nil {
			var err error
			if r.r, err = r.n.Blocks.Open(block.Block{ID: int64(b.ID), Stamp: b.Stamp}, r.at-b.Offset, min(r.end-r.at, b.Offset+b.Size-r.at)); err != nil {
				return nil, err
			}
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
		data = data[:min(int64(len(data)), r.end-r.at, b.Offset+b.Size-r.at)]
		if r.at += int64(len(data)); len(data) > 0 {
			return data, nil
		}
	}
	return nil, io.EOF
}

// Close ends the reading.
func (r *Reader) Close() {
	if r.r != nil {
		r.r.Close()
		r.r = nil
	}
}
