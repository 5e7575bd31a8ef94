package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"
)

// Verify reads everything that a restore of the image needs, the whole chain, in
// order, and compares it with the checksums. The first difference is returned as
// a *CorruptError (errors.Is ErrCorrupt); where the machine cannot read now it is
// ErrUnreadable. What was read is then in the page
// cache as far as memory allows, so that criu restore finds it there.
//
// progress, unless nil, is called every few megabytes, from the calling
// goroutine, with the bytes read and the bytes to read.
func (im *Image) Verify(ctx context.Context, progress func(done, total int64)) error {
	v := &verifier{ctx: ctx, store: im.store, progress: progress, total: im.BytesToRead(), buf: make([]byte, maxStored)}
	if im.Err != nil {
		return im.Err
	}
	for _, c := range im.chain() {
		if err := v.image(c); err != nil {
			return err
		}
	}
	return nil
}

type verifier struct {
	ctx         context.Context
	store       *Store
	progress    func(done, total int64)
	done, total int64
	buf         []byte
}

// read counts n bytes.
func (v *verifier) read(n int) error {
	v.done += int64(n)
	v.store.progress(n)
	if v.progress != nil {
		v.progress(v.done, v.total)
	}
	return v.ctx.Err()
}

func (v *verifier) image(im *Image) error {
	if err := im.checkParentLink(); err != nil {
		return err
	}
	// Pages files come last: their sums files are checked before.
	for _, pages := range []bool{false, true} {
		for _, f := range im.m.Files {
			if (f.Sums != "") != pages {
				continue
			}
			if err := v.file(im, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *verifier) file(im *Image, f manifestFile) error {
	var err error
	if f.Sums != "" {
		err = v.pages(im, f)
	} else {
		err = im.checkFile(f, v.buf, v.read)
	}
	if v.ctx.Err() != nil {
		return fmt.Errorf("verify checkpoint %d of task %s: %w", im.Seq, im.Task, v.ctx.Err())
	}
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnreadable) {
		err = im.corrupt(f.Name, err)
	}
	return err
}

// openFile opens a file of an image and checks its size.
func (im *Image) openFile(f manifestFile) (*os.File, error) {
	r, err := os.OpenFile(filepath.Join(im.Dir, f.Name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, im.corrupt(f.Name, err)
	}
	st, err := r.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("is not a regular file (%v)", st.Mode().Type())
	}
	if err == nil && st.Size() != f.Size {
		err = fmt.Errorf("has %d bytes, want %d", st.Size(), f.Size)
	}
	if err != nil {
		r.Close()
		return nil, im.corrupt(f.Name, err)
	}
	unix.Fadvise(int(r.Fd()), 0, 0, unix.FADV_SEQUENTIAL) // only a hint
	return r, nil
}

// checkFile compares the hash of a file that has one.
func (im *Image) checkFile(f manifestFile, buf []byte, read func(int) error) error {
	r, err := im.openFile(f)
	if err != nil {
		return err
	}
	defer r.Close()
	_, sum, err := copySum(io.Discard, r, buf, read)
	if err == nil {
		err = f.checkSum(sum)
	}
	if err != nil {
		return im.corrupt(f.Name, err)
	}
	return nil
}

func (f manifestFile) checkSum(got string) error {
	if got != f.Sum {
		return fmt.Errorf("hash is %s, want %s", got, f.Sum)
	}
	return nil
}

// copySum copies r to w and returns the size and the hash of what it copied.
// read, unless nil, is called with the number of bytes of every step; its error
// ends the copy.
func copySum(w io.Writer, r io.Reader, buf []byte, read func(int) error) (size int64, sum string, err error) {
	h := xxh3.New()
	for err == nil {
		var n int
		n, err = r.Read(buf)
		size += int64(n)
		h.Write(buf[:n])
		if _, err := w.Write(buf[:n]); err != nil {
			return size, "", err
		}
		if read != nil {
			if err := read(n); err != nil {
				return size, "", err
			}
		}
	}
	if err == io.EOF {
		err = nil
	}
	return size, hexSum(h.Sum128()), err
}

func (v *verifier) pages(im *Image, f manifestFile) error {
	r, err := im.openFile(f)
	if err != nil {
		return err
	}
	defer r.Close()
	pos := int64(0) // everything before is checked
	err = im.eachExtent(f, func(e extent) error {
		at := pos
		if !im.Compressed {
			if err := checkZero(r, pos, e.off, v.buf); err != nil {
				return err
			}
			at = e.off
		}
		if err := readExtent(r, at, e, v.buf); err != nil {
			return err
		}
		pos = at + int64(e.stored)
		return v.read(e.stored)
	})
	if err != nil {
		return err
	}
	if im.Compressed && pos != f.Size {
		return fmt.Errorf("has %d bytes more than its checksums tell", f.Size-pos)
	}
	return checkZero(r, pos, f.Size, v.buf)
}

// eachExtent calls do with the extents of a pages file.
func (im *Image) eachExtent(f manifestFile, do func(extent) error) error {
	file, err := im.openFile(*im.m.file(f.Sums))
	if err != nil {
		return err
	}
	defer file.Close()
	sums, err := newSumsReader(file, im.Compressed)
	if err != nil {
		return im.corrupt(f.Sums, err)
	}
	for {
		e, err := sums.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return im.corrupt(f.Sums, err)
		}
		if e.end() > f.RawSize {
			return im.corrupt(f.Sums, fmt.Errorf("extent up to %d of %d bytes", e.end(), f.RawSize))
		}
		if err := do(e); err != nil {
			return err
		}
	}
}

// readExtent reads the stored bytes of an extent from their position into buf,
// which has room for maxStored.
func readExtent(r io.ReaderAt, at int64, e extent, buf []byte) error {
	b := buf[:e.stored]
	if n, err := r.ReadAt(b, at); n < len(b) {
		return fmt.Errorf("%d bytes at %d: %w", len(b), at, err)
	}
	if got := xxh3.Hash(b); got != e.sum {
		return fmt.Errorf("%d bytes at %d: hash is %016x, want %016x", len(b), at, got, e.sum)
	}
	return nil
}

// checkZero checks that a range of a file is zero, without reading holes.
func checkZero(f *os.File, from, to int64, buf []byte) error {
	for from < to {
		data, err := unix.Seek(int(f.Fd()), from, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) || err == nil && data >= to {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for data at %d: %w", from, err)
		}
		b := buf[:min(int64(len(buf)), to-data)]
		hole, err := unix.Seek(int(f.Fd()), data, unix.SEEK_HOLE)
		if err == nil {
			b = b[:min(int64(len(b)), hole-data)]
		}
		if n, err := f.ReadAt(b, data); n < len(b) {
			return fmt.Errorf("%d bytes at %d: %w", len(b), data, err)
		}
		if i := firstNonZero(b); i >= 0 {
			return fmt.Errorf("byte at %d is not zero", data+int64(i))
		}
		from = data + int64(len(b))
	}
	return nil
}

// firstNonZero is -1 if all bytes are zero.
func firstNonZero(b []byte) int {
	for i := 0; i < len(b); i += pageSize {
		p := b[i:min(i+pageSize, len(b))]
		if !bytes.Equal(p, zeroPage[:len(p)]) {
			return i + bytes.IndexFunc(p, func(r rune) bool { return r != 0 })
		}
	}
	return -1
}
