package linux

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWritable(t *testing.T) {
	dir := t.TempDir()
	is := func(what string, dir string, want error) {
		t.Helper()
		if err := Writable(dir); !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	is("a directory", dir, nil)
	is("none", filepath.Join(dir, "none"), os.ErrNotExist)
	t.Run("of another user", func(t *testing.T) {
		if os.Geteuid() != 0 {
			is("root's", "/", os.ErrPermission)
			return
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // it ends with the goroutine
			if err := unix.Setfsuid(65534); err != nil {
				t.Error(err)
			}
			got <- Writable(dir)
		}()
		if err := <-got; !errors.Is(err, os.ErrPermission) {
			t.Error(err)
		}
	})
	t.Run("mounted", func(t *testing.T) {
		at := t.TempDir()
		if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=1m"); err != nil {
			t.Skip("a file system of its own needs the right to mount:", err)
		}
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
		for _, q := range []struct {
			what  string
			flags uintptr
			want  error
		}{{"to be read", unix.MS_RDONLY, unix.EROFS}, {"to be written again", 0, nil}} {
			if err := unix.Mount("", at, "", unix.MS_REMOUNT|q.flags, ""); err != nil {
				t.Fatal(err)
			}
			is(q.what, at, q.want)
		}
		f, err := os.Create(filepath.Join(at, "all"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var st unix.Statfs_t
		if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(st.Bavail)*st.Bsize); err != nil {
			t.Fatal(err)
		}
		is("full", at, unix.ENOSPC)
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		is("with room again", at, nil)
	})
}
