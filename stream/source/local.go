package source

import (
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"headrace/disk"
	"headrace/fileset"
	"headrace/internal/linux"
	"headrace/pagecache"
)

// Local has the files of this machine.
type Local struct {
	Cache   pagecache.Cache
	Disks   *disk.Scheduler
	Devices *disk.Devices
	// Seeks, if not nil, tells whether a device has a head, in place of what the
	// device says of itself.
	Seeks func(disk.Device) bool
	// Remember, if not nil, bounds for each user what is kept of names while files are looked for, as fileset.Visitor.Remember.
	Remember func(uid uint32, bytes int64) error
}

// Find implements Source. What a path means is said by package fileset.
func (l *Local) Find(ctx context.Context, owner linux.Credentials, paths []string, found func(path string, f File) error) error {
	v := fileset.Visitor{File: func(at fileset.File) error {
		f, err := l.open(at.Path)
		if err != nil {
			return err
		}
		defer f.Close()
		return found(at.Path, f)
	}}
	if l.Remember != nil {
		v.Remember = func(n int64) error { return l.Remember(owner.UID, n) }
	}
	return linux.AsUser(owner, func() error { return fileset.Find(ctx, paths, v) })
}

// Open implements Source.
func (l *Local) Open(path string, was fileset.Was, owner linux.Credentials) (opened File, err error) {
	err = linux.AsUser(owner, func() error {
		f, err := l.open(path)
		if err != nil {
			return err
		}
		was.Identity = was.Here(f.check.Identity)
		if now := f.check.Was; was.End == 0 && was.Identity == now.Identity {
			was = now
		}
		f.check.Was = was // what was appended since is not read
		why, err := f.check.Changed(f.File)
		if err == nil && why != "" {
			err = fmt.Errorf("%s %s since the stream was opened", path, why)
		}
		if err != nil {
			f.Close()
			return err
		}
		opened = f
		return nil
	})
	return opened, err
}

func (l *Local) open(path string) (*local, error) {
	f, err := fileset.Open(path)
	if err != nil {
		return nil, err
	}
	was, err := fileset.WasNow(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &local{File: f, l: l, path: path, check: fileset.Check{Was: was}}, nil
}

// Reader implements Source.
func (l *Local) Reader(uid uint32, d disk.Device, name string) *disk.Reader {
	return l.Disks.ReaderFor(uid, d, disk.Demand, name)
}

// Refresh implements Source.
func (l *Local) Refresh(ctx context.Context) error { return l.Cache.Refresh(ctx) }

// local is an open file of this machine.
type local struct {
	*os.File
	l     *Local
	path  string
	check fileset.Check
}

func (f *local) Was() fileset.Was { return f.check.Known() }
func (f *local) Shared() *os.File { return f.File }

func (f *local) Learn() error {
	err := f.check.Learn(f.File)
	if cerr := f.changed(); cerr != nil {
		return cerr
	}
	if err != nil {
		return fmt.Errorf("read the end of %s: %w", f.path, err)
	}
	return nil
}

func (f *local) changed() error {
	if why, err := f.check.Changed(f.File); err == nil && why != "" {
		return fmt.Errorf("%s %s while it was read", f.path, why)
	}
	return nil
}

func (f *local) ReadFull(p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if cerr := f.changed(); cerr != nil {
		return cerr
	}
	if n == len(p) {
		return nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %s at %d: %w", f.path, off, err)
}

func (f *local) ReadAhead(off, n int64) {
	_, _, _ = unix.Syscall(unix.SYS_READAHEAD, f.Fd(), uintptr(off), uintptr(n))
}

func (f *local) Resident(r pagecache.Range) (int64, error) { return f.l.Cache.Resident(f.File, r) }
func (f *local) Watch() (pagecache.Watched, error)         { return f.l.Cache.Watch(f.File) }

func (f *local) Device() (d disk.Device, seeks bool, err error) {
	d, err = f.l.Devices.Of(f.File)
	if err == nil && f.l.Seeks != nil {
		return d, f.l.Seeks(d), nil
	}
	return d, d.Rotational, err
}
