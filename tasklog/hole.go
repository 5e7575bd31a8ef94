package tasklog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNoHoles means that a file system cannot give back the middle of a file.
var ErrNoHoles = errors.New("the file system cannot give back a part of a file")

// use returns how much a log holds on the disk, in bytes; 0 if there is none.
func use(path string) int64 {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0
	}
	return st.Blocks * 512
}

// cut makes a log hold about keep bytes: the first half and the last half of them.
// notice is put before the hole, without line ends. The file must be uid's.
func cut(f *os.File, uid uint32, keep int64, notice string) error {
	if err := punch(f, uid, keep, notice); err != nil {
		return err
	}
	return cutBehind(f, keep)
}

// spare is how much a log may hold beside what it is to keep, in bytes, before that is looked
// for behind its end: file systems allocate ahead of who writes.
const spare = 1 << 20

// cutBehind gives back what is allocated behind the end of a log (fallocate(2),
// FALLOC_FL_KEEP_SIZE): its owner can have any amount there, that is in no size and no hole. Not all
// file systems punch holes behind the end, but all free what is there when a file is
// truncated to the size that it has. What is appended in that very moment is lost.
func cutBehind(f *os.File, keep int64) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Blocks*512 <= 2*(keep+spare) {
		return err
	}
	return f.Truncate(st.Size)
}

// punch is cut for what is before the end of the log.
func punch(f *os.File, uid uint32, keep int64, notice string) error {
	st, err := owned(f, uid)
	if err != nil {
		return err
	}
	fd, path := int(f.Fd()), f.Name()
	block := max(4096, int64(st.Blksize))
	begin := max(block, keep/2/block*block)
	end := (st.Size - keep/2) / block * block
	notice = "\n[headrace: " + notice + "]\n"
	if hole, err := unix.Seek(fd, 0, unix.SEEK_HOLE); err == nil && hole/block*block <= begin && hole < st.Size {
		begin, notice = max(block, hole/block*block), "" // it has been cut there before
	}
	if end <= begin {
		return nil
	}
	if notice != "" {
		if _, err := f.WriteAt([]byte(notice), begin-int64(len(notice))); err != nil {
			return fmt.Errorf("cut the log: %w", err)
		}
	}
	err = unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, begin, end-begin)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%s: %w", path, ErrNoHoles)
	}
	if err != nil {
		return fmt.Errorf("cut the log %s: %w", path, err)
	}
	return nil
}

// owned looks at an open file, which must be a regular one of that user.
func owned(f *os.File, uid uint32) (st unix.Stat_t, err error) {
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return st, fmt.Errorf("cut %s: %w", f.Name(), err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != uid {
		return st, fmt.Errorf("cut %s: it is not what the task was given", f.Name())
	}
	return st, nil
}

// tailBlock is how much is read at a time to find the last lines, in bytes.
const tailBlock = 64 << 10

// Tail returns the offset at which the last lines of a file begin, that of its end for
// no lines. It reads from the end no more than these, and no holes.
func Tail(ctx context.Context, f *os.File, lines uint32) (int64, error) {
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
		from, _, err := Data(f, begin)
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

// Data returns the next part of a file that has data, from offset or behind it up to
// the next hole. Behind all data it is what may still be written.
func Data(f *os.File, offset int64) (from, to int64, err error) {
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
