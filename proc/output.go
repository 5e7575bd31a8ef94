package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// outputMark remembers what the user's output file held before the task's first
// start, so that a start from the beginning does not leave the output of an
// attempt that was thrown away.
type outputMark struct {
	Exists bool   `json:"exists"`
	Dev    uint64 `json:"dev"`
	Inode  uint64 `json:"inode"`
	Size   int64  `json:"size"`
}

const outputMarkFile = "output.json"

// markOutput writes the mark, once in a task's life.
func markOutput(dir string, spec Spec) error {
	path := filepath.Join(dir, outputMarkFile)
	if spec.Output == "" {
		return nil
	}
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	var m outputMark
	var st unix.Stat_t
	if unix.Stat(spec.Output, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		m = outputMark{Exists: true, Dev: uint64(st.Dev), Inode: st.Ino, Size: st.Size}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return linux.WriteFileDurably(path, b, 0o600)
}

// cutOutput cuts the user's output file back to the mark. The path is the
// user's to change, so only a regular file that belongs to the user, and is the
// very one that was marked if there was one, is touched.
func cutOutput(dir string, spec Spec) error {
	b, err := os.ReadFile(filepath.Join(dir, outputMarkFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var m outputMark
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return err
	}
	f, err := linux.OpenRegular(spec.Output, os.O_WRONLY)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cut %s back for a new start: %w", spec.Output, err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	same := uint64(st.Dev) == m.Dev && st.Ino == m.Inode
	if m.Exists && !same || !m.Exists && st.Uid != spec.UID || st.Size <= m.Size {
		return nil
	}
	return f.Truncate(m.Size)
}
