package testkit

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// SilentFS mounts a file system that does not answer until fail is called, which makes it a failed one. Where that cannot be
// done the test is skipped.
func SilentFS(t testing.TB, dir string) (fail func()) {
	t.Helper()
	fuse := os.NewFile(uintptr(mountFUSE(t, "silent", dir)), "/dev/fuse")
	t.Cleanup(func() {
		fuse.Close()
		unix.Unmount(dir, unix.MNT_DETACH)
	})
	return func() { fuse.Close() }
}

// mountFUSE mounts a file system of a name and returns the descriptor, the caller's, by which its requests come. Where that cannot be done
// the test is skipped.
func mountFUSE(t testing.TB, name, dir string) (fuse int) {
	t.Helper()
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("a file system that does not answer needs FUSE:", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse)
	if err := unix.Mount(name, dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		unix.Close(fuse)
		t.Skip("a file system that does not answer needs the right to mount:", err)
	}
	return fuse
}

// LostFS mounts a file system that takes requests in and answers none, like a disk that has gone: whoever asks it for something waits in
// uninterruptible sleep, which SIGKILL does not end, until fail is called. asked is closed when somebody does. Where that cannot be done the
// test is skipped.
func LostFS(t testing.TB, dir string) (asked <-chan struct{}, fail func()) {
	t.Helper()
	fuse := mountFUSE(t, "lost", dir)
	fail = func() { unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH) }
	t.Cleanup(fail)
	taken := make(chan struct{})
	request := make([]byte, 1<<20)
	if err := beginFUSE(fuse, request); err != nil {
		fail()
		unix.Close(fuse)
		t.Fatal("FUSE:", err)
	}
	go func() {
		defer unix.Close(fuse)
		for n := 0; ; n++ {
			if _, err := unix.Read(fuse, request); err != nil { // it has failed
				return
			}
			if n == 0 {
				close(taken)
			}
		}
	}()
	return taken, fail
}

// beginFUSE answers the first request, without which the kernel asks for nothing more (struct fuse_init_out of linux/fuse.h).
func beginFUSE(fuse int, request []byte) error {
	if _, err := unix.Read(fuse, request); err != nil {
		return err
	}
	const size, major, minor, maxWrite = 16 + 64, 7, 31, 4096
	unique := binary.NativeEndian.Uint64(request[8:])
	answer := binary.NativeEndian.AppendUint64(nil, size) // and no error
	answer = binary.NativeEndian.AppendUint64(answer, unique)
	answer = binary.NativeEndian.AppendUint32(answer, major)
	answer = binary.NativeEndian.AppendUint32(answer, minor)
	answer = append(answer, make([]byte, 12)...) // no flags
	answer = binary.NativeEndian.AppendUint32(answer, maxWrite)
	_, err := unix.Write(fuse, append(answer, make([]byte, size-len(answer))...))
	return err
}
