package stream

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"testing"

	"headrace/disk"
	"headrace/fileset"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/stream/source"
)

// elsewhere is a source whose files are on no disk of this machine.
type elsewhere map[string][]byte

func (e elsewhere) Find(_ context.Context, _ linux.Credentials, paths []string, found func(string, source.File) error) error {
	for _, path := range paths {
		if e[path] == nil {
			return fs.ErrNotExist
		}
		if err := found(path, remote{bytes.NewReader(e[path])}); err != nil {
			return err
		}
	}
	return nil
}

func (e elsewhere) Open(path string, _ fileset.Was, _ linux.Credentials) (source.File, error) {
	return remote{bytes.NewReader(e[path])}, nil
}

func (e elsewhere) Reader(_ uint32, d disk.Device, name string) *disk.Reader {
	return (&disk.Scheduler{}).Reader(d, disk.Demand, name)
}
func (e elsewhere) Refresh(context.Context) error { return nil }

// remote is a file that is said to be in memory, but nobody else can read in it.
type remote struct{ r *bytes.Reader }

func (f remote) Was() fileset.Was {
	return fileset.Was{Identity: fileset.Identity{Ino: uint64(f.r.Size()), Size: f.r.Size()}}
}

func (f remote) Learn() error { return nil }

func (f remote) ReadFull(p []byte, off int64) error {
	_, err := f.r.ReadAt(p, off)
	return err
}
func (f remote) ReadAhead(off, n int64)                    {}
func (f remote) Resident(r pagecache.Range) (int64, error) { return r.Len, nil }
func (f remote) Watch() (pagecache.Watched, error)         { return nil, errors.ErrUnsupported }
func (f remote) Device() (disk.Device, bool, error)        { return disk.Device{}, false, nil }
func (f remote) Shared() *os.File                          { return nil }
func (f remote) Close() error                              { return nil }

// TestAnotherSource deals files that are not local: blocks, batches and names.
func TestAnotherSource(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	files := elsewhere{"/big": lines(rng, 5<<20, 300), "/small": lines(rng, 1000, 30), "/tiny": lines(rng, 10, 3)}
	p := newPlace(t)
	p.cfg.Source = files
	p.start()
	paths := []string{"/big", "/small", "/tiny"}
	want := bytes.Join([][]byte{files["/big"], files["/small"], files["/tiny"]}, nil)
	if got := joined(p.all(p.open(Spec{Paths: paths, Rule: byLine, Consumers: 3}))); !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, want %d", len(got), len(want))
	}
	if n := p.referred.Load(); n > 0 {
		t.Errorf("%d pieces lie in files that nobody shares", n)
	}
	if _, err := p.e.Open(t.Context(), Spec{Paths: []string{"/none"}, Rule: byLine, Consumers: 1}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
