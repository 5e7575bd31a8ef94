package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// FileID names a file of this machine.
type FileID struct{ Dev, Ino uint64 }

// FileIDOf returns the name of the file that st is about.
func FileIDOf(st *unix.Stat_t) FileID { return FileID{Dev: uint64(st.Dev), Ino: st.Ino} }

// A Descriptor is an open descriptor of a process.
type Descriptor struct {
	PID int `json:"pid"`
	FD  int `json:"fd"`
	// Target is what the kernel says that it leads to: a path, or words such as
	// "socket:[4711]" and "anon_inode:inotify".
	Target string `json:"-"`
}

// Descriptors lists what a process has open. Descriptors that are closed
// meanwhile are left out.
func (p ProcFS) Descriptors(pid int) ([]Descriptor, error) {
	dir := p.path(strconv.Itoa(pid), "fd")
	fds, err := numbers(dir)
	if err != nil {
		return nil, err
	}
	list := make([]Descriptor, 0, len(fds))
	for _, fd := range fds {
		target, err := os.Readlink(filepath.Join(dir, strconv.Itoa(fd)))
		if Gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, Descriptor{PID: pid, FD: fd, Target: target})
	}
	return list, nil
}

// Is reports whether it is a kernel object of that kind, such as "inotify".
// Kernels write some with brackets and others without.
func (d Descriptor) Is(kind string) bool {
	name, ok := strings.CutPrefix(d.Target, "anon_inode:")
	return ok && strings.Trim(name, "[]") == kind
}

// Duplicate returns a descriptor of this process for the same open file. What is
// done to it is done to the file of the other process. The caller closes it. It
// takes the right to trace the other process.
func (d Descriptor) Duplicate() (int, error) {
	pidfd, err := unix.PidfdOpen(d.PID, 0)
	if err != nil {
		return -1, fmt.Errorf("find process %d: %w", d.PID, err)
	}
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, d.FD, 0)
	if err != nil {
		return -1, fmt.Errorf("get descriptor %d of process %d: %w", d.FD, d.PID, err)
	}
	return fd, nil
}

// FDInfo reads the fields that the kernel shows of a descriptor.
func (p ProcFS) FDInfo(d Descriptor) (map[string]string, error) {
	b, err := os.ReadFile(p.path(strconv.Itoa(d.PID), "fdinfo", strconv.Itoa(d.FD)))
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok {
			fields[k] = strings.TrimSpace(v)
		}
	}
	return fields, nil
}

// ForWriting reports whether a descriptor is open for writing.
func (p ProcFS) ForWriting(d Descriptor) (bool, error) {
	fields, err := p.FDInfo(d)
	if err != nil {
		return false, err
	}
	flags, err := strconv.ParseUint(fields["flags"], 8, 64)
	return err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY, nil
}
