package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLookupStaysOutside asks, as a user and as this process, for files that are
// reached only through the kernel's own, and for what is no file to be read.
func TestLookupStaysOutside(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "lookup")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	closed := filepath.Join(dir, "closed")
	must(os.Mkdir(closed, 0o700))
	must(os.WriteFile(filepath.Join(closed, "file"), []byte("text"), 0o644))
	must(os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o644))
	must(os.Symlink("file", filepath.Join(dir, "link")))
	must(os.Symlink("/proc/self/fd", filepath.Join(dir, "fds")))
	must(os.Symlink("/proc/self", filepath.Join(dir, "self")))
	must(unix.Mkfifo(filepath.Join(dir, "fifo"), 0o666))
	must(os.Chmod(dir, 0o755))
	held, err := os.Open(filepath.Join(closed, "file"))
	must(err)
	defer held.Close()
	heldDir, err := os.Open(closed)
	must(err)
	defer heldDir.Close()

	var kernels = ErrKernelFile
	cases := map[string]error{
		fmt.Sprintf("/proc/self/fd/%d", held.Fd()):            unix.ELOOP,
		fmt.Sprintf("/dev/fd/%d", held.Fd()):                  unix.ELOOP,
		fmt.Sprintf("%s/fds/%d", dir, held.Fd()):              unix.ELOOP,
		fmt.Sprintf("%s/self/fd/%d", dir, held.Fd()):          unix.ELOOP,
		fmt.Sprintf("/proc/self/fd/%d/file", heldDir.Fd()):    unix.ELOOP,
		fmt.Sprintf("/proc/thread-self/fd/%d", held.Fd()):     unix.ELOOP,
		fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), held.Fd()): unix.ELOOP,
		"/proc/self/root" + dir + "/file":                     unix.ELOOP,
		"/proc/self/cwd":                                      unix.ELOOP,
		"/proc/self/exe":                                      unix.ELOOP,
		"/proc/self/maps":                                     kernels,
		"/proc/version":                                       kernels,
		"/proc":                                               kernels,
		"/sys/kernel":                                         kernels,
		dir + "/fds":                                          kernels,
		dir + "/fifo":                                         unix.EINVAL,
		"/dev/null":                                           unix.EINVAL,
		dir:                                                   unix.EINVAL,
		dir + "/none":                                         unix.ENOENT,
		dir + "/file":                                         nil,
		dir + "/link":                                         nil,
	}
	try := func() error {
		for path, want := range cases {
			f, err := OpenRegularFor(path, os.O_RDONLY, 0)
			if err == nil {
				f.Close()
			}
			if !errors.Is(err, want) {
				t.Errorf("user %d opens %s: %v, want %v", unix.Geteuid(), path, err, want)
			}
		}
		for path, want := range map[string]error{dir + "/fds": kernels, "/proc/self/cwd": unix.ELOOP, dir + "/file": unix.ENOTDIR, dir: nil} {
			d, err := OpenDirFor(path)
			if err == nil {
				d.Close()
			}
			if !errors.Is(err, want) {
				t.Errorf("open directory %s: %v, want %v", path, err, want)
			}
		}
		return nil
	}
	must(try())
	if os.Geteuid() != 0 {
		t.Log("not root: tried as this user only")
		return
	}
	must(AsUser(Credentials{UID: 12345, GID: 12345}, func() error {
		if _, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", held.Fd())); err != nil {
			t.Errorf("the kernel itself refuses now what Lookup is there to refuse: %v", err)
		}
		if _, err := OpenRegularFor(closed+"/file", os.O_RDONLY, 0); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a file in a closed directory: %v", err)
		}
		return try()
	}))
	if _, err := OpenRegularFor(dir+"/link", os.O_RDONLY|unix.O_NOFOLLOW, 0); err != unix.EINVAL {
		t.Errorf("a link that is not to be followed: %v", err)
	}
	if _, err := OpenRegularFor(dir+"/link", os.O_RDONLY, unix.RESOLVE_NO_SYMLINKS); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link where none may be: %v", err)
	}
}

// TestOpenDoesNotWaitForLease opens a file on which somebody has a lease: the
// kernel would have the open wait until that is given back, 45 s as a rule.
func TestOpenDoesNotWaitForLease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leased")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("no leases on this file system:", err)
	}
	if _, err := OpenRegularFor(path, os.O_RDONLY, 0); err != unix.EAGAIN {
		t.Errorf("%v, want %v", err, unix.EAGAIN)
	}
}
