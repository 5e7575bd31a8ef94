package data

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"connectrpc.com/connect"

	"headrace/fileset"
	"headrace/pagecache"
	"headrace/serve"
	"headrace/wire"
)

const (
	// chunkFiles is how many files one message tells of.
	chunkFiles = 256
	// chunkTime is how long they are collected.
	chunkTime = 200 * time.Millisecond
)

// Cache tells what is in memory, file by file. Files are opened and the kernel
// is asked with the caller's rights: it tells what it would have told them.
func (s *service) Cache(ctx context.Context, q *wire.CacheRequest, stream *connect.ServerStream[wire.CacheChunk]) error {
	by := serve.CallerOf(ctx)
	if err := checkPaths(q.Paths); err != nil {
		return err
	}
	cred, err := by.Credentials()
	if err != nil {
		return err
	}
	method, why := s.cache.Method()
	w := &cacheWalk{
		cache: s.cache, pins: s.pinsFor(by.Viewer()), send: stream.Send, began: time.Now(),
		chunk: &wire.CacheChunk{Residency: string(method), ResidencyWhy: why, Hangs: s.hangs(by.Viewer().All)},
	}
	if len(w.chunk.Hangs) > 0 { // what is asked about may be there
		if err := w.flush(); err != nil {
			return err
		}
	}
	err = s.searches.find(ctx, cred, q.Paths, fileset.Visitor{File: w.file, Problem: w.problem})
	if err != nil {
		return asRefusal(err)
	}
	return w.flush()
}

// cacheWalk sends what is found in chunks.
type cacheWalk struct {
	cache interface {
		Resident(*os.File, pagecache.Range) (int64, error)
	}
	pins  func(path string, f *os.File) (bytes int64, by []string)
	send  func(*wire.CacheChunk) error
	chunk *wire.CacheChunk
	began time.Time
}

func (w *cacheWalk) file(found fileset.File) error {
	f, err := fileset.Open(found.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has vanished
	}
	if err != nil {
		return w.failed(found.Path, err)
	}
	defer f.Close()
	c := &wire.CacheFile{Path: serve.Shown(found.Path), Size: found.Size}
	c.Resident, err = w.cache.Resident(f, pagecache.Range{Len: c.Size})
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errors.ErrUnsupported):
		c.Resident = -1
	case err != nil:
		return w.failed(found.Path, err)
	}
	c.Pinned, c.PinnedBy = w.pins(found.Path, f)
	w.chunk.Files = append(w.chunk.Files, c)
	return w.next()
}

func (w *cacheWalk) problem(p *fileset.Problem) error { return w.failed(p.Path, p) }

func (w *cacheWalk) failed(path string, err error) error {
	w.chunk.Problems = append(w.chunk.Problems, pathProblem(path, err))
	return w.next()
}

// next sends the chunk when it is large or old enough.
func (w *cacheWalk) next() error {
	if n := len(w.chunk.Files) + len(w.chunk.Problems); n >= chunkFiles || time.Since(w.began) >= chunkTime {
		return w.flush()
	}
	return nil
}

func (w *cacheWalk) flush() error {
	err := w.send(w.chunk)
	w.chunk, w.began = &wire.CacheChunk{}, time.Now()
	return err
}
