package pages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// DropCached removes a file that is durable from the page cache.
func DropCached(f *os.File) error {
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("drop %s from the page cache: %w", f.Name(), err)
	}
	return nil
}

// DropCachedTree drops every file below dir. Files that vanish meanwhile
// are no error.
func DropCachedTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return errors.Join(DropCached(f), f.Close())
	})
}

// Resident returns how many bytes of the files are in memory.
func Resident(paths []string) (int64, error) {
	var sum int64
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return 0, err
		}
		info, err := f.Stat()
		if err == nil {
			var pages int64
			pages, err = linux.CachedPages(int(f.Fd()), 0, info.Size())
			sum += min(pages*int64(os.Getpagesize()), info.Size())
		}
		f.Close()
		if err != nil {
			return 0, fmt.Errorf("what of %s is in memory: %w", path, err)
		}
	}
	return sum, nil
}

// Chill takes the files out of memory. What stays there all the same is an error:
// a measurement would begin warm.
func Chill(paths []string) error {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		if err := errors.Join(DropCached(f), f.Close()); err != nil {
			return err
		}
	}
	left, err := Resident(paths)
	if err == nil && left > 0 {
		err = fmt.Errorf("%d bytes of %d files could not be taken out of memory: somebody has locked or mapped them", left, len(paths))
	}
	return err
}

// A held file is in memory and stays there.
type heldFile struct{ memory []byte }

// Hold reads the files into memory and locks them there, one after the other. The
// returned function lets them go.
func Hold(ctx context.Context, paths []string) (release func() error, err error) {
	var held []heldFile
	release = func() error {
		var errs []error
		for _, h := range held {
			errs = append(errs, unix.Munmap(h.memory))
		}
		held = nil
		return errors.Join(errs...)
	}
	for _, path := range paths {
		if ctx.Err() != nil {
			return nil, errors.Join(context.Cause(ctx), release())
		}
		h, err := holdFile(path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s in memory: %w", path, err), release())
		}
		held = append(held, h)
	}
	return release, nil
}

// holdFile reads before it maps: that is done in long pieces, and a page fault in
// a file system of our own would hold up the Go scheduler.
func holdFile(path string) (heldFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return heldFile{}, err
	}
	defer f.Close()
	// Without ReadFrom and WriteTo, which would choose pieces of their own.
	size, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 1<<20))
	if err != nil {
		return heldFile{}, err
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return heldFile{}, err
	}
	if err := unix.Mlock(memory); err != nil {
		return heldFile{}, errors.Join(err, unix.Munmap(memory))
	}
	return heldFile{memory}, nil
}
