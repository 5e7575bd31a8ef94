package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

var stdioNames = [3]string{"standard input", "standard output", "standard error"}

// stdio are the standard streams that are pipes from outside, else nil. They stay open
// here for the life of the task: while it is dumped, they keep the pipes and what is in
// them.
type stdio [3]*os.File

// take takes over the descriptors of those that are not negative.
func (s *stdio) take(descriptors [3]int) error {
	for i, fd := range descriptors {
		if fd < 0 {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return fmt.Errorf("%s: %w", stdioNames[i], err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFIFO {
			return fmt.Errorf("%s is not a pipe; name a file by its path", stdioNames[i])
		}
		s[i] = os.NewFile(uintptr(fd), stdioNames[i])
	}
	return nil
}

// open opens what the task gets as standard input, output and error. Files
// are opened here, in the task's mount namespace, and for appending: both is
// what a restore needs. The caller closes what it gets.
func (s *stdio) open(spec proc.Spec) ([]*os.File, error) {
	var files []*os.File
	for i, name := range []string{os.DevNull, stdoutFile, stderrFile} {
		f, err := s.openStream(i, name, spec)
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("%s: %w", stdioNames[i], err)
		}
		files = append(files, f)
	}
	return files, makeProgressFile(spec)
}

func (s *stdio) openStream(i int, name string, spec proc.Spec) (*os.File, error) {
	if p := s[i]; p != nil {
		fd, err := unix.FcntlInt(p.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		return os.NewFile(uintptr(fd), p.Name()), err
	}
	if i == 0 {
		return os.Open(name)
	}
	return createForTask(name, os.O_APPEND, spec)
}

// createForTask makes a file in the task's directory that belongs to the task's
// user: the directory is not the user's to write in.
func createForTask(name string, flags int, spec proc.Spec) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|flags, 0o600)
	if err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		if err := f.Chown(int(spec.UID), int(spec.GID)); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// makeProgressFile makes the file in which the task may say how far it is.
func makeProgressFile(spec proc.Spec) error {
	f, err := createForTask(progressFile, os.O_TRUNC, spec)
	if err != nil {
		return fmt.Errorf("progress file: %w", err)
	}
	return f.Close()
}

// logPaths returns the files that its standard output and error may go to.
func logPaths(spec proc.Spec) []string {
	paths := []string{stdoutFile, stderrFile, spec.Output, spec.Stdout, spec.Stderr}
	return slices.DeleteFunc(paths, func(p string) bool { return p == "" })
}

// syncLogs makes durable what the task has written.
func syncLogs(spec proc.Spec) {
	for _, path := range logPaths(spec) {
		var f *os.File
		open := func() (err error) {
			f, err = linux.OpenRegularFor(path, os.O_WRONLY, 0)
			return err
		}
		var err error
		if filepath.IsAbs(path) { // the user's to name, and to lead elsewhere
			err = spec.As(open)
		} else {
			err = open()
		}
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ELOOP) || errors.Is(err, linux.ErrKernelFile) {
			continue // removed, or a pipe or device, which cannot be durable
		}
		if err == nil {
			err = f.Sync()
			f.Close()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "make %s durable: %v\n", path, err)
		}
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

func fds(files []*os.File) []uintptr {
	out := make([]uintptr, len(files))
	for i, f := range files {
		out[i] = f.Fd()
	}
	return out
}

// names returns what CRIU calls the pipes from outside: "pipe:[inode]".
func (s *stdio) names() (names [3]string, err error) {
	for i, p := range s {
		if p == nil {
			continue
		}
		if names[i], err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", p.Fd())); err != nil {
			return names, err
		}
		names[i] = strings.TrimSuffix(names[i], " (deleted)")
	}
	return names, nil
}

// inherit returns CRIU's options for handing the pipes of the checkpoint, by their
// names, to the restored task, and their descriptors, which become 3, 4 and 5.
func (s *stdio) inherit(names [3]string) (options []string, files []uintptr, err error) {
	for i, name := range names {
		if name == "" {
			continue
		}
		if s[i] == nil {
			return nil, nil, fmt.Errorf("%w: its %s was a pipe, which is gone with its supervisor", proc.ErrNoImage, stdioNames[i])
		}
		options = append(options, "--inherit-fd", fmt.Sprintf("fd[%d]:%s", 3+len(files), name))
		files = append(files, s[i].Fd())
	}
	return options, files, nil
}
