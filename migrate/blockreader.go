package migrate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"headrace/blob"
)

// A blockReader reads an entry's stream. No byte is returned, nor given to the
// decompressor, before its block has been found to be what was stored.
type blockReader struct {
	ctx   context.Context
	m     *Manifest
	group *errgroup.Group
	stop  context.CancelFunc
	dec   *zstd.Decoder
	free  chan *block
	queue chan *block

	cur  *block
	left []byte // of cur
}

func newBlockReader(ctx context.Context, p blob.Place, dir string, m *Manifest) (*blockReader, error) {
	r := &blockReader{m: m, free: newBlocks(lanes()), queue: make(chan *block, lanes())}
	if m.Compressed {
		var err error
		if r.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithDecoderMaxMemory(blockSize)); err != nil {
			return nil, err
		}
	}
	ctx, r.stop = context.WithCancel(ctx)
	r.group, r.ctx = errgroup.WithContext(ctx)
	r.group.Go(func() error {
		defer close(r.queue)
		return r.load(p, dir)
	})
	return r, nil
}

// load reads the data objects, in order.
func (r *blockReader) load(p blob.Place, dir string) error {
	next := 0
	for i, n := range r.m.Parts {
		name := path.Join(dir, partName(i))
		err := r.loadPart(p, name, next, n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // of a connection, not of the stream
			err = errors.New(err.Error())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		next += n
	}
	return nil
}

func (r *blockReader) loadPart(p blob.Place, name string, first, n int) error {
	f, err := p.Open(r.ctx, name)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := first; i < first+n; i++ {
		var b *block
		select {
		case b = <-r.free:
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
		b.head, b.done, b.err = r.m.Blocks[i], make(chan struct{}), nil
		b.stored = grow(b.stored, b.head.Size)
		if _, err := io.ReadFull(f, b.stored); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = r.ends(p, name, first, n, fmt.Errorf("it ends in block %d: %w", i, err))
			}
			return err
		}
		go r.check(b, i)
		r.queue <- b // has room for all blocks that there are
	}
	var more [1]byte
	switch n, err := f.Read(more[:]); {
	case n > 0:
		return fmt.Errorf("%w: there is more than the manifest tells", ErrCorrupt)
	case err != nil && err != io.EOF:
		return err
	}
	return nil
}

// ends returns err, with which the reading of an object has ended early, as ErrCorrupt if the object is shorter than the
// manifest says: that a connection was cut off ends it in the same way, and damages nothing.
func (r *blockReader) ends(p blob.Place, name string, first, n int, err error) error {
	want := int64(0)
	for _, b := range r.m.Blocks[first : first+n] {
		want += int64(b.Size)
	}
	there, lerr := p.List(r.ctx, path.Dir(name))
	if lerr != nil {
		return errors.Join(err, lerr)
	}
	for _, o := range there {
		if o.Name == path.Base(name) && o.Size < want {
			return fmt.Errorf("%w: %v", ErrCorrupt, err)
		}
	}
	return err
}

// check makes a block's bytes of the stream from what is stored.
func (r *blockReader) check(b *block, i int) {
	defer close(b.done)
	if sha256.Sum256(b.stored) != b.head.Sum {
		b.err = fmt.Errorf("%w: block %d is not what was stored", ErrCorrupt, i)
		return
	}
	b.raw = b.stored
	if r.dec != nil {
		if b.packed, b.err = r.dec.DecodeAll(b.stored, b.packed[:0]); b.err != nil {
			b.err = fmt.Errorf("%w: block %d: %w", ErrCorrupt, i, b.err)
			return
		}
		b.raw = b.packed
	}
	if len(b.raw) != r.m.rawSize(i) {
		b.err = fmt.Errorf("%w: block %d has %d bytes instead of %d", ErrCorrupt, i, len(b.raw), r.m.rawSize(i))
	}
}

func (r *blockReader) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		if r.cur != nil {
			r.free <- r.cur
			r.cur = nil
		}
		b, ok := <-r.queue
		if !ok {
			if err := r.group.Wait(); err != nil {
				return 0, err
			}
			return 0, io.EOF
		}
		<-b.done
		if b.err != nil {
			return 0, b.err
		}
		r.cur, r.left = b, b.raw
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// close ends the reading; no goroutine is left.
func (r *blockReader) close() {
	r.stop()
	for b := range r.queue {
		<-b.done
	}
	r.group.Wait()
	if r.cur != nil {
		<-r.cur.done
	}
	if r.dec != nil {
		r.dec.Close()
	}
}
