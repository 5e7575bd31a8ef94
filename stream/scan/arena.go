package scan

import (
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"headrace/stream/protocol"
)

// arena is a piece of shared memory, cut into slots of one size. The lock
// guards the free list.
type arena struct {
	Area
	mem  []byte
	slot int
	free []int32
	n    int
	// uid is the only user who has seen its contents; mixed when there are more.
	uid   uint32
	mixed bool
	// used is how much of mem has been written to, from its beginning.
	used int
}

// areaIDs counts from 1; no area has the number 0.
var areaIDs atomic.Uint32

// newArena makes shared memory of at least n slots. Consumers get a descriptor that is
// open for reading only, and nobody else can open it anew. It is not sealed against writing:
// that would keep close from giving the memory back.
func newArena(slotSize, n int, uid uint32) (*arena, error) {
	fd, err := unix.MemfdCreate("headrace stream", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make shared memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "stream memory")
	defer f.Close()
	size := slotSize * n
	if err := f.Chmod(0o600); err != nil { // new ones are everybody's who finds a way to their descriptor
		return nil, fmt.Errorf("protect shared memory: %w", err)
	}
	if err := f.Truncate(int64(size)); err != nil {
		return nil, fmt.Errorf("make %d bytes of shared memory: %w", size, err)
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal shared memory: %w", err)
	}
	shared, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, fmt.Errorf("open shared memory for consumers: %w", err)
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		shared.Close()
		return nil, fmt.Errorf("map %d bytes of shared memory: %w", size, err)
	}
	a := &arena{Area: Area{ID: areaIDs.Add(1), Shared: shared}, mem: mem, uid: uid}
	a.Announce = &protocol.Arena{ID: a.ID, Size: uint64(size)}
	a.carve(slotSize)
	return a, nil
}

// carve divides the arena anew. No slot may be in use.
func (a *arena) carve(slotSize int) {
	a.slot, a.n = slotSize, len(a.mem)/slotSize
	a.free = a.free[:0]
	for i := a.n - 1; i >= 0; i-- {
		a.free = append(a.free, int32(i))
	}
}

// wipe clears what was read into it. Whoever gets a piece of it can see the whole: others
// may join a scan who may not read what was there before.
func (a *arena) wipe() {
	clear(a.mem[:a.used])
	a.used = 0
}

// close ends the arena. Empty it first unless somebody may still read it: the memory
// is there as long as anybody has it mapped or its descriptor.
func (a *arena) close() {
	unix.Munmap(a.mem)
	a.Shared.Close()
}

// empty gives the memory back. Who keeps the arena finds zeros.
func (a *arena) empty() { _ = unix.Madvise(a.mem, unix.MADV_REMOVE) } // fails only for what is not mapped, or locked

// take takes a free slot; there must be one. It belongs to the caller until
// drop.
func (a *arena) take(freed func()) *slot {
	i := a.free[len(a.free)-1]
	a.free = a.free[:len(a.free)-1]
	return &slot{a: a, off: int(i) * a.slot, refs: 1, freed: freed}
}
