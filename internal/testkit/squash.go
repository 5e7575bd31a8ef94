package testkit

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// SquashedFile mounts a file system with one empty file, which every user may read and write. From squash on its server does not let
// root open it, as with NFS and root_squash. Where that cannot be done the test is skipped.
func SquashedFile(t testing.TB) (path string, squash func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a file system whose server refuses root needs the right to mount: run it as root")
	}
	dir := OpenDir(t)
	f := &squashed{}
	f.Attr = fuse.Attr{Mode: 0o666, Nlink: 1}
	root := &fs.Inode{}
	o := &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true, AllowOther: true, Name: "squash", FsName: "squash"}}
	o.OnAdd = func(ctx context.Context) {
		root.AddChild("file", root.NewPersistentInode(ctx, f, fs.StableAttr{Ino: 2}), false)
	}
	server, err := fs.Mount(dir, root, o)
	if err != nil {
		t.Skip("a file system whose server refuses root needs FUSE:", err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "file"), func() { f.squash.Store(true) }
}

type squashed struct {
	fs.MemRegularFile
	squash atomic.Bool
}

func (s *squashed) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if who, ok := fuse.FromContext(ctx); s.squash.Load() && (!ok || who.Uid == 0) {
		return nil, 0, syscall.EACCES
	}
	return s.MemRegularFile.Open(ctx, flags)
}

func (s *squashed) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return 0 }
