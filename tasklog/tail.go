package tasklog

import (
	"context"
	"errors"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// tailBlock is how much is read at a time to find the last lines, in bytes.
const tailBlock = 64 << 10

// tail returns the offset at which the last lines of a file begin, that of its end for
// no lines. It reads from the end no more than these, and no holes.
func tail(ctx context.Context, f *os.File, lines uint32) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if lines == 0 {
		return info.Size(), nil
	}
	buf, size, left := make([]byte, tailBlock), info.Size(), lines
	for end, step := size, int64(tailBlock); end > 0 && ctx.Err() == nil; {
		begin := max(0, end-step)
		from, _, err := data(f, begin)
		if err != nil {
			return 0, err
		}
		if from >= end { // a hole, that may be large
			end, step = begin, 2*step
			continue
		}
		if step > tailBlock {
			step /= 2
			continue
		}
		n, err := f.ReadAt(buf[:end-begin], begin)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := n - 1; i >= 0; i-- {
			// The end of the last line ends no line before the last ones.
			if at := begin + int64(i) + 1; buf[i] != '\n' || at == size {
				continue
			} else if left--; left == 0 {
				return at, nil
			}
		}
		end = begin
	}
	return 0, ctx.Err()
}

// data returns the next part of a file that has data, from offset or behind it up to
// the next hole. Behind all data it is what may still be written.
func data(f *os.File, offset int64) (from, to int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return offset, offset, err
	}
	fd := int(f.Fd())
	from, err = unix.Seek(fd, offset, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return max(offset, info.Size()), math.MaxInt64, nil
	case err != nil: // the file system does not tell
		return offset, math.MaxInt64, nil
	}
	if to, err = unix.Seek(fd, from, unix.SEEK_HOLE); err != nil {
		to = math.MaxInt64
	}
	return from, to, nil
}
