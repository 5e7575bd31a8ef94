package slowdisk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// A Reading is what some readers got out of a modelled disk.
type Reading struct {
	// Readers at a time; 0: one that reads random pieces past the page cache.
	Readers int
	// Took is by the clock, from the start of the first to the end of the last.
	Took time.Duration
	// Stated is how long the model says that its head was busy, with what it did.
	Stated Stats
}

// Sequential lets readers read a file on the disk at the same time, each its own
// part from the first byte to the last in pieces of 1 MiB. The file is dropped
// from the page cache first. Nobody else may use the disk meanwhile.
func Sequential(ctx context.Context, d *Disk, path string, readers int) (Reading, error) {
	f, err := os.Open(path)
	if err != nil {
		return Reading{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Reading{}, err
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return Reading{}, fmt.Errorf("drop %s from the page cache: %w", path, err)
	}
	each := (info.Size() + int64(readers) - 1) / int64(readers)
	return d.measure(readers, func() error {
		group, ctx := errgroup.WithContext(ctx)
		for i := range readers {
			group.Go(func() error { return readPart(ctx, path, int64(i)*each, each) })
		}
		return group.Wait()
	})
}

// measure runs f between two looks at the model.
func (d *Disk) measure(readers int, f func() error) (Reading, error) {
	before, began := d.Stats(), time.Now()
	err := f()
	return Reading{Readers: readers, Took: time.Since(began), Stated: d.Stats().Since(before)}, err
}

// readPart reads with an open file of its own, as a process of its own would: the
// read-ahead belongs to that.
func readPart(ctx context.Context, path string, from, length int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	part, buf := io.NewSectionReader(f, from, length), make([]byte, 1<<20)
	for ctx.Err() == nil {
		_, err := part.Read(buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// Random reads pieces of 1 MiB with O_DIRECT at the given places of a file, which
// are counted in MiB.
func Random(ctx context.Context, d *Disk, path string, places []int64) (Reading, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return Reading{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	room := make([]byte, 1<<20+page)
	buf := room[-uintptr(unsafe.Pointer(&room[0]))%page:][:1<<20]
	return d.measure(0, func() error {
		for _, at := range places {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if _, err := readFull(fd, buf, at<<20); err != nil {
				return fmt.Errorf("read %s at %d MiB: %w", path, at, err)
			}
		}
		return nil
	})
}
