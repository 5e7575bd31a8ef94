package fileset

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// Open opens a regular file for reading, with the rights of this thread. It
// fails with ErrNotRegular on anything else, without opening it: a pipe does
// not block it, a device does not notice. No magic link of /proc is followed, and
// no file of the kernel's own is opened (linux.Lookup). The error has the path.
func Open(path string) (*os.File, error) {
	f, err := linux.OpenRegularFor(path, os.O_RDONLY, 0)
	switch {
	case err == nil:
		return f, nil
	case err == unix.EINVAL:
		err = ErrNotRegular
	case err == unix.EAGAIN:
		err = ErrLeased
	}
	return nil, &Problem{Path: path, Err: err}
}

// ErrLeased: another program has a lease on the file (fcntl(2), F_SETLEASE). It has been told to give it back, and
// the kernel takes it away after /proc/sys/fs/lease-break-time, 45 s by default.
var ErrLeased = errors.New("another program has a lease on it; try again")

// leaseBreak is somewhat longer than the kernel gives who has a lease, unless somebody has made that longer.
const (
	leaseBreak = time.Minute
	leasePause = 100 * time.Millisecond
)

// OutlastLease calls open until it returns another error than ErrLeased or none, for a minute at most or until ctx ends,
// and returns what it returned last: to try breaks the lease, and the kernel takes it away after a time.
func OutlastLease[F any](ctx context.Context, open func() (F, error)) (F, error) {
	for began := time.Now(); ; {
		f, err := open()
		if !errors.Is(err, ErrLeased) || time.Since(began) > leaseBreak {
			return f, err
		}
		select {
		case <-ctx.Done():
			return f, err
		case <-time.After(leasePause):
		}
	}
}

// look tells what a path leads to, without opening it; of flags O_NOFOLLOW is meant.
func look(path string, flags int) (unix.Stat_t, error) {
	fd, st, err := linux.Lookup(path, flags, 0)
	if err == nil {
		unix.Close(fd)
	}
	return st, err
}
