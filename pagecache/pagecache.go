package pagecache

import (
	"context"
	"os"
)

// BlockSize is the granularity at which watched files are followed. It is a
// multiple of the largest folio (2 MiB), so that no folio is in two blocks.
const BlockSize = 16 << 20

// Range is the bytes [Off, Off+Len) of a file.
type Range struct{ Off, Len int64 }

// Method is how residency is found out.
type Method string

const (
	// BPF counts the page cache's own events; reading the state costs no more for
	// large files than for small ones.
	BPF Method = "bpf"
	// Cachestat asks the kernel about each file again (cachestat(2), Linux 6.5).
	Cachestat Method = "cachestat"
	// None: nothing is allowed or present; every file counts as not resident.
	None Method = "none"
)

// Cache is the page cache. Its methods may be called from any goroutine. Files
// must be regular ones (ErrNotRegular); a range is cut to what the file has. What
// the kernel tells of a file it tells only its owner, who may write it, and root.
type Cache interface {
	// Method returns how residency is found out, and why not by something better.
	Method() (m Method, why string)

	// Resident asks the kernel now how many bytes of a range are in memory. What
	// is behind the end of the file does not count. With the method None it fails
	// (errors.ErrUnsupported).
	Resident(f *os.File, r Range) (int64, error)

	// Watch follows a file from now on. It keeps a descriptor of its own; the
	// caller may close f. A file may be watched more than once. When there are too
	// many of them it fails with ErrTooMany.
	Watch(f *os.File) (Watched, error)
	// Refresh brings all watched files up to date, in one batch. Who watches
	// calls it as often as it wants to know, a second being usual. Files that
	// cannot be asked about keep their values; the error tells of the first ones.
	Refresh(ctx context.Context) error

	// Pin reads a range that is not resident in pieces of 1 MiB, then locks it in
	// memory until it is released. progress, if not nil, is told the bytes of each
	// piece after it is there. A range counts against the budget in whole pages
	// from before the first piece is read; past the budget Pin reads nothing and
	// fails with ErrBudget. Ranges that overlap count each for itself. When ctx
	// ends, Pin stops after the present piece and nothing stays locked.
	//
	// Config.Own has what is in memory locked as it is. Otherwise, if half of the range
	// or more is there already, other than by Pins that hold it, Pin reads what is missing, locks nothing and fails with ErrResident.
	// If less is, that is read again before it is locked; what is mapped, or not yet
	// on the disk, stays as it is and is not locked, but counts. Of a file that has
	// become shorter, what exists is locked. A lock keeps pages from being reclaimed; where a file is changed
	// elsewhere, network and FUSE file systems drop them all the same.
	Pin(ctx context.Context, f *os.File, r Range, progress func(n int64)) (Pinned, error)
	// Pinned returns what is locked now, Budget what may be at most.
	Pinned() int64
	Budget() int64

	// Evict drops what is clean and not locked of a range. Pages that are only
	// partly in the range stay, and so do all of file systems that live in memory.
	Evict(f *os.File, r Range) error

	// Close ends all Pins at work (ErrClosed) and releases everything. For a disk or file server that
	// does not answer it waits linux.EndTime; then the error is ErrHangs, and says for which file.
	Close() error
}

// Watched is a file that is followed. Values are as of the last Refresh, but that
// a new size of the file may be seen later, by three Refreshes at most, if no
// page of it came or went with it.
type Watched interface {
	// Resident returns the number of bytes in memory.
	Resident() int64
	// Blocks appends the resident bytes of each block of BlockSize to dst: those of
	// its pages in memory, at most what the block has. (So the last page of a file
	// counts as a whole one where other pages are missing.)
	Blocks(dst []int64) []int64
	// Close ends it.
	Close() error
}

// Pinned is a locked range.
type Pinned interface {
	// Bytes returns what counts against the budget until Release: whole pages.
	Bytes() int64
	// Release unlocks it and leaves its pages to the kernel. Later calls do
	// nothing.
	Release() error
}
