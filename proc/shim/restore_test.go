package shim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/proc"
	"headrace/proc/checkpoint"
)

// TestStoreThatIsReadOnly: a store whose file system has become read-only says nothing of its images. What their own record says does.
func TestStoreThatIsReadOnly(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("store", dir, "tmpfs", 0, "mode=700"); err != nil {
		t.Skip("mount:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	store, err := checkpoint.Open(dir, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	image := func(meta string) {
		t.Helper()
		w, err := store.Begin("t", checkpoint.BeginOptions{Full: true})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		end := make([]byte, 32) // as CRIU ends a dump without a page: PS_IOV_FORCE_CLOSE
		binary.LittleEndian.PutUint32(end, 0x1024)
		if _, err := w.PageSocket().Write(end); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(w.PageSocket(), end[:4]); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.Dir(), "inventory.img"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Commit([]byte(meta)); err != nil {
			t.Fatal(err)
		}
	}
	restore := func() error {
		t.Helper()
		images, err := store.Images("t")
		if err != nil || len(images) == 0 {
			t.Fatal(images, err)
		}
		r := restoration{t: &task{stallLimit: time.Minute}, o: proc.RestoreOptions{Store: dir}}
		_, err = r.newest(store, images)
		return err
	}
	image(fmt.Sprintf(`{"version":%d}`, savedVersion+1))
	if err := restore(); !errors.Is(err, proc.ErrNotNow) || !errors.Is(err, checkpoint.ErrVersion) {
		t.Errorf("a record of a newer version: %v", err)
	}
	newer, err := store.Images("t")
	if err == nil {
		err = os.WriteFile(filepath.Join(newer[0].Dir, "manifest"), []byte("headrace-checkpoint 999 0123\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := restore(); !errors.Is(err, proc.ErrNotNow) || !errors.Is(err, checkpoint.ErrVersion) {
		t.Errorf("images of a newer version: %v", err)
	}
	image(fmt.Sprintf(`{"version":%d,"init_pid":2}`, savedVersion))
	if err := os.Remove(filepath.Join(dir, "t", "lock")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if err := restore(); !errors.Is(err, proc.ErrNotNow) {
		t.Errorf("a store that is read-only: %v", err)
	}
}
