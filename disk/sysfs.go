package disk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// sysfs is where sysfs is mounted.
type sysfs string

// block is a whole block device in sysfs.
type block struct {
	id   ID
	name string
	dir  string
}

// errNoBlock: sysfs knows no block device of that number.
var errNoBlock = errors.New("not a block device")

// path returns where a block device is by its number, if there is one.
func (s sysfs) path(id ID) string { return filepath.Join(string(s), "dev/block", id.String()) }

// whole finds the block device of a number, and the disk that it is part of. The
// error is errNoBlock for an anonymous number.
func (s sysfs) whole(id ID) (block, error) {
	dir, err := filepath.EvalSymlinks(s.path(id))
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(string(s), "dev/block")); err != nil {
			return block{}, fmt.Errorf("device %v: %w", id, err)
		}
		return block{}, errNoBlock
	}
	if err != nil {
		return block{}, err
	}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		dir = filepath.Dir(dir)
		text, err := os.ReadFile(filepath.Join(dir, "dev"))
		if err != nil {
			return block{}, fmt.Errorf("the disk of the partition %v: %w", id, err)
		}
		of, ok := linux.ParseDev(strings.TrimSpace(string(text)))
		if !ok {
			return block{}, fmt.Errorf("the disk of the partition %v: bad number %q", id, text)
		}
		id = ID(of)
	}
	// A slash in a name is an exclamation mark in sysfs.
	return block{id: id, name: strings.ReplaceAll(filepath.Base(dir), "!", "/"), dir: dir}, nil
}

// all lists the whole disks that have a medium, by their number.
func (s sysfs) all() ([]block, error) {
	entries, err := os.ReadDir(filepath.Join(string(s), "dev/block"))
	if err != nil {
		return nil, err
	}
	var all []block
	for _, e := range entries {
		dev, ok := linux.ParseDev(e.Name())
		if !ok {
			continue
		}
		id := ID(dev)
		b, err := s.whole(id)
		if err != nil || b.id != id {
			continue // a partition, or gone by now
		}
		size, err := os.ReadFile(filepath.Join(b.dir, "size"))
		if err == nil && strings.TrimSpace(string(size)) != "0" {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b block) int { return cmp.Compare(a.id, b.id) })
	return all, nil
}

// maxLoops bounds how many loop devices are looked through, one on the other.
const maxLoops = 8

// rotational tells whether a disk seeks; note is what is not known about that. A
// loop device seeks if the device of its file does.
func (s sysfs) rotational(b block, depth int) (rotational bool, note string) {
	backing, err := os.ReadFile(filepath.Join(b.dir, "loop/backing_file"))
	if err == nil {
		path := strings.TrimSuffix(string(backing), "\n")
		if rotational, ok := s.fileRotational(path, depth); ok {
			return rotational, ""
		}
		note = "the device of its file cannot be found: " + path
	}
	text, err := os.ReadFile(filepath.Join(b.dir, "queue/rotational"))
	switch strings.TrimSpace(string(text)) {
	case "0":
		return false, note
	case "1":
		return true, note
	}
	if err == nil {
		err = fmt.Errorf("queue/rotational is %q", text)
	}
	return true, fmt.Sprintf("whether it seeks is not known: %v", err)
}

// fileRotational tells about the device of a file by its name, if it can be
// found.
func (s sysfs) fileRotational(path string, depth int) (rotational, ok bool) {
	if depth >= maxLoops {
		return false, false
	}
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st); err != nil {
		return false, false
	}
	dev := ID(unix.Mkdev(st.Dev_major, st.Dev_minor))
	if st.Mode&unix.S_IFMT == unix.S_IFBLK {
		dev = ID(unix.Mkdev(st.Rdev_major, st.Rdev_minor))
	}
	b, err := s.whole(dev)
	if errors.Is(err, errNoBlock) {
		var fs unix.Statfs_t
		return unix.Statfs(path, &fs) != nil || memoryType(int64(fs.Type)) == "", true
	}
	if err != nil {
		return false, false
	}
	rotational, _ = s.rotational(b, depth+1)
	return rotational, true
}

// memoryType returns the type of a file system whose files are in memory only, by its
// magic number; empty for others.
func memoryType(magic int64) string {
	switch uint32(magic) {
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.RAMFS_MAGIC:
		return "ramfs"
	case unix.HUGETLBFS_MAGIC:
		return "hugetlbfs"
	}
	return ""
}
