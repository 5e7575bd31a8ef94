package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// OutputMark remembers what the user's output file held before an attempt, so that
// the next start from the beginning does not leave the output of one that was thrown
// away. It is taken of the descriptor that the task's own process has opened, and
// recorded before the command runs: the path is the user's to change at any time.
type OutputMark struct {
	// Path is where the file was, without symbolic links.
	Path string `json:"path"`
	linux.FileIdentity
	Size int64 `json:"size"` // bytes
}

const outputMarkFile = "output.json"

// MarkOutput describes an open file; nil if it is not a regular one, of which
// nothing can be taken back.
func MarkOutput(fd int) (*OutputMark, error) {
	id, err := linux.IdentifyFile(fd)
	if err != nil || id.Type != unix.S_IFREG {
		return nil, err
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	return &OutputMark{Path: path, FileIdentity: id, Size: st.Size}, nil
}

// sameFile reports whether both marks are of one file, whoever owns it by now.
func (m OutputMark) sameFile(o OutputMark) bool {
	o.UID = m.UID
	return m.Differs(o.FileIdentity, true) == ""
}

// Save records the mark in the task's directory. Of a file that was marked before,
// the smaller size counts: what was there at the first start, unless its user has
// made it shorter since.
func (m OutputMark) Save(dir string) error {
	if old, err := loadMark(dir); err == nil && old != nil && old.sameFile(m) {
		m.Size = min(m.Size, old.Size)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return linux.WriteFileDurably(filepath.Join(dir, outputMarkFile), b, 0o600)
}

// loadMark reads the task's mark; nil if there is none.
func loadMark(dir string) (*OutputMark, error) {
	b, err := os.ReadFile(filepath.Join(dir, outputMarkFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var m OutputMark
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	return &m, err
}

// cutOutput cuts the user's output file back to the mark, with the user's rights.
// It leaves one to which others write, and touches nothing but the very file that was marked: not what a link leads to,
// and not another that has come by the path or by the inode. A file that the user
// has moved away or closed to himself stays as it is.
func cutOutput(dir string, spec Spec) error {
	if spec.SharedOutput {
		return nil
	}
	m, err := loadMark(dir)
	if err != nil || m == nil || m.Path == "" {
		return err
	}
	return spec.As(func() error {
		f, err := linux.OpenRegularFor(m.Path, os.O_WRONLY, unix.RESOLVE_NO_SYMLINKS)
		if errors.Is(err, linux.ErrKernelFile) || slices.ContainsFunc(cannotBeIt, func(e error) bool { return errors.Is(err, e) }) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cut %s back for a new start: %w", spec.Output, err)
		}
		defer f.Close()
		now, err := MarkOutput(int(f.Fd()))
		if err != nil || !now.sameFile(*m) || now.Size <= m.Size {
			return err
		}
		return f.Truncate(m.Size)
	})
}

// cannotBeIt are errors of opening that say that the marked file is not there any
// more, or not for its user to write to.
var cannotBeIt = []error{
	unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EINVAL, unix.EACCES, unix.EPERM, unix.EROFS, unix.ENAMETOOLONG,
}

// As runs f with the file rights of the task's user: see linux.AsUser.
func (s Spec) As(f func() error) error {
	if os.Geteuid() != 0 {
		return f()
	}
	return linux.AsUser(s.Credentials(), f)
}

// Credentials returns those of the task's user.
func (s Spec) Credentials() linux.Credentials {
	return linux.Credentials{UID: s.UID, GID: s.GID, Groups: s.Groups}
}
