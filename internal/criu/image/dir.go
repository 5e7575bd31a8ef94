package image

import (
	"fmt"
	"os"
	"path/filepath"
)

// A Dir shows a stored image under another path: links to its files, and changed
// copies of some. CRIU reads it as it would the image. One goroutine uses it.
type Dir struct {
	path string
}

// NewDir makes the directory path, with mode 0700, and links in it to everything
// in the directory of a stored image. What an earlier process left at the path is
// removed. The parent of path must be a directory that only the caller can write
// to.
func NewDir(path, stored string) (*Dir, error) {
	stored, err := filepath.Abs(stored)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(stored)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(path); err != nil {
		return nil, err
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, err
	}
	d := &Dir{path: path}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(stored, e.Name()), filepath.Join(path, e.Name())); err != nil {
			d.Remove()
			return nil, err
		}
	}
	return d, nil
}

// Path returns the directory to give to criu restore -D.
func (d *Dir) Path() string { return d.path }

// Replace puts f in the place of a file. The stored image stays as it is.
func (d *Dir) Replace(name string, f *File) error {
	if name != filepath.Base(name) {
		return fmt.Errorf("%q is not the name of a file", name)
	}
	path := filepath.Join(d.path, name)
	// Removed first: it may be a link to the stored file.
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = w.Write(f.Encode())
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}

// Remove removes the directory and what was changed in it.
func (d *Dir) Remove() error { return os.RemoveAll(d.path) }
