package vfs

import (
	"errors"
	"io"
	"os"
)

// ErrLocked: somebody else has the lock.
var ErrLocked = errors.New("locked by another")

// FS is a file system. Names are paths. Methods may be called from any goroutine.
type FS interface {
	// Open opens a regular file: flags are those of package os, of which O_RDWR,
	// O_CREATE, O_EXCL and O_TRUNC count.
	Open(name string, flags int) (File, error)
	// MkdirAll makes a directory and those above it. That they are there is not durable
	// before SyncDir of the directory above each.
	MkdirAll(name string) error
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// Rename gives a file another name in the same directory, atomically.
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Space returns how many bytes are free, and how many there are.
	Space(dir string) (free, total int64, err error)
	// Lock takes a lock that ends when it is closed, or with the process.
	Lock(name string) (io.Closer, error)
}

// File is an open file. Methods may be called from any goroutine.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	// Sync makes content and length durable.
	Sync() error
	Truncate(size int64) error
	// Allocate reserves room, and the file is then at least that long. It is no error
	// where a file system cannot reserve: a write may then find no room.
	Allocate(off, n int64) error
	// Punch gives room back: the range reads as zeros, the length stays. It is no error
	// where a file system cannot: the range then keeps its bytes.
	Punch(off, n int64) error
	// Writeback begins to write a range to the device, or waits until it has it, and promises nothing.
	Writeback(off, n int64, wait bool)
	// Prefetch begins to read a range into memory, and promises nothing.
	Prefetch(off, n int64)
	// OS returns the real file, or nil.
	OS() *os.File
}
