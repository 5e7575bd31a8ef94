package slowdisk

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A node is a name of the file system below. Everything but the contents of files
// passes through.
type node struct {
	*fs.LoopbackNode
	line *line
}

// WrapChild makes what is found below a node one too.
func (n *node) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{LoopbackNode: ops.(*fs.LoopbackNode), line: n.line}
}

// Open opens the file below.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, _, errno := n.LoopbackNode.Open(ctx, flags&^unix.O_DIRECT)
	if errno != 0 {
		return nil, 0, errno
	}
	f, errno := n.file(h)
	return f, fuse.FOPEN_KEEP_CACHE, errno
}

// Create makes one.
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, h, _, errno := n.LoopbackNode.Create(ctx, name, flags&^unix.O_DIRECT, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	f, errno := n.file(h)
	return inode, f, fuse.FOPEN_KEEP_CACHE, errno
}

// CopyFileRange refuses: the kernel then reads and writes, which takes model
// time.
func (n *node) CopyFileRange(context.Context, fs.FileHandle, uint64, *fs.Inode, fs.FileHandle, uint64, uint64, uint64) (uint32, syscall.Errno) {
	return 0, syscall.ENOSYS
}

// A file is an open one. buffered is a descriptor for reading through the page
// cache below, direct one past it; -1: not to be had.
type file struct {
	*fs.LoopbackFile
	line     *line
	inode    uint64
	buffered int
	direct   int

	refused sync.Once // O_DIRECT
	wrote   atomic.Bool
}

// file takes over an open file below.
func (n *node) file(h fs.FileHandle) (fs.FileHandle, syscall.Errno) {
	f := &file{LoopbackFile: h.(*fs.LoopbackFile), line: n.line, buffered: -1, direct: -1}
	fd, _ := f.LoopbackFile.PassthroughFd()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		f.LoopbackFile.Release(context.Background())
		return nil, fs.ToErrno(err)
	}
	f.inode = st.Ino
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return f, 0
	}
	// The descriptors of our own can read what the caller may only write.
	again := "/proc/self/fd/" + strconv.Itoa(fd)
	var err error
	if f.buffered, err = unix.Open(again, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		f.LoopbackFile.Release(context.Background())
		return nil, fs.ToErrno(err)
	}
	if f.direct, err = unix.Open(again, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_DIRECT, 0); err != nil {
		f.direct = -1
		f.refuse()
	}
	return f, 0
}

// refuse notes that the file cannot be read with O_DIRECT.
func (f *file) refuse() { f.refused.Do(func() { f.line.board.words.buffered.Add(1) }) }

// PassthroughFd keeps the kernel from reading past us.
func (f *file) PassthroughFd() (int, bool) { return 0, false }

// Read takes as long as the head is busy and what waits before it.
func (f *file) Read(_ context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	var st unix.Stat_t
	if err := unix.Fstat(f.buffered, &st); err != nil {
		return nil, fs.ToErrno(err)
	}
	dest = dest[:max(0, min(int64(len(dest)), st.Size-off))]
	if len(dest) == 0 {
		return fuse.ReadResultData(nil), 0
	}
	if f.line.head.model.WriteBack && f.hole(off, int64(len(dest))) {
		clear(dest)
		return fuse.ReadResultData(dest), 0
	}
	// While the head is on its way, the data are fetched.
	done := f.line.begin(f.inode, off, int64(len(dest)), false)
	n, err := f.fetch(dest, off)
	<-done
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	return fuse.ReadResultData(dest[:n]), 0
}

// hole reports whether nothing was ever written there. The page cache asks for that where a part of
// a page is written; a file system that lies on the disk itself knows it, and asks no disk.
func (f *file) hole(off, length int64) bool {
	data, err := unix.Seek(f.buffered, off, unix.SEEK_DATA)
	return errors.Is(err, unix.ENXIO) || err == nil && data >= off+length
}

// Write likewise.
func (f *file) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	if len(data) == 0 {
		return 0, 0
	}
	f.wrote.Store(true)
	done := f.line.begin(f.inode, off, int64(len(data)), true)
	n, errno := f.LoopbackFile.Write(ctx, data, off)
	<-done
	return n, errno
}

// Fsync leaves nothing of the file in the page cache below.
func (f *file) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	errno := f.LoopbackFile.Fsync(ctx, flags)
	f.dropBelow(0, 0)
	return errno
}

// Release closes the file.
func (f *file) Release(ctx context.Context) syscall.Errno {
	if f.wrote.Load() {
		// What is not on the disk yet is written out, without waiting for it.
		unix.SyncFileRange(f.buffered, 0, 0, unix.SYNC_FILE_RANGE_WRITE)
		f.dropBelow(0, 0)
	}
	for _, fd := range []int{f.buffered, f.direct} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	return f.LoopbackFile.Release(ctx)
}

// dropBelow takes pages out of the page cache of the directory below; a length of
// 0 means all. What cannot be dropped only uses memory.
func (f *file) dropBelow(off, length int64) {
	if f.buffered >= 0 {
		unix.Fadvise(f.buffered, off, length, unix.FADV_DONTNEED)
	}
}

// fetch reads from below, past the page cache if that can be.
func (f *file) fetch(dest []byte, off int64) (int, error) {
	if f.direct >= 0 {
		n, err := readDirect(f.direct, dest, off)
		if !errors.Is(err, unix.EINVAL) {
			return n, err
		}
		f.refuse()
	}
	n, err := readFull(f.buffered, dest, off)
	f.dropBelow(off, int64(len(dest)))
	return n, err
}

// readDirect reads with a descriptor of O_DIRECT, which wants whole blocks in
// memory that is aligned like them. Pages are enough for every file system that
// has block devices of up to 4 KiB.
func readDirect(fd int, dest []byte, off int64) (int, error) {
	if off%page == 0 && len(dest)%page == 0 && aligned(dest) {
		return readFull(fd, dest, off)
	}
	from := off &^ (page - 1)
	size := (off+int64(len(dest))+page-1)&^(page-1) - from
	buf := blocks.Get().(*[]byte)
	defer blocks.Put(buf)
	n, err := readFull(fd, (*buf)[:size], from)
	if skip := int(off - from); err == nil && n > skip {
		return copy(dest, (*buf)[skip:n]), nil
	}
	return 0, err
}

func aligned(b []byte) bool { return uintptr(unsafe.Pointer(&b[0]))%page == 0 }

// blocks has aligned buffers for a request that begins anywhere in a page.
var blocks = sync.Pool{New: func() any {
	b := make([]byte, maxRequest+3*page)
	skip := -uintptr(unsafe.Pointer(&b[0])) % page
	b = b[skip : skip+maxRequest+2*page]
	return &b
}}

// readFull reads until dest is full or the file has ended.
func readFull(fd int, dest []byte, off int64) (int, error) {
	n := 0
	for n < len(dest) {
		got, err := unix.Pread(fd, dest[n:], off+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return n, err
		case got == 0:
			return n, nil
		}
		n += got
		if got%page != 0 {
			return n, nil // O_DIRECT: the end of the file
		}
	}
	return n, nil
}
