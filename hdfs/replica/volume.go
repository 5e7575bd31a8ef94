package replica

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/linux"
)

// volume is one directory of a data node.
type volume struct {
	dir  string
	line *Line

	mu sync.Mutex
	// layouts are those of block pools, as their VERSION files say. There are no more of
	// them than files.
	layouts map[string]versionFile
}

// versionFile is what a file says for as long as it is like stamp.
type versionFile struct {
	layout layout
	stamp  stamp
}

// stamp tells whether a file was touched: written, renamed, linked or deleted.
type stamp struct {
	dev, ino, links uint64
	size            int64
	changed         unix.Timespec // ctime
}

func stampOf(st unix.Stat_t) stamp {
	return stamp{uint64(st.Dev), st.Ino, uint64(st.Nlink), st.Size, st.Ctim}
}

// below forbids all ways out of a volume.
const below = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS

// root opens the volume's directory. The caller closes it.
func (v *volume) root() (int, error) {
	fd, _, err := linux.Lookup(v.dir, unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, v.problem(err)
	}
	return fd, nil
}

// at opens a directory below another one, not for reading. Where there is none it
// returns ENOENT.
func (v *volume) at(dir int, path string) (int, error) {
	fd, err := linux.OpenAt(dir, path, unix.O_PATH|unix.O_DIRECTORY, below)
	if err != nil && !missing(err) {
		err = v.problem(err)
	}
	return fd, err
}

// layout returns that of a block pool whose directory is open.
func (v *volume) layout(pool int, name string) (layout, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(pool, "current/VERSION", &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, v.problem(err)
	}
	v.mu.Lock()
	known, ok := v.layouts[name]
	v.mu.Unlock()
	if ok && known.stamp == stampOf(st) {
		return known.layout, nil
	}
	f, err := linux.OpenRegularAt(pool, "current/VERSION", os.O_RDONLY, below)
	if err != nil {
		return 0, v.problem(err)
	}
	defer f.Close()
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, v.problem(err)
	}
	l, err := readVersion(f, name)
	if err != nil {
		return 0, fmt.Errorf("%s, block pool %s: %w: %w", v.dir, name, ErrVolume, err)
	}
	v.mu.Lock()
	v.layouts[name] = versionFile{l, stampOf(st)}
	v.mu.Unlock()
	return l, nil
}

// find finds a block's replica; nil if there is none on the volume.
func (v *volume) find(b headrace.Block) (r *Replica, err error) {
	err = v.within(b.ID, func(dir int, path string) (err error) {
		if r, err = v.open(dir, b); r != nil {
			r.path = path
		}
		return err
	})
	return r, err
}

// data opens the data of a block's finalized replica; nil if there is none on the volume.
func (v *volume) data(id headrace.BlockID) (f *os.File, err error) {
	err = v.within(id, func(dir int, _ string) (err error) {
		if f, err = linux.OpenRegularAt(dir, dataName(id.Number), os.O_RDONLY, below); err != nil && !missing(err) {
			err = v.problem(err)
		}
		return err
	})
	return f, err
}

// within calls do with the directory in which the finalized replica of a block must be,
// and its path in the volume. If there is none, or do says so (ENOENT), it says why else
// the block might be on the volume; nil: it is not.
func (v *volume) within(id headrace.BlockID, do func(dir int, path string) error) error {
	root, err := v.root()
	if err != nil {
		return err
	}
	defer unix.Close(root)
	pool, err := v.at(root, "current/"+id.Pool)
	if missing(err) {
		return v.mounted(root)
	}
	if err != nil {
		return err
	}
	defer unix.Close(pool)
	l, err := v.layout(pool, id.Pool)
	if err != nil {
		return err
	}
	subdir := "current/finalized/" + l.subdir(id.Number)
	dir, err := v.at(pool, subdir)
	if err == nil {
		defer unix.Close(dir)
		err = do(dir, "current/"+id.Pool+"/"+subdir)
	}
	if missing(err) {
		return v.unfinished(pool, id)
	}
	return err
}

// mounted says so if nothing at all is on the volume.
func (v *volume) mounted(root int) error {
	fd, err := v.at(root, "current")
	if missing(err) {
		return fmt.Errorf("%s: %w: no data node has ever used it; is its disk mounted?", v.dir, ErrVolume)
	}
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// unfinished says so if the block is being written or copied.
func (v *volume) unfinished(pool int, id headrace.BlockID) error {
	for _, where := range []string{"current/rbw/", "tmp/"} {
		fd, err := linux.OpenAt(pool, where+dataName(id.Number), unix.O_PATH, below)
		if err == nil {
			unix.Close(fd)
			return fmt.Errorf("%s: %s: %w: it is in %s", v.dir, id, ErrNotFinalized, where)
		}
		if !missing(err) {
			return v.problem(err)
		}
	}
	return nil
}

func dataName(number int64) string { return "blk_" + strconv.FormatInt(number, 10) }

func metaName(number, generation int64) string {
	return dataName(number) + "_" + strconv.FormatInt(generation, 10) + ".meta"
}

// generation returns that in a name if it is a checksum file of a block.
func generation(name string, number int64) (int64, bool) {
	rest, ok := strings.CutPrefix(name, dataName(number)+"_")
	text, meta := strings.CutSuffix(rest, ".meta")
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || !meta || err != nil || metaName(number, n) != name {
		return 0, false
	}
	return n, true
}

// metaHeader is the length of what a checksum file begins with, in bytes (Hadoop's
// BlockMetadataHeader).
const metaHeader = 7

// open opens a replica in the directory of finalized blocks where it must be.
func (v *volume) open(dir int, b headrace.Block) (r *Replica, err error) {
	data, err := linux.OpenRegularAt(dir, dataName(b.ID.Number), os.O_RDONLY, below)
	if missing(err) {
		return nil, err
	}
	if err != nil {
		return nil, v.problem(err)
	}
	r = &Replica{ID: b.ID, Generation: b.Generation, Bytes: b.Bytes, Volume: v.dir, Data: data, volume: v}
	defer func() {
		if err != nil {
			r.Close()
			r = nil
		}
	}()
	r.Meta, err = linux.OpenRegularAt(dir, metaName(b.ID.Number, b.Generation), os.O_RDONLY, below)
	if missing(err) {
		return r, v.otherGeneration(dir, b)
	}
	if err != nil {
		return r, v.problem(err)
	}
	if r.was, err = r.look(); err != nil {
		return r, v.problem(err)
	}
	if n := r.was.data.size; n != b.Bytes {
		return r, fmt.Errorf("%s: %s: %w: it has %d bytes, not %d", v.dir, b.ID, ErrChanged, n, b.Bytes)
	}
	if n := r.was.meta.size; n < metaHeader {
		return r, fmt.Errorf("%s: %s: %w: its checksum file has %d bytes", v.dir, b.ID, ErrChanged, n)
	}
	return r, nil
}

// otherGeneration says which generations of a block are there.
func (v *volume) otherGeneration(dir int, b headrace.Block) error {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return v.problem(err)
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	var errno unix.Errno
	if errors.As(err, &errno) {
		return v.problem(errno)
	}
	var found []int64
	for _, name := range names {
		if g, ok := generation(name, b.ID.Number); ok {
			found = append(found, g)
		}
	}
	slices.Sort(found)
	return fmt.Errorf("%s: %s: %w: there are checksum files of generations %d, not of %d", v.dir, b.ID, ErrChanged, found, b.Generation)
}
