package supplement

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"headrace/internal/criu/image"
	"headrace/internal/linux"
)

// A Lock is what fcntl(2) calls a record lock: it belongs to a process, which loses all that it has on a file when it closes any
// descriptor of it.
type Lock struct {
	linux.Descriptor
	// Type is F_RDLCK or F_WRLCK.
	Type int16 `json:"type"`
	// Start and Len are in bytes. Len 0: to the end, wherever that is.
	Start int64 `json:"start"`
	Len   int64 `json:"len,omitempty"`
}

// LostLocks returns those locks of the tree that CRIU was to restore from the images in dir and that are not held. CRIU takes them first and maps files
// afterwards, through descriptors that it closes: the locks on files that the process has mapped are lost by that.
// SQLite has such locks in its WAL mode.
func LostLocks(dir string) ([]Lock, error) {
	f, err := image.Read(filepath.Join(dir, "filelocks.img"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Lock
	held := make(map[linux.Descriptor]bool)
	for _, e := range f.Entries {
		if flags, _ := e.Uint(image.LockFlags); flags != image.LockPOSIX {
			continue
		}
		whole := true
		number := func(n uint64, ok bool) int64 { whole = whole && ok; return int64(n) }
		l := Lock{
			Descriptor: linux.Descriptor{PID: int(number(e.Uint(image.LockPID))), FD: int(number(e.Uint(image.LockFD)))},
			Type:       int16(number(e.Uint(image.LockType))), Start: number(e.Uint(image.LockStart)), Len: number(e.Uint(image.LockLen)),
		}
		if !whole {
			return nil, errors.New("filelocks.img: an entry lacks a field")
		}
		if _, seen := held[l.Descriptor]; !seen {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", l.PID, l.FD)) // its lines are fields, but for several of the same name: lock
			if err != nil {
				return nil, fmt.Errorf("look for a lock: %w", err)
			}
			held[l.Descriptor] = strings.Contains(string(text), ": POSIX ")
		}
		if !held[l.Descriptor] {
			list = append(list, l)
		}
	}
	return list, nil
}

// TakeLocks has processes take their locks again. They are stopped, and nothing else in this process waits for children
// ([linux.CallAs]). It ends with the first lock that cannot be had again. Those are left out, and said to be lost, of processes
// that cannot be had to take any, and on files that have none.
func TakeLocks(locks []Lock) (lost []error, err error) {
	of := map[int][]Lock{}
	for _, l := range locks {
		of[l.PID] = append(of[l.PID], l)
	}
	for _, pid := range slices.Sorted(maps.Keys(of)) {
		err := linux.CallAs(pid, func(call linux.Caller) error {
			for _, l := range of[pid] {
				err := l.take(call)
				switch {
				case errors.Is(err, errors.ErrUnsupported):
					lost = append(lost, err)
				case err != nil:
					return err
				}
			}
			return nil
		})
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			lost = append(lost, fmt.Errorf("locks of process %d on files that it has mapped: %w", pid, err))
		case err != nil:
			return lost, err
		}
	}
	return lost, nil
}

func (l Lock) take(call linux.Caller) error {
	lock := unix.Flock_t{Type: l.Type, Start: l.Start, Len: l.Len}
	data := unsafe.Slice((*byte)(unsafe.Pointer(&lock)), unsafe.Sizeof(lock))
	_, err := call(unix.SYS_FCNTL, data, uintptr(l.FD), unix.F_SETLK, linux.AtData)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		err = errors.New("another process has taken it meanwhile")
	}
	if err != nil {
		path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", l.PID, l.FD)) // the descriptor must do if that cannot be read
		return fmt.Errorf("lock %s (descriptor %d of process %d) again: %w", path, l.FD, l.PID, err)
	}
	return nil
}
