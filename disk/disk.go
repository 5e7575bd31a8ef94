package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ID names a device: its number as in stat(2), of the whole disk where a
// partition was asked about.
type ID uint64

// String returns the number as the kernel writes it: "254:0".
func (id ID) String() string {
	return fmt.Sprintf("%d:%d", unix.Major(uint64(id)), unix.Minor(uint64(id)))
}

// Device is one disk, or what stands for one (a network or FUSE file system has
// an anonymous device of its own).
type Device struct {
	ID ID
	// Name is the kernel's ("vda", "loop0") or "0:57" for an anonymous one.
	Name string
	// Mount and FSType are of the file system that was asked about. They are empty
	// for a block device that was opened itself, and for a file system that is not
	// mounted where this process sees it.
	Mount, FSType string
	// Rotational devices seek. Those that do not say count as rotational.
	Rotational bool
	// Memory: the files live in memory (tmpfs); turns are granted at once.
	Memory bool
	// Note is what could not be found out, for people; empty when nothing.
	Note string
}

// Extents of turns. On a disk that seeks, 12 ms to get there are 5 % of the 224 ms
// that 32 MiB take at 150 MB/s; twice the extent would gain 2 % and let others
// wait twice as long. Without seeks a turn only has to be long beside the
// microseconds of its handing over and the kernel's read-ahead of some MB.
const (
	seekingExtent = 32 << 20
	otherExtent   = 16 << 20
)

// Extent returns how many bytes a turn on the device should be: long enough that a
// seek does not matter.
func (d Device) Extent() int64 {
	if d.Rotational {
		return seekingExtent
	}
	return otherExtent
}
