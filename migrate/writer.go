package migrate

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"headrace/proc/checkpoint"
)

// A Writer adds files to an entry. It is not for concurrent use.
type Writer struct {
	ctx context.Context
	w   *bufio.Writer
	m   *Manifest
	buf []byte
	// committing, if not nil, is called when all is written.
	committing func() error
}

// Committing has f called when the entry is complete and before anybody can claim it. If f fails, so does
// Put, and nobody ever can.
func (w *Writer) Committing(f func() error) { w.committing = f }

// AddImage adds a checkpoint with all images that its restore reads, after it has
// checked every byte of them.
func (w *Writer) AddImage(im *checkpoint.Image) error {
	if err := im.Verify(w.ctx, nil); err != nil {
		return err
	}
	return im.Export(func(name string, f *os.File) error {
		st, err := f.Stat()
		if err != nil {
			return err
		}
		return w.add(File{In: InImage, Path: name, Type: Regular, Size: st.Size()}, f)
	})
}

// AddFiles adds the files that Carry has chosen.
func (w *Writer) AddFiles(c *Carried) error {
	return c.each(func(f File, open *os.File) error { return w.add(f, open) })
}

// add appends a file; from is nil unless it is a regular one.
func (w *Writer) add(f File, from *os.File) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.Type == Regular {
		unix.Fadvise(int(from.Fd()), 0, 0, unix.FADV_SEQUENTIAL) // only a hint
		if err := writeContents(w.ctx, w.w, from, f.Size, w.buf); err != nil {
			return fmt.Errorf("read %s: %w", f.Path, err)
		}
	}
	w.m.Files = append(w.m.Files, f)
	return nil
}
