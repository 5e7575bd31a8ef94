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
	image := func(meta string) { writeImage(t, store, meta) }
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

// TestStoreGoesDuringRestore: an image in a store that goes while it is looked at is none that cannot be used, whatever is found in the place of the
// store, and none that was damaged can be told from it.
func TestStoreGoesDuringRestore(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		for _, empty := range []bool{false, true} {
			t.Run(fmt.Sprintf("damaged %v, empty directory %v", damaged, empty), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "store")
				id, err := checkpoint.Mark(dir)
				if err != nil {
					t.Fatal(err)
				}
				store, err := checkpoint.Open(dir, checkpoint.Options{ID: id})
				if err != nil {
					t.Fatal(err)
				}
				writeImage(t, store, fmt.Sprintf(`{"version":%d,"init_pid":2}`, savedVersion))
				manifest := filepath.Join(dir, "t", "000001", "manifest")
				if damaged {
					if err := os.WriteFile(manifest, nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				images, err := store.Images("t")
				if err != nil || len(images) != 1 {
					t.Fatal(images, err)
				}
				if err := os.Rename(dir, dir+".mounted"); err != nil {
					t.Fatal(err)
				}
				if empty {
					if err := os.Mkdir(dir, 0o700); err != nil {
						t.Fatal(err)
					}
				}
				r := restoration{t: &task{stallLimit: time.Minute}, o: proc.RestoreOptions{Store: dir, StoreID: id}}
				if _, err := r.newest(store, images); !errors.Is(err, proc.ErrNotNow) || errors.Is(err, proc.ErrNoImage) {
					t.Error(err)
				}
				if err := errors.Join(os.RemoveAll(dir), os.Rename(dir+".mounted", dir)); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(manifest); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// writeImage commits an image without a page, with what the supervisor knew of its task.
func writeImage(t *testing.T, store *checkpoint.Store, meta string) {
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
