package linux

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDescriptors(t *testing.T) {
	in, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(in)
	f, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var procs ProcFS
	list, err := procs.Descriptors(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	find := func(fd int) Descriptor {
		i := slices.IndexFunc(list, func(d Descriptor) bool { return d.FD == fd })
		if i < 0 {
			t.Fatalf("descriptor %d is not in %v", fd, list)
		}
		return list[i]
	}
	if d := find(in); !d.Is("inotify") || d.Is("fanotify") {
		t.Errorf("an inotify descriptor is %+v", d)
	}
	d := find(int(f.Fd()))
	if d.Target != f.Name() || d.Is("file") {
		t.Errorf("a file is %+v", d)
	}
	fields, err := procs.FDInfo(d)
	if err != nil || fields["pos"] != "0" || fields["flags"] == "" {
		t.Errorf("what is known of it: %v, %v", fields, err)
	}
	fd, err := d.Duplicate()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("abc")); err != nil {
		t.Fatal(err)
	}
	if fields, _ := procs.FDInfo(d); fields["pos"] != "3" {
		t.Errorf("after writing through the duplicate: %v, want the same open file", fields)
	}
	if _, err := procs.Descriptors(1 << 30); !Gone(err) {
		t.Errorf("descriptors of no process: %v", err)
	}
}
