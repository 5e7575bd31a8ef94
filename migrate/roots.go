package migrate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/fileset"
	"headrace/internal/linux"
)

// A Root is a directory whose files are carried along. It must exist wherever an
// entry is made or fetched, at the same path, such as the directories that a
// container's application has there.
type Root struct {
	// Path is absolute. It is opened as it is; below it no symbolic link is followed.
	Path string
	// Owner is whose rights files are read and made with; what is made belongs to
	// them. nil: those of this process, for a directory that no user can change.
	Owner *linux.Credentials
	// Grows says that files here are only written on, such as logs: one that is here from before may be the beginning of
	// what is made in its place.
	Grows bool
}

// as calls f with the rights of the root's owner.
func (r Root) as(f func() error) error {
	if r.Owner == nil {
		return f()
	}
	return linux.AsUser(*r.Owner, f)
}

// sees tells whether the root's owner can look at a file, wherever it is, as a Fingerprint does. It does unless it is certain
// that it cannot.
func (r Root) sees(path string) bool {
	err := r.as(func() error {
		st, err := os.Stat(path)
		if err != nil || !st.Mode().IsRegular() {
			return err
		}
		f, err := linux.OpenRegular(resolved(path), os.O_RDONLY)
		if err == nil {
			f.Close()
		}
		return err
	})
	return !slices.ContainsFunc([]error{fs.ErrNotExist, fs.ErrPermission, unix.ENOTDIR, unix.ELOOP}, func(e error) bool { return errors.Is(err, e) })
}

// open opens the root itself.
func (r Root) open() (int, error) {
	fd, _, err := linux.Lookup(r.Path, unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, fmt.Errorf("%s, below which files are carried, must exist here too: %w", r.Path, err)
	}
	return fd, nil
}

// A file on which another program has a lease (fcntl(2), F_SETLEASE) cannot be opened until that is given back, for which
// the program was asked by the first try. It need not, and may take the next one at once: nobody waits for it for long.
const leaseTries, leasePause = 20, 50 * time.Millisecond

// at opens what is at a relative path below the root; "." is the root.
func (r Root) at(rel string, flags int) (*os.File, error) {
	root, err := r.open()
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	if flags&unix.O_PATH != 0 {
		how.Flags &^= unix.O_NONBLOCK
	}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(root, rel, &how)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN && try < leaseTries:
			time.Sleep(leasePause)
			continue
		case err == unix.EAGAIN:
			err = fileset.ErrLeased
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: filepath.Join(r.Path, rel), Err: err}
		}
		return os.NewFile(uintptr(fd), filepath.Join(r.Path, rel)), nil
	}
}

// dir opens the directory that a path is in, and returns the path's last part.
func (r Root) dir(rel string) (*os.File, string, error) {
	d, err := r.at(filepath.Dir(rel), unix.O_PATH|unix.O_DIRECTORY)
	return d, filepath.Base(rel), err
}

// names lists a directory below the root, or with "." the root itself, sorted.
func (r Root) names(rel string) (names []string, err error) {
	err = r.as(func() error {
		d, err := r.at(rel, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer d.Close()
		names, err = d.Readdirnames(-1)
		return err
	})
	slices.Sort(names)
	return names, err
}

// rootOf returns the innermost root that a clean path is below, and the path
// relative to it.
func rootOf(roots []Root, path string) (Root, string, bool) {
	best := -1
	for i, r := range roots {
		inside := strings.HasPrefix(path, strings.TrimSuffix(r.Path, "/")+"/")
		if inside && (best < 0 || len(r.Path) > len(roots[best].Path)) {
			best = i
		}
	}
	if best < 0 {
		return Root{}, "", false
	}
	return roots[best], strings.TrimPrefix(strings.TrimPrefix(path, roots[best].Path), "/"), true
}

func checkRoots(roots []Root) error {
	for _, r := range roots {
		if !filepath.IsAbs(r.Path) || filepath.Clean(r.Path) != r.Path || r.Path == "/" {
			return fmt.Errorf("%q cannot be a directory below which files are carried", r.Path)
		}
	}
	return nil
}
