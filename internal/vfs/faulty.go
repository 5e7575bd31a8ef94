package vfs

import "io"

// Op is one operation that is about to happen to a file.
type Op struct {
	// Kind is the method in lower case: "open", "read", "write", "sync", "truncate",
	// "allocate", "punch", "rename", "remove", "mkdir", "list", "syncdir" or "space".
	Kind, Name string
	Off, Len   int64
}

// Grows reports whether a write goes beyond the end of its file: what is there already needs no room.
func (op Op) Grows(fs FS) bool {
	f, err := fs.Open(op.Name, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	size, err := f.Size()
	return err == nil && op.Off+op.Len > size
}

// Short is a write that fails after some of its bytes, as on a disk that has become full.
type Short struct {
	N   int
	Err error
}

func (s *Short) Error() string { return s.Err.Error() }
func (s *Short) Unwrap() error { return s.Err }

// Faulty is FS, but before every operation it asks Fail, whose error is then that of the
// operation, and nothing has happened (but see Short). Fail may block, too: a disk that
// hangs.
type Faulty struct {
	FS
	Fail func(Op) error
}

func (f *Faulty) Open(name string, flags int) (File, error) {
	if err := f.Fail(Op{Kind: "open", Name: name}); err != nil {
		return nil, err
	}
	g, err := f.FS.Open(name, flags)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: g, fs: f, name: name}, nil
}

func (f *Faulty) MkdirAll(name string) error {
	if err := f.Fail(Op{Kind: "mkdir", Name: name}); err != nil {
		return err
	}
	return f.FS.MkdirAll(name)
}

func (f *Faulty) List(dir string) ([]string, error) {
	if err := f.Fail(Op{Kind: "list", Name: dir}); err != nil {
		return nil, err
	}
	return f.FS.List(dir)
}

func (f *Faulty) Rename(from, to string) error {
	if err := f.Fail(Op{Kind: "rename", Name: to}); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

func (f *Faulty) Remove(name string) error {
	if err := f.Fail(Op{Kind: "remove", Name: name}); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

func (f *Faulty) SyncDir(dir string) error {
	if err := f.Fail(Op{Kind: "syncdir", Name: dir}); err != nil {
		return err
	}
	return f.FS.SyncDir(dir)
}

func (f *Faulty) Space(dir string) (free, total int64, err error) {
	if err := f.Fail(Op{Kind: "space", Name: dir}); err != nil {
		return 0, 0, err
	}
	return f.FS.Space(dir)
}

func (f *Faulty) Lock(name string) (io.Closer, error) { return f.FS.Lock(name) }

type faultyFile struct {
	File
	fs   *Faulty
	name string
}

func (f *faultyFile) fail(kind string, off, n int64) error {
	return f.fs.Fail(Op{Kind: kind, Name: f.name, Off: off, Len: n})
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fail("read", off, int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.fail("write", off, int64(len(p)))
	if s, ok := err.(*Short); ok {
		if n, err := f.File.WriteAt(p[:min(s.N, len(p))], off); err != nil {
			return n, err
		}
		return min(s.N, len(p)), s
	}
	if err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *faultyFile) Sync() error {
	if err := f.fail("sync", 0, 0); err != nil {
		return err
	}
	return f.File.Sync()
}

// Writeback tells of what is waited for. An error is of no consequence.
func (f *faultyFile) Writeback(off, n int64, wait bool) {
	if !wait || f.fail("writeout", off, n) == nil {
		f.File.Writeback(off, n, wait)
	}
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.fail("truncate", size, 0); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultyFile) Allocate(off, n int64) error {
	if err := f.fail("allocate", off, n); err != nil {
		return err
	}
	return f.File.Allocate(off, n)
}

func (f *faultyFile) Punch(off, n int64) error {
	if err := f.fail("punch", off, n); err != nil {
		return err
	}
	return f.File.Punch(off, n)
}
