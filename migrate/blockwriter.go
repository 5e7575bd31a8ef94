package migrate

import (
	"context"
	"crypto/sha256"
	"io"
	"path"
	"runtime"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"headrace/blob"
	"headrace/internal/crash"
)

// A blockWriter cuts a stream into blocks, compresses and hashes them on all
// processors, and stores them in order.
type blockWriter struct {
	ctx   context.Context
	group *errgroup.Group
	enc   *zstd.Encoder // nil: do not compress
	cur   *block
	free  chan *block // bounds the memory
	queue chan *block // in order; what is in it may still be at work

	// Set by the goroutine that stores; read after the group has ended.
	raw, size int64
	parts     []int
	blocks    []Block
}

// A block is on its way from stream to place, or back.
type block struct {
	raw, stored []byte
	packed      []byte // memory for what is compressed
	head        Block
	err         error
	done        chan struct{}
}

// lanes returns how many blocks are on their way at once.
func lanes() int { return 2*runtime.GOMAXPROCS(0) + 2 }

func newBlocks(n int) chan *block {
	free := make(chan *block, n)
	for range n {
		free <- new(block)
	}
	return free
}

func newBlockWriter(ctx context.Context, p blob.Place, dir string, compress bool) (*blockWriter, error) {
	w := &blockWriter{free: newBlocks(lanes()), queue: make(chan *block, lanes())}
	if compress {
		var err error
		if w.enc, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0))); err != nil {
			return nil, err
		}
	}
	w.group, w.ctx = errgroup.WithContext(ctx)
	w.group.Go(func() error { return w.store(p, dir) })
	return w, nil
}

func (w *blockWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		if w.cur == nil {
			select {
			case w.cur = <-w.free:
				w.cur.raw = grow(w.cur.raw, blockSize)[:0]
			case <-w.ctx.Done():
				return n, context.Cause(w.ctx)
			}
		}
		m := min(len(p), blockSize-len(w.cur.raw))
		w.cur.raw = append(w.cur.raw, p[:m]...)
		p, n = p[m:], n+m
		if len(w.cur.raw) == blockSize {
			if err := w.emit(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// emit gives the current block to a processor.
func (w *blockWriter) emit() error {
	b := w.cur
	w.cur, b.done = nil, make(chan struct{})
	go func() {
		defer close(b.done)
		b.stored = b.raw
		if w.enc != nil {
			b.packed = w.enc.EncodeAll(b.raw, b.packed[:0])
			b.stored = b.packed
		}
		b.head = Block{len(b.stored), sha256.Sum256(b.stored)}
	}()
	select {
	case w.queue <- b:
		return nil
	case <-w.ctx.Done():
		<-b.done
		return context.Cause(w.ctx)
	}
}

// finish ends the stream. Whatever happens, no goroutine is left.
func (w *blockWriter) finish(err error) error {
	if err == nil && w.cur != nil && len(w.cur.raw) > 0 {
		err = w.emit()
	}
	if err != nil {
		w.group.Go(func() error { return err })
		<-w.ctx.Done()
	}
	close(w.queue)
	if werr := w.group.Wait(); werr != nil {
		err = werr
	}
	for b := range w.queue {
		<-b.done
	}
	if w.enc != nil {
		w.enc.Close()
	}
	return err
}

// store writes blocks to data objects until the queue ends.
func (w *blockWriter) store(p blob.Place, dir string) error {
	for {
		first, ok := w.next()
		if !ok {
			return w.ctx.Err()
		}
		name := path.Join(dir, partName(len(w.parts)))
		err := p.Create(w.ctx, name, func(to io.Writer) error { return w.part(to, first) })
		if err != nil {
			return err
		}
		crash.Here("archive.part")
	}
}

func (w *blockWriter) part(to io.Writer, b *block) error {
	w.parts = append(w.parts, 0)
	for ok := true; ok; {
		n := &w.parts[len(w.parts)-1]
		*n++
		w.blocks = append(w.blocks, b.head)
		w.raw, w.size = w.raw+int64(len(b.raw)), w.size+int64(len(b.stored))
		if _, err := to.Write(b.stored); err != nil {
			return err
		}
		w.free <- b
		if *n == partBlocks {
			return nil
		}
		b, ok = w.next()
	}
	return w.ctx.Err()
}

// next returns false at the end of the stream, and when the context ends.
func (w *blockWriter) next() (*block, bool) {
	select {
	case b, ok := <-w.queue:
		if !ok {
			return nil, false
		}
		<-b.done
		return b, w.ctx.Err() == nil
	case <-w.ctx.Done():
		return nil, false
	}
}

func grow(b []byte, n int) []byte {
	if cap(b) < n {
		b = make([]byte, n)
	}
	return b[:n]
}
