package disktest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/testkit"
)

// Loop attaches image, a file, to a loop device and returns its node, open for
// reading and writing. Partitions of the image get devices too. The kernel
// detaches it when the last user is gone, also if the test is killed. Where that
// cannot be had the test is skipped.
func Loop(t testing.TB, image string) *os.File {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loop devices need root")
	}
	node, err := attach(image)
	if err != nil {
		t.Skipf("no loop device: %v", err)
	}
	t.Cleanup(func() { node.Close() })
	return node
}

func attach(image string) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	file, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for range 16 { // others may take the free one first
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, os.NewSyscallError("LOOP_CTL_GET_FREE", err)
		}
		node, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(file.Fd())}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_PARTSCAN
		copy(config.Info.File_name[:len(config.Info.File_name)-1], image)
		err = unix.IoctlLoopConfigure(int(node.Fd()), &config)
		if err == nil {
			return node, nil
		}
		node.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, os.NewSyscallError("LOOP_CONFIGURE", err)
		}
	}
	return nil, errors.New("every free one was taken by others")
}

// Image makes a sparse file of the given size in dir.
func Image(t testing.TB, dir string, bytes int64) string {
	t.Helper()
	path := filepath.Join(dir, "image")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(bytes), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// Ext4 makes an ext4 file system of the given size on a loop device of its own
// and returns where it is mounted, and the device's node. Where that cannot be had
// the test is skipped.
func Ext4(t testing.TB, bytes int64) (dir string, node *os.File) {
	t.Helper()
	image := Image(t, t.TempDir(), bytes)
	mkfs := exec.Command("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=0", image)
	mkfs.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if out, err := mkfs.CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4: %v: %s", err, out)
	}
	node = Loop(t, image)
	return Mount(t, node.Name(), "ext4", ""), node
}

// Mount mounts a file system on a directory of its own until the test has ended,
// or skips the test if that is not allowed.
func Mount(t testing.TB, source, fsType, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount(source, dir, fsType, 0, options); err != nil {
		t.Skipf("mount %s: %v", fsType, err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) }) // if it is still there
	t.Cleanup(func() {
		testkit.Await(t, "the end of all that looks into "+dir, func() bool { // others of this machine may look at whatever is mounted
			err := unix.Unmount(dir, 0)
			if err != nil && err != unix.EBUSY && err != unix.EINVAL {
				t.Errorf("unmount %s: %v", dir, err)
			}
			return err != unix.EBUSY
		})
	})
	return dir
}
