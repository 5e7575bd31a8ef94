package checkpoint

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// A memory is what a process tree holds: for each pagemap image, pages by
// address.
type memory map[string]map[uint64][]byte

func (m memory) clone() memory {
	c := make(memory)
	for name, pages := range m {
		c[name] = maps.Clone(pages)
	}
	return c
}

// dstOf returns the inverse of request.imageName.
func dstOf(name string) uint64 {
	var id uint64
	if n, _ := fmt.Sscanf(name, "pagemap-shmem-%d", &id); n == 1 {
		return id<<8 | 2
	}
	if n, _ := fmt.Sscanf(name, "pagemap-%d", &id); n == 1 {
		return id<<8 | 1
	}
	panic(name)
}

func encodeRequest(r request) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(r.flags)<<16|uint32(r.cmd))
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, r.pages)
	b = binary.LittleEndian.AppendUint64(b, r.vaddr)
	return binary.LittleEndian.AppendUint64(b, r.dst)
}

// A fakeCriu speaks the client's part of the protocol.
type fakeCriu struct {
	conn io.ReadWriter
	// maxRun limits the pages of one request.
	maxRun int
}

func (c fakeCriu) request(r request, answer int) error {
	if _, err := c.conn.Write(encodeRequest(r)); err != nil {
		return err
	}
	b := make([]byte, answer)
	if _, err := io.ReadFull(c.conn, b); err != nil {
		return fmt.Errorf("the page server does not answer: %w", err)
	}
	for _, v := range b {
		if v != 0 {
			return fmt.Errorf("the page server answers %v", b)
		}
	}
	return nil
}

// dump sends a memory as criu dump does.
func (c fakeCriu) dump(m memory) error {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if err := c.request(request{cmd: cmdOpen, dst: dstOf(name)}, 1); err != nil {
			return err
		}
		if err := c.pages(dstOf(name), m[name]); err != nil {
			return err
		}
	}
	return c.request(request{cmd: cmdForceClose}, 4)
}

func (c fakeCriu) pages(dst uint64, pages map[uint64][]byte) error {
	addrs := slices.Sorted(maps.Keys(pages))
	for len(addrs) > 0 {
		n := 1
		for n < len(addrs) && n < c.maxRun && addrs[n] == addrs[n-1]+pageSize {
			n++
		}
		flags := uint16(flagPresent)
		if dst&0xff == 1 && addrs[0]/pageSize%3 != 0 {
			flags |= flagLazy
		}
		if _, err := c.conn.Write(encodeRequest(request{cmd: cmdAdd, flags: flags, pages: uint64(n), vaddr: addrs[0], dst: dst})); err != nil {
			return err
		}
		for _, a := range addrs[:n] {
			if _, err := c.conn.Write(pages[a]); err != nil {
				return err
			}
		}
		addrs = addrs[n:]
	}
	return nil
}

// dumpInto lets the fake write what criu would write into the directory, too.
func (c fakeCriu) dumpInto(w *Writer, m memory, other map[string][]byte) error {
	c.conn = w.PageSocket()
	if c.maxRun == 0 {
		c.maxRun = 1 << 20
	}
	if err := c.dump(m); err != nil {
		return err
	}
	for name, b := range other {
		if err := os.WriteFile(w.Dir()+"/"+name, b, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(w.Dir()+"/"+inventoryName, []byte("inventory"), 0o600)
}
