package linux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Clock returns the time since boot, suspended time of the machine included. It
// never jumps, and is the same for every process of one boot.
func Clock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("clock_gettime(CLOCK_BOOTTIME): %v", err)) // every Linux since 2.6.39 has it
	}
	return time.Duration(ts.Nano())
}

// Advice for memory of another process.
const (
	// PageOut writes the pages to swap now.
	PageOut = unix.MADV_PAGEOUT
	// WillNeed starts to bring swapped pages back.
	WillNeed = unix.MADV_WILLNEED
)

// maxAdvice bounds one system call, so that the caller can see progress and
// stop: the kernel takes at most 1024 ranges.
const (
	maxAdvice       = 32 << 20
	maxAdviceRanges = 512
)

// AdviseProcess gives advice on ranges of another process's memory, a piece at
// a time. After each piece it calls more with the number of bytes covered so
// far, and stops when that returns false. Ranges that the kernel refuses
// (locked or special memory) are passed over. It needs Linux 5.10, and the
// rights to trace the process plus CAP_SYS_NICE.
func AdviseProcess(pid int, ranges []Range, advice int, more func(covered int64) bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(fd)
	var covered int64
	for pieces := split(ranges, maxAdvice); len(pieces) > 0; {
		n, size := 0, int64(0)
		for n < len(pieces) && n < maxAdviceRanges && size < maxAdvice {
			size += pieces[n].Len()
			n++
		}
		err := adviseAll(fd, pieces[:n], advice)
		if err != nil {
			return err
		}
		covered += size
		pieces = pieces[n:]
		if more != nil && !more(covered) {
			return nil
		}
	}
	return nil
}

// adviseAll gives advice on every range, skipping the refused ones.
func adviseAll(pidfd int, ranges []Range, advice int) error {
	for len(ranges) > 0 {
		done, err := processMadvise(pidfd, ranges, advice)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOMEM):
			done = ranges[0].Len() // the first one was refused
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return os.NewSyscallError("process_madvise", err)
		case done == 0:
			return nil
		}
		for len(ranges) > 0 && done >= ranges[0].Len() {
			done -= ranges[0].Len()
			ranges = ranges[1:]
		}
		if len(ranges) > 0 && done > 0 {
			rest := ranges[0]
			rest.Start += uint64(done)
			ranges = append([]Range{rest}, ranges[1:]...)
		}
	}
	return nil
}

func processMadvise(pidfd int, ranges []Range, advice int) (int64, error) {
	iov := make([]unix.RemoteIovec, len(ranges))
	for i, r := range ranges {
		iov[i] = unix.RemoteIovec{Base: uintptr(r.Start), Len: int(r.Len())}
	}
	n, _, errno := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(pidfd), uintptr(unsafe.Pointer(&iov[0])),
		uintptr(len(iov)), uintptr(advice), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int64(n), nil
}

// split cuts ranges into pieces of at most size bytes.
func split(ranges []Range, size uint64) []Range {
	var out []Range
	for _, r := range ranges {
		for r.End-r.Start > size {
			out = append(out, Range{r.Start, r.Start + size})
			r.Start += size
		}
		if r.End > r.Start {
			out = append(out, r)
		}
	}
	return out
}

// Stopped reports whether a state letter means that the thread runs no user
// code until it is continued, or never again.
func Stopped(state byte) bool {
	return state == 'T' || state == 't' || Dead(state)
}

// Dead reports whether a state letter means that the thread has ended.
func Dead(state byte) bool { return state == 'Z' || state == 'X' || state == 'x' }

// Signal sends a signal; a process that is already gone is no error.
func Signal(pid int, sig syscall.Signal) error {
	err := unix.Kill(pid, sig)
	if err == unix.ESRCH {
		return nil
	}
	if err != nil {
		return fmt.Errorf("signal %s to %d: %w", unix.SignalName(sig), pid, err)
	}
	return nil
}

// JoinCgroups moves the calling process into the cgroups whose directories are
// given.
func JoinCgroups(dirs []string) error {
	for _, d := range dirs {
		if err := os.WriteFile(filepath.Join(d, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("join cgroup: %w", err)
		}
	}
	return nil
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// WriteFileDurably does as ReplaceFile; when it returns, the new content survives a crash
// of the machine.
func WriteFileDurably(path string, data []byte, mode os.FileMode) error {
	if err := replaceFile(path, data, mode, (*os.File).Sync); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// ReplaceFile writes a file atomically: who reads it sees all of the old content or
// all of the new.
func ReplaceFile(path string, data []byte, mode os.FileMode) error {
	return replaceFile(path, data, mode, func(*os.File) error { return nil })
}

func replaceFile(path string, data []byte, mode os.FileMode, settle func(*os.File) error) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = settle(f)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		os.Remove(path + ".new")
	}
	return err
}

// OpenRegular does as OpenRegularFor with a path whose last part must not be a symbolic
// link. The error has the path.
func OpenRegular(path string, flags int) (*os.File, error) {
	f, err := OpenRegularFor(path, flags|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return f, nil
}

// BootID names this boot of the machine.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(b), err
}
