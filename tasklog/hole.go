package tasklog

import (
	"errors"
	"fmt"
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
