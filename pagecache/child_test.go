package pagecache

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// What needs a process of its own is this test binary once more, with one of
// these in place of the tests.
var children = map[string]func(dir string) error{
	"user": asUser, "cgroup": inCgroup, "reader": readAsOther,
	"fuse":      func(dir string) error { return serveFUSE(dir, false) },
	"fuse-pass": func(dir string) error { return serveFUSE(dir, true) },
}

const childVar, childDir = "PAGECACHE_TEST_CHILD", "PAGECACHE_TEST_DIR"

func TestMain(m *testing.M) {
	if child := children[os.Getenv(childVar)]; child != nil {
		if err := child(os.Getenv(childDir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(name, dir string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childVar+"="+name, childDir+"="+dir, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// runChild runs one to its end.
func runChild(t *testing.T, name, dir string, attr *syscall.SysProcAttr) {
	t.Helper()
	cmd := child(name, dir)
	cmd.SysProcAttr = attr
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// fuseDir returns a file system in user space with its files on the disk. It is served
// by another process: one that maps its own files can wait for itself for ever.
func fuseDir(t testing.TB, kind string) string {
	t.Helper()
	seen, _ := startFUSE(t, kind)
	return seen
}

// startFUSE does as fuseDir, and returns the process that serves.
func startFUSE(t testing.TB, kind string) (seen string, server *os.Process) {
	t.Helper()
	dir := diskDir(t)
	seen = filepath.Join(dir, "seen")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "disk"), 0o700), os.Mkdir(seen, 0o700)); err != nil {
		t.Fatal(err)
	}
	cmd := child(kind, dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // it unmounts and ends
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Skipf("FUSE cannot be mounted: %s%v", line, err)
	}
	return seen, cmd.Process
}

// serveFUSE serves until its standard input ends, as it does when the test dies.
// pass leaves reading and writing to the kernel, where that can.
func serveFUSE(dir string, pass bool) error {
	embedder, err := fs.NewLoopbackRoot(filepath.Join(dir, "disk"))
	if err != nil {
		return err
	}
	if !pass {
		embedder = &plainNode{embedder.(*fs.LoopbackNode)}
	}
	server, err := fs.Mount(filepath.Join(dir, "seen"), embedder, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}})
	if err != nil {
		fmt.Println(err)
		return nil
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	if err := unix.Unmount(filepath.Join(dir, "seen"), unix.MNT_DETACH); err != nil {
		return err
	}
	server.Wait()
	return nil
}

// plainNode reads and writes itself.
type plainNode struct{ *fs.LoopbackNode }

func (n *plainNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &plainNode{child.(*fs.LoopbackNode)}
}

type plainFile struct{ *fs.LoopbackFile }

func (plainFile) PassthroughFd() (int, bool) { return 0, false }

func (n *plainNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	f, _, errno := n.LoopbackNode.Open(ctx, flags)
	if errno != 0 {
		return nil, 0, errno
	}
	return plainFile{f.(*fs.LoopbackFile)}, fuse.FOPEN_KEEP_CACHE, 0
}

func (n *plainNode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, f, _, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return inode, plainFile{f.(*fs.LoopbackFile)}, fuse.FOPEN_KEEP_CACHE, 0
}
