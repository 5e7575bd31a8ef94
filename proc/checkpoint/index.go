package checkpoint

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"
)

// An index file holds a hash of every page of one pagemap image, in order of
// addresses: indexMagic, then for each page its address and the two halves of
// its hash, 8 bytes each, little-endian.
const (
	indexMagic     = "HRINDEX1"
	indexEntrySize = 24
	indexSuffix    = ".idx"
)

type indexEntry struct {
	vaddr uint64
	hash  xxh3.Uint128
}

type indexWriter struct {
	w   *bufio.Writer
	buf [indexEntrySize]byte
}

func newIndexWriter(w io.Writer) (*indexWriter, error) {
	x := &indexWriter{w: bufio.NewWriterSize(w, 256<<10)}
	_, err := x.w.WriteString(indexMagic)
	return x, err
}

func (x *indexWriter) add(e indexEntry) error {
	binary.LittleEndian.PutUint64(x.buf[0:], e.vaddr)
	binary.LittleEndian.PutUint64(x.buf[8:], e.hash.Hi)
	binary.LittleEndian.PutUint64(x.buf[16:], e.hash.Lo)
	_, err := x.w.Write(x.buf[:])
	return err
}

func (x *indexWriter) flush() error { return x.w.Flush() }

// An indexReader walks through an index once, in bounded memory.
type indexReader struct {
	r    *bufio.Reader
	cur  indexEntry
	end  bool
	some bool // cur is an entry
}

func newIndexReader(r io.Reader) (*indexReader, error) {
	x := &indexReader{r: bufio.NewReaderSize(r, 256<<10)}
	var magic [len(indexMagic)]byte
	if _, err := io.ReadFull(x.r, magic[:]); err != nil {
		return nil, fmt.Errorf("page index: no header: %w", err)
	}
	if string(magic[:]) != indexMagic {
		return nil, fmt.Errorf("page index: header is %q, want %q", magic, indexMagic)
	}
	return x, x.advance()
}

// advance reads the next entry into cur, or sets end.
func (x *indexReader) advance() error {
	b, err := x.r.Peek(indexEntrySize)
	if len(b) == 0 && err == io.EOF {
		x.end = true
		return nil
	}
	if err == io.EOF {
		return fmt.Errorf("page index: last entry is cut off")
	}
	if err != nil {
		return fmt.Errorf("page index: %w", err)
	}
	e := indexEntry{
		vaddr: binary.LittleEndian.Uint64(b[0:]),
		hash:  xxh3.Uint128{Hi: binary.LittleEndian.Uint64(b[8:]), Lo: binary.LittleEndian.Uint64(b[16:])},
	}
	if e.vaddr%pageSize != 0 || e.vaddr >= maxAddress || x.some && e.vaddr <= x.cur.vaddr {
		return fmt.Errorf("page index: entry with address %#x after %#x", e.vaddr, x.cur.vaddr)
	}
	x.cur, x.some = e, true
	x.r.Discard(indexEntrySize)
	return nil
}

// has reports whether the index holds exactly this entry. The addresses asked
// for must ascend.
func (x *indexReader) has(e indexEntry) (bool, error) {
	for !x.end && x.cur.vaddr < e.vaddr {
		if err := x.advance(); err != nil {
			return false, err
		}
	}
	return !x.end && x.cur == e, nil
}
