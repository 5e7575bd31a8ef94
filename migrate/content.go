package migrate

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The contents of a regular file are chunks in the order of their places, each
// after two numbers (unsigned varints): how many bytes are zero before it, and its
// length. A chunk of length 0 ends the file; zeros follow it up to the file's size.

const (
	maxChunk = 1 << 20
)

var errContents = fmt.Errorf("%w: the contents of a file contradict its size", ErrCorrupt)

// writeContents writes the first size bytes of a file, without its holes.
func writeContents(ctx context.Context, w io.Writer, f *os.File, size int64, buf []byte) error {
	c := chunkWriter{w: w}
	for off := int64(0); off < size; {
		data, hole, err := nextData(f, off, size)
		if err != nil {
			return err
		}
		for off = data; off < hole; {
			if err := ctx.Err(); err != nil {
				return err
			}
			b := buf[:min(int64(maxChunk), hole-off)]
			if n, err := f.ReadAt(b, off); n < len(b) {
				return fmt.Errorf("%s has become shorter while it was read: %w", f.Name(), err)
			}
			if err := c.chunk(off, b); err != nil {
				return err
			}
			off += int64(len(b))
		}
	}
	return c.end()
}

// nextData returns the next range of data at or after off; empty, at size, if there is
// none. A file system that knows of no holes has data everywhere.
func nextData(f *os.File, off, size int64) (from, to int64, err error) {
	from, err = unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO) || err == nil && from >= size:
		return size, size, nil
	case errors.Is(err, unix.EINVAL):
		return off, size, nil
	case err != nil:
		return 0, 0, fmt.Errorf("look for data in %s: %w", f.Name(), err)
	}
	to, err = unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
	if err != nil {
		return 0, 0, fmt.Errorf("look for holes in %s: %w", f.Name(), err)
	}
	return from, min(to, size), nil
}

type chunkWriter struct {
	w    io.Writer
	at   int64 // everything before is written
	head [2 * binary.MaxVarintLen64]byte
}

func (c *chunkWriter) chunk(off int64, b []byte) error {
	head := binary.AppendUvarint(c.head[:0], uint64(off-c.at))
	if _, err := c.w.Write(binary.AppendUvarint(head, uint64(len(b)))); err != nil {
		return err
	}
	c.at = off + int64(len(b))
	_, err := c.w.Write(b)
	return err
}

func (c *chunkWriter) end() error {
	_, err := c.w.Write([]byte{0, 0})
	return err
}

// Contents are the data of one regular file of an entry. They can be read once.
type Contents struct {
	r    *bufio.Reader
	size int64
	at   int64
	buf  []byte
	step func() error // unless nil, called now and then
	done bool
}

// Each calls do with the data in order, in pieces of at most a megabyte; what is
// between and after them, up to the file's size, is zero.
func (c *Contents) Each(do func(off int64, b []byte) error) error {
	for !c.done {
		skip, err := c.number()
		if err != nil {
			return err
		}
		n, err := c.number()
		if err != nil {
			return err
		}
		if n == 0 {
			if skip != 0 {
				return errContents
			}
			c.done = true
			return nil
		}
		if n > maxChunk || skip > uint64(c.size-c.at) || n > uint64(c.size-c.at)-skip {
			return errContents
		}
		c.at += int64(skip)
		b := c.buf[:n]
		if _, err := io.ReadFull(c.r, b); err != nil {
			return ended(err)
		}
		if err := do(c.at, b); err != nil {
			return err
		}
		c.at += int64(n)
		if c.step != nil {
			if err := c.step(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Contents) number() (uint64, error) {
	n, err := binary.ReadUvarint(c.r)
	if err != nil {
		return 0, ended(err)
	}
	return n, nil
}

// ended makes damage of an end that comes too early.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the data end inside a file", ErrCorrupt)
	}
	return err
}

// WriteToFile writes the data to an empty file and gives it its size. Ranges
// that were holes become holes again.
func (c *Contents) WriteToFile(f *os.File) error {
	err := c.Each(func(off int64, b []byte) error {
		_, err := f.WriteAt(b, off)
		return err
	})
	if err != nil {
		return err
	}
	return f.Truncate(c.size)
}
