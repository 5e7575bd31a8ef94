package checkpoint

import (
	"encoding/binary"
	"fmt"
	"os"

	"google.golang.org/protobuf/encoding/protowire"
)

// Of images/mm.proto and images/vma.proto.
const (
	mmFieldVMA     = 14
	vmaFieldFlags  = 6
	vmaFieldStatus = 7

	mapPrivate = 0x2
	mapHugetlb = 0x40000
	vmaPlugin  = 1 << 27 // VMA_EXT_PLUGIN

	// maxMM limits what is read of an mm image: vm.max_map_count mappings of
	// 60 bytes are far less.
	maxMM = 64 << 20
)

// needsFull reports whether an mm image (what mappings a process has) shows a
// private mapping of huge pages, or one that belongs to a CRIU plug-in. CRIU
// restores these straight from the pages file without looking at the parent
// image (criu/mem.c, premap_priv_vmas and restore_priv_vma_content), so that an
// incremental image would silently give them the wrong contents.
func needsFull(path string) (bool, error) {
	st, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	if st.Size() > maxMM {
		return false, fmt.Errorf("%s: %d bytes are too many for a description of mappings", path, st.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	full, err := parseMM(b)
	if err != nil {
		return false, fmt.Errorf("%s: %w; CRIU 4.2 is required", path, err)
	}
	return full, nil
}

func parseMM(b []byte) (needsFull bool, err error) {
	if len(b) < 12 || binary.LittleEndian.Uint32(b) != imageMagic || binary.LittleEndian.Uint32(b[4:]) != mmMagic {
		return false, fmt.Errorf("not a description of mappings")
	}
	n := binary.LittleEndian.Uint32(b[8:])
	if b = b[12:]; uint64(n) != uint64(len(b)) {
		return false, fmt.Errorf("message of %d bytes in %d", n, len(b))
	}
	err = eachField(b, func(num protowire.Number, typ protowire.Type, v []byte) error {
		if num != mmFieldVMA || typ != protowire.BytesType {
			return nil
		}
		vma, _ := protowire.ConsumeBytes(v)
		full, err := parseVMA(vma)
		needsFull = needsFull || full
		return err
	})
	return needsFull, err
}

func parseVMA(b []byte) (needsFull bool, err error) {
	var flags, status uint64
	err = eachField(b, func(num protowire.Number, typ protowire.Type, v []byte) error {
		if typ != protowire.VarintType {
			return nil
		}
		n, _ := protowire.ConsumeVarint(v)
		switch num {
		case vmaFieldFlags:
			flags = n
		case vmaFieldStatus:
			status = n
		}
		return nil
	})
	return flags&mapPrivate != 0 && flags&mapHugetlb != 0 || status&vmaPlugin != 0, err
}

// eachField calls f with the encoded value of every field of a message.
func eachField(b []byte, f func(protowire.Number, protowire.Type, []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		n = protowire.ConsumeFieldValue(num, typ, b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(num, typ, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
