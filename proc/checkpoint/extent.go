package checkpoint

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// A sums file lists the extents of a pages file in order: sumsMagic, then for
// each extent its offset (8 bytes), its length (4), the length it is stored with
// (4) and the xxh3 hash of the stored bytes (8), little-endian. What lies between
// extents is zero. In a pages file the stored length is the length; a compressed
// pages file is the stored extents one after the other, each a zstd frame.
const (
	sumsMagic      = "HRSUMS\x00\x01"
	sumsRecordSize = 24
	sumsSuffix     = ".sum"

	// maxExtent limits the length of an extent and with it the memory that
	// reading one needs.
	maxExtent = blockPages * pageSize
	// maxStored is more than zstd needs for maxExtent incompressible bytes.
	maxStored = maxExtent + maxExtent/128 + 1024
)

type extent struct {
	off    int64
	length int
	stored int
	sum    uint64
}

func (e extent) end() int64 { return e.off + int64(e.length) }

type sumsWriter struct{ w *bufio.Writer }

func newSumsWriter(w io.Writer) (*sumsWriter, error) {
	x := &sumsWriter{bufio.NewWriterSize(w, 64<<10)}
	_, err := x.w.WriteString(sumsMagic)
	return x, err
}

func (x *sumsWriter) add(e extent) error {
	var b [sumsRecordSize]byte
	binary.LittleEndian.PutUint64(b[0:], uint64(e.off))
	binary.LittleEndian.PutUint32(b[8:], uint32(e.length))
	binary.LittleEndian.PutUint32(b[12:], uint32(e.stored))
	binary.LittleEndian.PutUint64(b[16:], e.sum)
	_, err := x.w.Write(b[:])
	return err
}

func (x *sumsWriter) flush() error { return x.w.Flush() }

type sumsReader struct {
	r          *bufio.Reader
	compressed bool
	pos        int64 // end of the last extent
}

func newSumsReader(r io.Reader, compressed bool) (*sumsReader, error) {
	x := &sumsReader{r: bufio.NewReaderSize(r, 64<<10), compressed: compressed}
	var magic [len(sumsMagic)]byte
	if _, err := io.ReadFull(x.r, magic[:]); err != nil {
		return nil, fmt.Errorf("checksums: no header: %w", err)
	}
	if string(magic[:]) != sumsMagic {
		return nil, fmt.Errorf("checksums: header is %q, want %q", magic, sumsMagic)
	}
	return x, nil
}

// next returns the next extent, io.EOF after the last. Extents are aligned to
// pages, do not overlap and ascend.
func (x *sumsReader) next() (extent, error) {
	var b [sumsRecordSize]byte
	if _, err := io.ReadFull(x.r, b[:]); err == io.EOF {
		return extent{}, io.EOF
	} else if err != nil {
		return extent{}, fmt.Errorf("checksums: %w", err)
	}
	off, length, stored := binary.LittleEndian.Uint64(b[0:]), binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	ok := off < maxAddress && off%pageSize == 0 && int64(off) >= x.pos &&
		length > 0 && length <= maxExtent && length%pageSize == 0 &&
		stored > 0 && stored <= maxStored && (x.compressed || stored == length)
	if !ok {
		return extent{}, fmt.Errorf("checksums: impossible extent at %d, length %d, stored %d, after %d", off, length, stored, x.pos)
	}
	e := extent{int64(off), int(length), int(stored), binary.LittleEndian.Uint64(b[16:])}
	x.pos = e.end()
	return e, nil
}
