package blob

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/crash"
)

// dirPlace is a directory that all machines have mounted, for example by NFS. It
// relies on rename and O_EXCL only, never on locks. Names are looked up below the
// directory and never lead out of it, whatever links somebody puts there.
type dirPlace struct {
	path string
	root *os.Root
}

// Dir returns the place in a directory, which is made with mode 0700 if it does
// not exist. It refuses one that others may look into.
//
// On NFS the mount should revalidate soon (actimeo=1), or a rename may be seen late by
// other machines; it is never seen in part.
func Dir(dir string) (Place, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("open a directory for blobs: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open a directory for blobs: %w", err)
	}
	d := &dirPlace{dir, root}
	if err := d.checkOwner(); err != nil {
		root.Close()
		return nil, err
	}
	return d, nil
}

// checkOwner compares the directory's owner with that of a new file in it, because
// a file server may map root to somebody else.
func (d *dirPlace) checkOwner() error {
	f, name, err := d.temporary("")
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", d.path, err)
	}
	defer d.root.Remove(name)
	defer f.Close()
	var own, dir unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &own); err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	if err := unix.Stat(d.path, &dir); err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	switch {
	case dir.Uid != own.Uid:
		return fmt.Errorf("%s belongs to user %d, and files made here to %d; images hold the memory of programs, so use a directory of your own", d.path, dir.Uid, own.Uid)
	case dir.Mode&0o077 != 0:
		return fmt.Errorf("%s is open to others (mode %#o); images hold the memory of programs: chmod 700 %s", d.path, dir.Mode&0o7777, d.path)
	}
	return nil
}

// moved fails when the directory's name leads elsewhere by now: its file system was mounted anew, and what is written to
// the one that was opened others do not see, or nobody can.
func (d *dirPlace) moved() error {
	is, err := os.Stat(d.path)
	if err != nil {
		return err
	}
	was, err := d.root.Stat(".")
	if err == nil && !os.SameFile(is, was) {
		err = fmt.Errorf("%s is another directory than was opened; it is to be opened again", d.path)
	}
	return err
}

func (d *dirPlace) String() string { return d.path }

// temporary makes a file that List does not show.
func (d *dirPlace) temporary(dir string) (*os.File, string, error) {
	var b [8]byte
	rand.Read(b[:])
	name := path.Join(dir, ".tmp-"+hex.EncodeToString(b[:]))
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return f, name, err
}

func (d *dirPlace) Create(ctx context.Context, name string, write func(io.Writer) error) error {
	if err := checkName(name); err != nil {
		return err
	}
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = f.Chmod(0o600) // whatever the umask
	if err == nil {
		w := bufio.NewWriterSize(&canceled{ctx, f}, 1<<20)
		err = cmp.Or(write(w), w.Flush())
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return d.sync(path.Dir(name))
}

// canceled writes until its context ends.
type canceled struct {
	ctx context.Context
	w   io.Writer
}

func (c *canceled) Write(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(b)
}

func (d *dirPlace) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	return d.open(ctx, name, os.O_RDONLY)
}

func (d *dirPlace) open(ctx context.Context, name string, flags int) (*os.File, error) {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return nil, err
	}
	f, err := d.root.OpenFile(name, flags|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		f.Close()
		return nil, cmp.Or(err, fmt.Errorf("%s in %s is not a regular file", name, d.path))
	}
	unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_SEQUENTIAL) // only a hint
	return f, nil
}

// Mkdir makes the last directory durable; those above are made once and for all.
func (d *dirPlace) Mkdir(ctx context.Context, name string) error {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return err
	}
	if name == "" {
		return nil
	}
	if err := d.root.MkdirAll(name, 0o700); err != nil {
		return err
	}
	return d.sync(path.Dir(name))
}

func (d *dirPlace) Rename(ctx context.Context, from, to string) error {
	if err := errors.Join(ctx.Err(), checkName(from), checkName(to)); err != nil {
		return err
	}
	if _, err := d.root.Lstat(to); err == nil {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	err := d.root.Rename(from, to)
	if err != nil {
		// The answer may have been lost on its way, and this be that of a second try.
		if _, serr := d.root.Lstat(to); serr != nil {
			return err
		}
	}
	crash.Here("blob.renamed")
	return errors.Join(d.sync(path.Dir(from)), d.sync(path.Dir(to)))
}

func (d *dirPlace) sync(dir string) error {
	f, err := d.root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func (d *dirPlace) List(ctx context.Context, dir string) ([]Object, error) {
	if err := errors.Join(ctx.Err(), checkName(dir)); err != nil {
		return nil, err
	}
	d.freshen(dir)
	f, err := d.root.Open(path.Join(dir, "."))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var list []Object
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		st, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, Object{Name: e.Name(), Dir: st.IsDir(), Size: st.Size(), Modified: st.ModTime()})
	}
	slices.SortFunc(list, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// freshen changes a directory, which has an NFS client forget what it knew of it.
func (d *dirPlace) freshen(dir string) {
	if f, name, err := d.temporary(dir); err == nil {
		f.Close()
		d.root.Remove(name)
	}
}

func (d *dirPlace) Touch(ctx context.Context, name string) error {
	f, err := d.open(ctx, name, os.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}} // by the server's clock
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), now, 0); err != nil {
		return &fs.PathError{Op: "touch", Path: name, Err: err}
	}
	return nil
}

func (d *dirPlace) Remove(ctx context.Context, name string) error {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return err
	}
	return d.root.RemoveAll(name)
}

func (d *dirPlace) Now(ctx context.Context) (time.Time, error) {
	if err := cmp.Or(ctx.Err(), d.moved()); err != nil {
		return time.Time{}, err
	}
	f, name, err := d.temporary("")
	if err != nil {
		return time.Time{}, err
	}
	defer d.root.Remove(name)
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return time.Time{}, err
	}
	return st.ModTime(), nil
}
