package mend

import (
	"fmt"

	"golang.org/x/sys/unix"

	"headrace/internal/criu/image"
)

// Programs reserve addresses that they may never use, more than the machine has memory (MariaDB reserves 8 TB), as private
// memory that may not be written. The kernel counts nothing for that. But CRIU makes private mappings writable until it has filled
// them, and a writable one must fit into the machine: the restore fails, on the same machine.
//
// So large ones are marked as not to be counted (MAP_NORESERVE). The kernel does not count them later either, when
// the program makes parts of them writable; that is what most programs ask for anyway when they reserve so much.

// reservedFrom is how large a mapping is to be marked: far below the memory of a machine, and above the ordinary,
// which stay as they were.
const reservedFrom = 1 << 30

// reserved marks what has been reserved in all processes of an image.
func reserved(dir string) error {
	list, err := image.Named(dir, "mm-*.img")
	if err != nil {
		return err
	}
	for _, path := range list {
		f, err := image.Read(path)
		if err != nil {
			return err
		}
		changed := false
		for i, mm := range f.Entries {
			marked, n, err := markReserved(mm)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			f.Entries[i] = marked
			changed = changed || n > 0
		}
		if !changed {
			continue
		}
		if err := rewrite(path, f); err != nil {
			return err
		}
	}
	return nil
}

// markReserved returns an mm_entry with what has been reserved marked, and how many mappings that are.
func markReserved(mm image.Message) (marked image.Message, n int, err error) {
	return mm.ChangeMessages(image.MMVMA, func(vma image.Message) (image.Message, bool) {
		start, _ := vma.Uint(image.VMAStart)
		end, _ := vma.Uint(image.VMAEnd)
		prot, _ := vma.Uint(image.VMAProt)
		flags, _ := vma.Uint(image.VMAFlags)
		if end-start < reservedFrom || prot&unix.PROT_WRITE != 0 || flags&unix.MAP_PRIVATE == 0 ||
			flags&(unix.MAP_NORESERVE|unix.MAP_HUGETLB) != 0 { // huge pages are set aside, which is another thing
			return vma, false
		}
		return vma.SetUint(image.VMAFlags, flags|unix.MAP_NORESERVE), true
	})
}
