package linux

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const cachestatFeature = "cachestat(2)"

// CachedPages returns how many pages of the bytes [off, off+length) of an open file
// are in memory; those behind its end count too. A length of 0 or less gives 0.
// It costs about 30 ns for each folio that is there.
//
// The descriptor must not be an O_PATH one. The caller must own the file, have
// it open for writing, be allowed to write it, or be root: else the error is
// EPERM. Before Linux 6.5 it is a *MissingError.
func CachedPages(fd int, off, length int64) (int64, error) {
	if length <= 0 {
		return 0, nil // for the kernel 0 means all of the file
	}
	var stat unix.Cachestat_t
	for {
		err := unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(off), Len: uint64(length)}, &stat, 0)
		switch {
		case err == nil:
			return int64(stat.Cache), nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOSYS):
			return 0, &MissingError{Feature: cachestatFeature, Need: "Linux 6.5 or newer", Err: err}
		}
		return 0, os.NewSyscallError("cachestat", err)
	}
}

// ProbeCachestat tries CachedPages on memory of this process, where nothing but
// the kernel and a seccomp filter can refuse. The error is a *MissingError.
func ProbeCachestat() error {
	fd, err := unix.MemfdCreate("cachestat", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("try %s: %w", cachestatFeature, os.NewSyscallError("memfd_create", err))
	}
	defer unix.Close(fd)
	_, err = CachedPages(fd, 0, 1)
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.EPERM) {
		return &MissingError{Feature: cachestatFeature, Need: "a seccomp profile that allows it", Err: err}
	}
	return err
}

// MappedPages does as CachedPages for file systems that keep the pages of a file in
// another inode than the one that is open, overlayfs above all, for which
// cachestat tells of no pages at all. It looks through a mapping (mincore(2)),
// which takes several times as long. The descriptor must be open for reading.
//
// Where the caller may not know, mincore calls every page resident. That is
// found out by asking about a page that cannot be; the error is EPERM.
//
// The kernel looks for every page that there could be, some 4 s for a TiB, also in holes: what is more than
// mapMost, or more than mapHoles and nearly nothing but holes, it is not asked about; the error is EFBIG.
func MappedPages(fd int, off, length int64) (int64, error) {
	st, err := known(fd)
	if err != nil {
		return 0, err
	}
	fileSize := int64(st.Size)
	page := int64(os.Getpagesize())
	off, end := off-off%page, fileSize
	if length < end-off {
		end = off + length
	}
	if n := end - off; n > mapMost || n > mapHoles && n/64 > int64(st.Blocks)*512 { // compression may save as much
		return 0, os.NewSyscallError("mincore", unix.EFBIG)
	}
	var vec [mapPiece / 4096]byte
	var sum int64
	for ; off < end; off += mapPiece {
		n, err := incore(fd, off, min(mapPiece, end-off), vec[:])
		if err != nil {
			return 0, err
		}
		sum += n
	}
	if sum == 0 {
		return 0, nil
	}
	beyond := fileSize - fileSize%mapPiece + 16*mapPiece // further than any folio reaches
	lie, err := incore(fd, beyond, 1, vec[:])
	if err == nil && lie > 0 {
		err = os.NewSyscallError("mincore", unix.EPERM)
	}
	return sum, err
}

// KnownSize returns the size of an open file as this machine knows it. The server of a file system on the network, or in
// user space, is not asked, so that nobody waits for one that does not answer.
func KnownSize(fd int) (int64, error) {
	st, err := known(fd)
	return int64(st.Size), err
}

// known returns the size of an open file, and how many blocks of 512 bytes it has, as KnownSize.
func known(fd int) (st unix.Statx_t, err error) {
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_SIZE|unix.STATX_BLOCKS, &st)
	return st, os.NewSyscallError("statx", err)
}

const (
	// mapPiece is how much is mapped at once.
	mapPiece = 16 << 20
	// mapMost is how much is looked through in one call, and mapHoles if it is sparse.
	mapMost  = 256 << 30
	mapHoles = 1 << 30
)

// incore counts the pages of a range that are resident.
func incore(fd int, off, length int64, vec []byte) (int64, error) {
	mem, err := unix.Mmap(fd, off, int(length), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return 0, os.NewSyscallError("mmap", err)
	}
	defer unix.Munmap(mem)
	pages := (len(mem) + os.Getpagesize() - 1) / os.Getpagesize()
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)),
		uintptr(unsafe.Pointer(&vec[0]))); errno != 0 {
		return 0, os.NewSyscallError("mincore", errno)
	}
	var n int64
	for _, v := range vec[:pages] {
		n += int64(v & 1)
	}
	return n, nil
}
