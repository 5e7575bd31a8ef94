package linux

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const cachestatFeature = "cachestat(2)"

// CachedPages is how many pages of the bytes [off, off+length) of an open file
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
