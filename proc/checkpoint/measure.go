package checkpoint

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Measure writes a temporary file of size bytes into dir and reads it back.
//
// write is the bandwidth, in bytes per second, of writing incompressible data in
// large pieces until fsync has returned; read is that of reading it in order
// after the kernel was asked to drop it from the page cache
// (POSIX_FADV_DONTNEED). A memory file system keeps it anyway, and so do caches
// below the kernel, such as that of a RAID controller or of a virtual machine's
// host: for these, read is the speed of the cache. A size well above those caches
// gives the device's.
func Measure(ctx context.Context, dir string, size int64) (write, read float64, err error) {
	if size <= 0 {
		return 0, 0, fmt.Errorf("measure %s: impossible size %d", dir, size)
	}
	f, err := os.CreateTemp(dir, ".measure-*")
	if err != nil {
		return 0, 0, fmt.Errorf("measure %s: %w", dir, err)
	}
	defer f.Close()
	defer os.Remove(f.Name())
	buf := make([]byte, 4<<20)
	rand.NewChaCha8([32]byte{1}).Read(buf)

	write, err = bandwidth(size, func() error {
		if err := eachPiece(ctx, buf, size, func(b []byte, off int64) error {
			for i := 0; i+8 <= len(b); i += pageSize { // no two pages are the same
				binary.LittleEndian.PutUint64(b[i:], uint64(off)+uint64(i))
			}
			_, err := f.WriteAt(b, off)
			return err
		}); err != nil {
			return err
		}
		return f.Sync()
	})
	if err != nil {
		return 0, 0, fmt.Errorf("measure writing to %s: %w", dir, err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return 0, 0, fmt.Errorf("measure reading from %s: drop from page cache: %w", dir, err)
	}
	read, err = bandwidth(size, func() error {
		return eachPiece(ctx, buf, size, func(b []byte, off int64) error {
			_, err := io.ReadFull(io.NewSectionReader(f, off, int64(len(b))), b)
			return err
		})
	})
	if err != nil {
		return 0, 0, fmt.Errorf("measure reading from %s: %w", dir, err)
	}
	return write, read, nil
}

func bandwidth(size int64, do func() error) (float64, error) {
	start := time.Now()
	err := do()
	return float64(size) / max(time.Since(start), time.Microsecond).Seconds(), err
}

func eachPiece(ctx context.Context, buf []byte, size int64, do func(b []byte, off int64) error) error {
	for off := int64(0); off < size; off += int64(len(buf)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := do(buf[:min(int64(len(buf)), size-off)], off); err != nil {
			return err
		}
	}
	return nil
}
