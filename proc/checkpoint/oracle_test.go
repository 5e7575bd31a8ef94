package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// readMemory reads the memory from an image directory in the way that criu
// restore does (criu/pagemap.c), but as simply as possible.
func readMemory(dir string) (memory, error) {
	names, err := filepath.Glob(filepath.Join(dir, "pagemap-*.img"))
	if err != nil {
		return nil, err
	}
	m := make(memory)
	for _, path := range names {
		name := strings.TrimSuffix(filepath.Base(path), ".img")
		if m[name], err = readImage(dir, name); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return m, nil
}

func readImage(dir, name string) (map[uint64][]byte, error) {
	b, err := os.ReadFile(filepath.Join(dir, name+".img"))
	if err != nil {
		return nil, err
	}
	if len(b) < 8 || binary.LittleEndian.Uint64(b) != pagemapMagic<<32|imageMagic {
		return nil, errors.New("wrong magic numbers")
	}
	var messages [][]byte
	for b = b[8:]; len(b) > 0; {
		n := binary.LittleEndian.Uint32(b)
		messages = append(messages, b[4:4+n])
		b = b[4+n:]
	}
	data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("pages-%d.img", varints(messages[0])[1])))
	if err != nil {
		return nil, err
	}
	var parent map[uint64][]byte
	if _, err := os.Lstat(filepath.Join(dir, "parent")); err == nil {
		parent, err = readImage(filepath.Join(dir, "parent"), name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	pages, next := make(map[uint64][]byte), uint64(0)
	for _, msg := range messages[1:] {
		v := varints(msg)
		vaddr, count, flags := v[1], v[5], v[4]
		if _, ok := v[2]; !ok || vaddr < next {
			return nil, fmt.Errorf("entry %v after %#x", v, next)
		}
		next = vaddr + count*pageSize
		for a := vaddr; a < next; a += pageSize {
			switch flags &^ flagLazy {
			case flagParent:
				page, ok := parent[a]
				if !ok {
					return nil, fmt.Errorf("missing %#x in parent pagemap", a)
				}
				pages[a] = page
			case flagPresent:
				if len(data) < pageSize {
					return nil, fmt.Errorf("pages file ends before %#x", a)
				}
				pages[a] = data[:pageSize:pageSize]
				data = data[pageSize:]
			default:
				return nil, fmt.Errorf("flags %d at %#x", flags, a)
			}
		}
	}
	if len(data) != 0 {
		return nil, fmt.Errorf("%d bytes too many in pages file", len(data))
	}
	return pages, nil
}

func varints(b []byte) map[protowire.Number]uint64 {
	m := make(map[protowire.Number]uint64)
	for len(b) > 0 {
		num, _, n := protowire.ConsumeTag(b)
		v, k := protowire.ConsumeVarint(b[n:])
		m[num] = v
		b = b[n+k:]
	}
	return m
}
