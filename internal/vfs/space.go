package vfs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mostKept bounds KeptFree.
const mostKept = 10e9

// KeptFree returns how many bytes of a file system of so many are left free by what can wait, or go elsewhere, or be
// shortened: checkpoints, restores, logs. It is a twentieth, but at most 10 GB: what has to go on being written
// there, the records of a daemon first of all, does not grow with the disk, and of one of 20 TB a twentieth would be kept from
// everybody for nothing.
func KeptFree(size int64) int64 { return min(size/20, mostKept) }

// SpareSpace returns how many bytes may be taken on the file system of a path so that KeptFree of it is left, beside
// what is reserved for root; never less than 0.
func SpareSpace(path string) (int64, error) {
	free, size, err := Space(path)
	return max(0, free-KeptFree(size)), err
}

// Space returns how many bytes of the file system of a path are free for others than root, and how large it is.
func Space(path string) (free, size int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return 0, 0, fmt.Errorf("look for room on the file system of %s: %w", path, err)
	}
	return int64(fs.Bavail) * fs.Bsize, int64(fs.Blocks) * fs.Bsize, nil
}
