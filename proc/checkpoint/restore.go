package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"headrace/internal/criu/image"
	"headrace/internal/linux"
)

const zstdSuffix = ".zst"

// Open returns the directory to give to criu restore -D, and a function to call
// when criu has ended.
//
// For an image that is not compressed that is its own directory, and nothing has
// been checked: call Verify first. For a compressed one it is a directory below
// scratch, which must exist and have room for the pages; the chain is
// decompressed into it, and everything that criu will read is checked on the
// way, so that Verify is not needed; closing removes it. A memory file system
// will do for scratch; the pages of the whole chain then take memory until the
// restore has ended.
//
// Until it is closed the task cannot be dumped, collected or removed. While one of
// these is under way it waits, at most as long as the store's patience.
func (im *Image) Open(ctx context.Context, scratch string) (dir string, closeDir func() error, err error) {
	if im.Err != nil {
		return "", nil, im.Err
	}
	lock, err := im.store.lock(ctx, im.Task, unix.LOCK_SH)
	if err != nil {
		return "", nil, fmt.Errorf("open checkpoint %d of task %s: %w", im.Seq, im.Task, err)
	}
	if !im.Compressed {
		return im.Dir, sync.OnceValue(func() error { lock.unlock(); return nil }), nil
	}
	top, err := im.unpack(ctx, scratch)
	if err != nil {
		lock.unlock()
		return "", nil, err
	}
	return filepath.Join(top.Name(), seqName(im.Seq)), sync.OnceValue(func() error {
		lock.unlock()
		return removeScratchDir(top)
	}), nil
}

// unpack decompresses the chain into a new directory below scratch.
func (im *Image) unpack(ctx context.Context, scratch string) (*os.File, error) {
	fail := func(err error) error {
		return fmt.Errorf("decompress checkpoint %d of task %s: %w", im.Seq, im.Task, err)
	}
	var need int64
	for _, c := range im.chain() {
		need += c.Stored
	}
	if err := SweepScratch(scratch); err != nil {
		return nil, fail(err)
	}
	room, err := free(scratch)
	if err != nil {
		return nil, fail(err)
	}
	if room < need+reserve {
		return nil, fail(fmt.Errorf("%w: %s has room for %d bytes, %d are needed; free some, or configure another scratch directory", ErrNoSpace, scratch, room, need+reserve))
	}
	top, err := newScratchDir(scratch, im.Task)
	if err != nil {
		return nil, fail(err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(compressors), zstd.WithDecoderMaxMemory(maxExtent))
	if err == nil {
		defer dec.Close()
		for _, c := range im.chain() {
			u := &unpacker{ctx: ctx, im: c, dir: filepath.Join(top.Name(), seqName(c.Seq)), dec: dec, onlyPages: c != im}
			if err = u.run(); err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, fail(errors.Join(err, removeScratchDir(top)))
	}
	return top, nil
}

// scratchPrefix is how directories of unpacked images begin.
const scratchPrefix = "restore-"

// newScratchDir makes a directory that stays as long as what it returns is open.
func newScratchDir(scratch, task string) (*os.File, error) {
	for {
		path, err := os.MkdirTemp(scratch, scratchPrefix+task+"-") // mode 0700
		if err != nil {
			return nil, err
		}
		same := false
		dir, err := linux.LockDir(path, unix.LOCK_SH)
		if err == nil {
			if same, err = sameFile(dir, path); same {
				return dir, nil
			}
			dir.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, linux.ErrLocked) {
			return nil, errors.Join(err, os.Remove(path))
		} // else it was swept before it was locked
	}
}

func removeScratchDir(dir *os.File) error {
	return errors.Join(os.RemoveAll(dir.Name()), dir.Close())
}

// SweepScratch removes unpacked images that nobody uses: who did so was killed.
func SweepScratch(scratch string) error {
	left, err := image.Named(scratch, scratchPrefix+"*")
	for _, path := range left {
		dir, lerr := linux.LockDir(path, unix.LOCK_EX)
		switch {
		case lerr == nil:
			err = errors.Join(err, removeScratchDir(dir))
		case !errors.Is(lerr, fs.ErrNotExist) && !errors.Is(lerr, linux.ErrLocked):
			err = errors.Join(err, lerr)
		}
	}
	return err
}

// An unpacker decompresses one image.
type unpacker struct {
	ctx       context.Context
	im        *Image
	dir       string
	dec       *zstd.Decoder
	onlyPages bool // criu reads only these of a parent
}

func (u *unpacker) run() error {
	if err := os.Mkdir(u.dir, 0o700); err != nil {
		return err
	}
	if u.im.Parent != 0 {
		if err := os.Symlink(parentTarget(u.im.Parent), filepath.Join(u.dir, parentLink)); err != nil {
			return err
		}
	}
	for _, f := range u.im.m.Files {
		var err error
		switch {
		case f.Sums != "":
			err = u.pages(f)
		case strings.HasSuffix(f.Name, sumsSuffix), strings.HasSuffix(f.Name, indexSuffix):
		case u.onlyPages && !strings.HasPrefix(f.Name, "pagemap-"):
		default:
			err = u.copy(f)
		}
		if u.ctx.Err() != nil {
			return u.ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) read(n int) error {
	u.im.store.progress(n)
	return u.ctx.Err()
}

// ofStore makes an error of reading the image a CorruptError, so that it can be
// told from one of writing to scratch.
func (u *unpacker) ofStore(f manifestFile, err error) error {
	if err == nil || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnreadable) {
		return err
	}
	return u.im.corrupt(f.Name, err)
}

func (u *unpacker) copy(f manifestFile) error {
	r, err := u.im.openFile(f)
	if err != nil {
		return err
	}
	defer r.Close()
	w := &scratchFile{}
	if w.File, err = os.OpenFile(filepath.Join(u.dir, f.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	}
	_, sum, err := copySum(w, r, make([]byte, 256<<10), u.read)
	if err == nil {
		err = f.checkSum(sum)
	}
	if w.err == nil {
		err = u.ofStore(f, err)
	}
	return errors.Join(err, w.Close())
}

// A scratchFile remembers whether writing failed.
type scratchFile struct {
	*os.File
	err error
}

func (w *scratchFile) Write(b []byte) (int, error) {
	n, err := w.File.Write(b)
	w.err = err
	return n, err
}

// pages decompresses a pages file, several frames at the same time.
func (u *unpacker) pages(f manifestFile) error {
	if err := u.im.checkFile(*u.im.m.file(f.Sums), make([]byte, 256<<10), u.read); err != nil {
		return err
	}
	r, err := u.im.openFile(f)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(filepath.Join(u.dir, strings.TrimSuffix(f.Name, zstdSuffix)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(u.ctx)
	group.SetLimit(compressors)
	pos := int64(0)
	err = u.im.eachExtent(f, func(e extent) error {
		at := pos
		pos += int64(e.stored)
		group.Go(func() error { return u.frame(w, r, f, at, e) })
		return ctx.Err()
	})
	err = errors.Join(group.Wait(), err, w.Truncate(f.RawSize), w.Close())
	if err == nil && pos != f.Size {
		err = u.ofStore(f, fmt.Errorf("has %d bytes more than its checksums tell", f.Size-pos))
	}
	return err
}

var frameBuffers = sync.Pool{New: func() any { return new(frameBuffer) }}

type frameBuffer struct{ stored, raw []byte }

// frame reads, checks and decompresses one frame.
func (u *unpacker) frame(w, r *os.File, f manifestFile, at int64, e extent) error {
	b := frameBuffers.Get().(*frameBuffer)
	defer frameBuffers.Put(b)
	if cap(b.stored) < e.stored {
		b.stored = make([]byte, e.stored)
	}
	b.stored = b.stored[:e.stored]
	err := readExtent(r, at, e, b.stored)
	u.im.store.progress(e.stored)
	if err == nil {
		b.raw, err = u.dec.DecodeAll(b.stored, b.raw[:0])
	}
	if err == nil && len(b.raw) != e.length {
		err = fmt.Errorf("%d bytes instead of %d come out at %d", len(b.raw), e.length, at)
	}
	if err != nil {
		return u.ofStore(f, err)
	}
	return writeSparse(w, b.raw, e.off)
}

// writeSparse writes whole pages but leaves out those that are zero.
func writeSparse(w *os.File, b []byte, off int64) error {
	isZero := func(b []byte) bool { return string(b[:pageSize]) == string(zeroPage) }
	for len(b) > 0 {
		n := 0
		for n < len(b) && !isZero(b[n:]) {
			n += pageSize
		}
		if n > 0 {
			if _, err := w.WriteAt(b[:n], off); err != nil {
				return err
			}
		}
		for n < len(b) && isZero(b[n:]) {
			n += pageSize
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}
