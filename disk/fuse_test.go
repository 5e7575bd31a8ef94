package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"headrace/disk"
)

// A FUSE file system has a device of its own, of which nobody sees the requests.
func TestFUSE(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	below, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(below, "file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := fs.NewLoopbackRoot(below)
	if err != nil {
		t.Fatal(err)
	}
	server, err := fs.Mount(dir, root, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true, Name: "disktest", FsName: "below"}})
	if err != nil {
		t.Skipf("no FUSE: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	f, err := os.Open(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var d disk.Devices
	dev := of(t, &d, f)
	want := disk.Device{ID: dev.ID, Name: dev.ID.String(), Mount: dir, FSType: "fuse.disktest", Rotational: true}
	if dev != want {
		t.Errorf("%+v, want %+v", dev, want)
	}
	if on := of(t, &d, open(t, below)); on.ID == dev.ID {
		t.Errorf("the same device as what is below: %+v", on)
	}
	reading, err := newMeter(t, disk.MeterOptions{}).Read()
	if err != nil {
		t.Fatal(err)
	}
	if s, err := reading.Of(dev); !errors.Is(err, disk.ErrNotBlock) {
		t.Errorf("%+v, %v", s, err)
	}
}
