package checkpoint

import (
	"bufio"
	"encoding/binary"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// Magic numbers of CRIU images, criu/include/magic.h.
const (
	imageMagic   = 0x54564319
	pagemapMagic = 0x56084025
	mmMagic      = 0x57492820
)

// A pagemapWriter writes a pagemap image: two magic numbers, then messages of
// images/pagemap.proto, each after its length.
type pagemapWriter struct {
	w   *bufio.Writer
	cur pagemapEntry // not written yet, unless it has no pages
	buf []byte
}

type pagemapEntry struct {
	vaddr, pages uint64
	flags        uint32
}

func newPagemapWriter(w io.Writer, pagesID uint32) (*pagemapWriter, error) {
	m := &pagemapWriter{w: bufio.NewWriterSize(w, 64<<10)}
	b := binary.LittleEndian.AppendUint32(nil, imageMagic)
	b = binary.LittleEndian.AppendUint32(b, pagemapMagic)
	if _, err := m.w.Write(b); err != nil {
		return nil, err
	}
	head := protowire.AppendTag(nil, 1, protowire.VarintType)
	return m, m.message(protowire.AppendVarint(head, uint64(pagesID)))
}

func (m *pagemapWriter) message(b []byte) error {
	var n [4]byte
	binary.LittleEndian.PutUint32(n[:], uint32(len(b)))
	if _, err := m.w.Write(n[:]); err != nil {
		return err
	}
	_, err := m.w.Write(b)
	return err
}

// add appends one page; addresses ascend.
func (m *pagemapWriter) add(vaddr uint64, flags uint32) error {
	if m.cur.pages > 0 && m.cur.flags == flags && m.cur.vaddr+m.cur.pages*pageSize == vaddr {
		m.cur.pages++
		return nil
	}
	if err := m.flushEntry(); err != nil {
		return err
	}
	m.cur = pagemapEntry{vaddr, 1, flags}
	return nil
}

func (m *pagemapWriter) flushEntry() error {
	if m.cur.pages == 0 {
		return nil
	}
	b := m.buf[:0]
	b = protowire.AppendTag(b, 1, protowire.VarintType)
	b = protowire.AppendVarint(b, m.cur.vaddr)
	b = protowire.AppendTag(b, 2, protowire.VarintType) // compat_nr_pages, required, superseded by nr_pages
	b = protowire.AppendVarint(b, 0)
	b = protowire.AppendTag(b, 4, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(m.cur.flags))
	b = protowire.AppendTag(b, 5, protowire.VarintType)
	b = protowire.AppendVarint(b, m.cur.pages)
	m.buf, m.cur.pages = b, 0
	return m.message(b)
}

func (m *pagemapWriter) flush() error {
	if err := m.flushEntry(); err != nil {
		return err
	}
	return m.w.Flush()
}
