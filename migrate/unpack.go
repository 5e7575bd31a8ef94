package migrate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"headrace/internal/crash"
)

// An unpacker recreates files below roots. It replaces nothing but what is the beginning of a file that grows (Root.Grows).
type unpacker struct {
	roots []Root
	made  []File
}

// add makes one file. What is there already must be the same.
func (u *unpacker) add(f File, data *Contents) error {
	if err := f.check(); err != nil {
		return err
	}
	root, rel, ok := rootOf(u.roots, f.Path)
	if !ok {
		return fmt.Errorf("%s is below none of the directories that files may be made in here", f.Path)
	}
	if f.Type == Regular {
		return u.regular(root, rel, f, data)
	}
	made := false
	err := root.as(func() (err error) {
		made, err = special(root, rel, f)
		return err
	})
	if made {
		u.made = append(u.made, f)
	}
	return err
}

func conflict(f File, why string) error { return fmt.Errorf("%w: %s %s", ErrConflict, f.Path, why) }

// special makes a directory, a symbolic link or a FIFO, and reports whether it did.
func special(root Root, rel string, f File) (bool, error) {
	d, name, err := root.dir(rel)
	if err != nil {
		return false, err
	}
	defer d.Close()
	switch f.Type {
	case Directory:
		err = unix.Mkdirat(int(d.Fd()), name, 0o700) // its own mode comes at the end
	case Symlink:
		err = unix.Symlinkat(f.Link, int(d.Fd()), name)
	case FIFO:
		if err = unix.Mkfifoat(int(d.Fd()), name, 0o600); err == nil {
			return true, unix.Fchmodat(int(d.Fd()), name, f.Mode&0o777, 0)
		}
	}
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, unix.EEXIST) {
		return false, &os.PathError{Op: "make", Path: f.Path, Err: err}
	}
	have, err := inspect(root, rel)
	switch {
	case err != nil:
		return false, conflict(f, fmt.Sprintf("cannot be compared: %v", err))
	case have.Type != f.Type:
		return false, conflict(f, fmt.Sprintf("is a %s, not a %s", have.Type, f.Type))
	case have.Link != f.Link:
		return false, conflict(f, fmt.Sprintf("leads to %s, not to %s", have.Link, f.Link))
	}
	return false, nil
}

// regular makes a file under another name and then gives it its own, so that it is
// never there in part.
func (u *unpacker) regular(root Root, rel string, f File, data *Contents) error {
	var have, file *os.File
	temporary := filepath.Join(filepath.Dir(rel), ".headrace-"+randomHex(8))
	err := root.as(func() (err error) {
		have, err = root.at(rel, unix.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) || err == nil && root.Grows && f.mayExtend(have) {
			file, err = createAt(root, temporary)
		}
		return err
	})
	if have != nil {
		defer have.Close()
	}
	if err != nil {
		if errors.Is(err, unix.ELOOP) {
			return conflict(f, "is a symbolic link, not a file")
		}
		return err
	}
	if file == nil {
		return compare(have, f, data)
	}
	defer file.Close()
	err = data.WriteToFile(file)
	crash.Here("archive.making")
	if err == nil && have != nil {
		err = beginsWith(file, have, f)
	}
	if err == nil {
		err = root.as(func() error { return place(root, temporary, rel, file, f, have != nil) })
	}
	if err != nil {
		return errors.Join(err, root.as(func() error { return removeAt(root, temporary, 0) }))
	}
	if have != nil { // it stays if all is undone: it has what was there
		return u.sync(filepath.Dir(f.Path))
	}
	u.made = append(u.made, f)
	crash.Here("archive.made")
	return nil
}

func createAt(root Root, rel string) (*os.File, error) {
	d, name, err := root.dir(rel)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	fd, err := unix.Openat(int(d.Fd()), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "create", Path: filepath.Join(root.Path, rel), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(root.Path, rel)), nil
}

// place gives a complete file its mode, its times and its name, in the place of another one if it may.
func place(root Root, from, to string, file *os.File, f File, replace bool) error {
	d, name, err := root.dir(to)
	if err != nil {
		return err
	}
	defer d.Close()
	fd := int(file.Fd())
	if err := cmp.Or(unix.Fchmod(fd, f.Mode), setMTime(fd, f.MTime), unix.Fsync(fd)); err != nil {
		return &os.PathError{Op: "finish", Path: f.Path, Err: err}
	}
	flags := uint(unix.RENAME_NOREPLACE)
	if replace {
		flags = 0
	}
	err = unix.Renameat2(int(d.Fd()), filepath.Base(from), int(d.Fd()), name, flags)
	if errors.Is(err, unix.EEXIST) {
		return conflict(f, "was made meanwhile")
	}
	if err != nil {
		return &os.PathError{Op: "rename", Path: f.Path, Err: err}
	}
	return nil
}

func setMTime(fd int, ns int64) error {
	t := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(ns)}
	return unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), t, 0)
}

func removeAt(root Root, rel string, flags int) error {
	d, name, err := root.dir(rel)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Unlinkat(int(d.Fd()), name, flags); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "remove", Path: filepath.Join(root.Path, rel), Err: err}
	}
	return nil
}

// compare tells whether a file that exists is the one that would be made.
func compare(have *os.File, f File, data *Contents) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(have.Fd()), &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return conflict(f, "is not a regular file")
	case st.Size != f.Size:
		return conflict(f, fmt.Sprintf("has %d bytes, not %d", st.Size, f.Size))
	case st.Mode&0o7777 != f.Mode:
		return conflict(f, fmt.Sprintf("has mode %#o, not %#o", st.Mode&0o7777, f.Mode))
	}
	at, buf := int64(0), make([]byte, maxChunk)
	err := data.Each(func(off int64, b []byte) error {
		if err := sameZeros(have, at, off, buf, f); err != nil {
			return err
		}
		at = off + int64(len(b))
		return same(have, off, b, buf, f)
	})
	if err != nil {
		return err
	}
	return sameZeros(have, at, f.Size, buf, f)
}

// mayExtend tells whether a file that would be made is more of one that exists, as far as can be told from outside.
func (f File) mayExtend(have *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(have.Fd()), &st) == nil && st.Mode == unix.S_IFREG|f.Mode && st.Size < f.Size
}

// beginsWith tells whether a file that was made begins with all that an older one has.
func beginsWith(file, older *os.File, f File) error {
	chunk, buf := make([]byte, maxChunk), make([]byte, maxChunk)
	for at := int64(0); ; {
		n, err := older.ReadAt(chunk, at)
		if serr := same(file, at, chunk[:n], buf, f); serr != nil {
			return serr
		}
		if at += int64(n); err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func same(have *os.File, off int64, want, buf []byte, f File) error {
	b := buf[:len(want)]
	if n, err := have.ReadAt(b, off); n < len(b) && err != io.EOF {
		return err
	}
	if !bytes.Equal(b, want) {
		return conflict(f, fmt.Sprintf("has other contents after byte %d", off))
	}
	return nil
}

func sameZeros(have *os.File, from, to int64, buf []byte, f File) error {
	for from < to {
		data, hole, err := nextData(have, from, to)
		if err != nil {
			return err
		}
		for from = data; from < hole; {
			n := min(int64(maxChunk), hole-from)
			if err := same(have, from, make([]byte, n), buf, f); err != nil {
				return err
			}
			from += n
		}
	}
	return nil
}

// finish gives the directories that were made their modes and times, the inner
// ones first, and makes all names durable.
func (u *unpacker) finish() error {
	dirs := make(map[string]bool)
	for _, f := range slices.Backward(u.made) {
		dirs[filepath.Dir(f.Path)] = true
		if f.Type != Directory {
			continue
		}
		root, rel, _ := rootOf(u.roots, f.Path)
		err := root.as(func() error {
			d, err := root.at(rel, unix.O_RDONLY|unix.O_DIRECTORY)
			if err != nil {
				return err
			}
			defer d.Close()
			return cmp.Or(d.Sync(), unix.Fchmod(int(d.Fd()), f.Mode), setMTime(int(d.Fd()), f.MTime))
		})
		if err != nil {
			return err
		}
		delete(dirs, f.Path)
	}
	for dir := range dirs {
		if err := u.sync(dir); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) sync(dir string) error {
	for _, r := range u.roots {
		rel, err := filepath.Rel(r.Path, dir)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		return r.as(func() error {
			d, err := r.at(rel, unix.O_RDONLY|unix.O_DIRECTORY)
			if errors.Is(err, fs.ErrPermission) {
				return nil // it may be written and searched, not read
			}
			if err != nil {
				return err
			}
			defer d.Close()
			return d.Sync()
		})
	}
	return nil
}

// undo removes what was made, and leaves what has something else in it now.
func (u *unpacker) undo() error {
	var errs []error
	for _, f := range u.made {
		if root, rel, _ := rootOf(u.roots, f.Path); f.Type == Directory && f.Mode&0o300 != 0o300 {
			errs = append(errs, root.as(func() error { return openUp(root, rel) }))
		}
	}
	for _, f := range slices.Backward(u.made) {
		root, rel, _ := rootOf(u.roots, f.Path)
		flags := 0
		if f.Type == Directory {
			flags = unix.AT_REMOVEDIR
		}
		err := root.as(func() error { return removeAt(root, rel, flags) })
		if err != nil && !errors.Is(err, unix.ENOTEMPTY) {
			errs = append(errs, err)
		}
	}
	u.made = nil
	return errors.Join(errs...)
}

// openUp lets the owner of a directory change it.
func openUp(root Root, rel string) error {
	d, name, err := root.dir(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	err = unix.Fchmodat(int(d.Fd()), name, 0o700, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
