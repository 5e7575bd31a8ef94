package mend

import (
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"headrace/internal/criu/image"
)

// A child has the memory of its parent's rings of asynchronous I/O (io_setup) after a fork, and not their contexts. CRIU cannot tell, and would
// make a context for each, with a ring of its own: the next checkpoint would mix that up with its parent's, which is at the same address. So
// it becomes ordinary memory, with what it holds.

// rings makes such memory of the rings at some addresses, by process.
func rings(dir string, copies map[int][]uint64) error {
	for pid, at := range copies {
		path := filepath.Join(dir, fmt.Sprintf("mm-%d.img", pid))
		f, err := image.Read(path)
		if err != nil {
			return err
		}
		for i, mm := range f.Entries {
			if f.Entries[i], err = withoutRings(mm, at); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		if err := rewrite(path, f); err != nil {
			return err
		}
	}
	return nil
}

// withoutRings returns an mm_entry without the rings at some addresses.
func withoutRings(mm image.Message, at []uint64) (image.Message, error) {
	is := func(m image.Message) bool {
		start, _ := m.Uint(image.AIOStart) // of either kind of message
		return slices.Contains(at, start)
	}
	mm, n, err := mm.ChangeMessages(image.MMVMA, func(vma image.Message) (image.Message, bool) {
		if !is(vma) {
			return vma, false
		}
		return vma.SetUint(image.VMAStatus, image.VMARegular|image.VMAPrivAnon).SetUint(image.VMAFlags, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS), true
	})
	if err == nil && n != len(at) {
		err = fmt.Errorf("of %d rings %d are in it", len(at), n)
	}
	if err != nil {
		return nil, err
	}
	return mm.DeleteMessages(image.MMAIO, is)
}
