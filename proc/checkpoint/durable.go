package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// mkdirDurable is os.MkdirAll with mode 0700, of which the names survive a power
// failure.
func mkdirDurable(dir string) error {
	if st, err := os.Stat(dir); err == nil && st.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := mkdirDurable(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		st, err := os.Stat(dir)
		if err == nil && !st.IsDir() {
			err = &os.PathError{Op: "mkdir", Path: dir, Err: errors.New("exists and is not a directory")}
		}
		return err
	} else if err != nil {
		return err
	}
	return linux.SyncDir(parent)
}

// within calls do with a path that leads to the directory dir for as long as do runs: its file system may be unmounted at any time.
func within(dir string, do func(at string) error) error {
	d, err := os.OpenFile(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	return do(fmt.Sprintf("/proc/self/fd/%d", d.Fd()))
}

// writeDurable writes a file that does not exist yet.
func writeDurable(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
