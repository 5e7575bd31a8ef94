package checkpoint

import (
	"encoding/binary"
	"fmt"
)

// The page server protocol of CRIU 4.2, criu/page-xfer.c.
const (
	requestSize    = 32
	oldRequestSize = 24 // CRIU before 4.2

	cmdOpen       = 4      // PS_IOV_OPEN2: the pages that follow belong to dst; answered by one byte
	cmdParent     = 5      // PS_IOV_PARENT: is there a parent image of dst? answered by four bytes
	cmdAdd        = 6      // PS_IOV_ADD_F: a run of pages, followed by their bytes
	cmdClose      = 0x1023 // PS_IOV_CLOSE: answered by four bytes, the status
	cmdForceClose = 0x1024 // PS_IOV_FORCE_CLOSE: the same

	pageSize = 4096
	// maxAddress is beyond every address of a user process (57 bits).
	maxAddress = 1 << 57
)

// Flags of a pagemap entry, criu/include/pagemap.h.
const (
	flagParent  = 1
	flagLazy    = 2
	flagPresent = 4
)

// request is struct page_server_iov: u32 cmd (flags in the upper half), 4 bytes
// of padding, u64 nr_pages, u64 vaddr, u64 dst_id, in host order, which is
// little-endian where CRIU has our page size.
type request struct {
	cmd, flags        uint16
	pages, vaddr, dst uint64
}

func parseRequest(b *[requestSize]byte) request {
	c := binary.LittleEndian.Uint32(b[0:])
	return request{
		cmd:   uint16(c),
		flags: uint16(c >> 16),
		pages: binary.LittleEndian.Uint64(b[8:]),
		vaddr: binary.LittleEndian.Uint64(b[16:]),
		dst:   binary.LittleEndian.Uint64(b[24:]),
	}
}

// imageName returns the base name of the pagemap image that the request is for.
func (r request) imageName() (string, error) {
	switch id := r.dst >> 8; r.dst & 0xff {
	case 1:
		return fmt.Sprintf("pagemap-%d", id), nil
	case 2:
		return fmt.Sprintf("pagemap-shmem-%d", id), nil
	}
	return "", fmt.Errorf("image of unknown type %d", r.dst&0xff)
}

// process returns the process whose memory the image holds, 0 for one of shared memory.
func (r request) process() int {
	if r.dst&0xff == 1 {
		return int(r.dst >> 8)
	}
	return 0
}

// checkAdd checks a run of pages.
func (r request) checkAdd() error {
	switch {
	case r.flags&^flagLazy != flagPresent:
		return fmt.Errorf("pages at %#x have flags %#x; only pages with contents can be stored (no --lazy-pages, no --prev-images-dir)", r.vaddr, r.flags)
	case r.vaddr%pageSize != 0 || r.vaddr >= maxAddress:
		return fmt.Errorf("pages at impossible address %#x", r.vaddr)
	case r.pages == 0 || r.pages > (maxAddress-r.vaddr)/pageSize:
		return fmt.Errorf("impossible number of pages %d at %#x", r.pages, r.vaddr)
	}
	return nil
}
