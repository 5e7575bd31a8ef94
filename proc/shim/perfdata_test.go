package shim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

func TestIsPerfData(t *testing.T) {
	const maps = `00000000-00008000 rw-s 00000000 fe:01 1234567                    /tmp/hsperfdata_yarn/448700
7f0000010000-7f0000018000 rw-s 00000000 fe:01 1234568                    /tmp/hsperfdata_yarn/448701 (deleted)
7f0000020000-7f0000028000 r--s 00000000 fe:01 1234569                    /tmp/hsperfdata_yarn/448702
7f0000030000-7f0000038000 rw-s 00000000 fe:01 1234570                    /var/tmp/hsperfdata_yarn/448703
7f0000040000-7f0000048000 rw-s 00000000 fe:01 1234571                    /tmp/hsperfdata_yarn/../../etc/9
7f0000048000-7f0000050000 rw-s 00000000 fe:01 1234572                    /tmp/hsperfdata_a\012b/448704
7f0000050000-7f0000058000 rw-p 00000000 00:00 0
`
	var found []string
	for m, err := range linux.ParseMaps([]byte(maps)) {
		if err != nil {
			t.Fatal(err)
		}
		if isPerfData(m) {
			found = append(found, m.Path)
		}
	}
	if !slices.Equal(found, []string{"/tmp/hsperfdata_yarn/448700"}) {
		t.Errorf("%q", found)
	}
}

func TestPerfData(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may look at what a process has mapped")
	}
	dir, err := os.MkdirTemp("/tmp", "hsperfdata_test")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	const uid = 12345
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "4711")
	cmd := exec.Command("python3", "-c", `
import mmap, sys
f = open(sys.argv[1], "w+b"); f.write(b"x" * 32768); f.flush()
m = mmap.mmap(f.fileno(), 32768); f.close(); m[0:5] = b"count"
print("ready", flush=True); sys.stdin.read()`, path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = fmt.Fscanln(out, new(string))
	}
	if err == nil {
		err = os.Chown(path, uid, uid)
	}
	if err != nil {
		t.Fatal(err)
	}
	tree := []linux.Stat{{PID: cmd.Process.Pid}}
	list, err := perfDataOf(tree)
	if err != nil || len(list) != 1 || list[0].Path != path || len(list[0].Content) != 32768 || list[0].UID != uid {
		t.Fatalf("%d files, %v", len(list), err)
	}
	if err := putBack(list, proc.Spec{}); err != nil {
		t.Errorf("put back what is there: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if len(missing(list)) != 1 {
		t.Error("a removed file is not missed")
	}
	if gone, err := perfDataOf(tree); err != nil || len(gone) != 0 {
		t.Errorf("of a removed file: %d, %v", len(gone), err)
	}
	if err := putBack(list, proc.Spec{}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	var st unix.Stat_t
	if err == nil {
		err = unix.Stat(path, &st)
	}
	if err != nil || string(b[:6]) != "countx" || st.Uid != uid || st.Mode&0o777 != 0o600 {
		t.Errorf("%.10q of %d, mode %o, %v", b, st.Uid, st.Mode, err)
	}

	// A file of root's that the user has given a second name there.
	list[0].UID, list[0].GID = 0, 0
	user := proc.Spec{UID: uid, GID: uid}
	os.Remove(path)
	if err := putBack(list, user); err != nil {
		t.Fatal(err)
	}
	if err := unix.Stat(path, &st); err != nil || st.Uid != uid || st.Gid != uid {
		t.Errorf("for user %d it made a file of user %d, group %d, %v", uid, st.Uid, st.Gid, err)
	}
	os.Remove(path)
	os.Chown(dir, 0, 0)
	if err := putBack(list, user); !errors.Is(err, os.ErrPermission) {
		t.Errorf("for user %d it wrote to a directory of root's: %v", uid, err)
	}
	list[0].UID, list[0].GID = uid, uid

	// The directory is its owner's to turn into something else.
	os.RemoveAll(dir)
	victim := t.TempDir()
	if err := os.Symlink(victim, dir); err != nil {
		t.Fatal(err)
	}
	if err := putBack(list, proc.Spec{}); err == nil {
		t.Error("followed a symbolic link")
	}
	os.Remove(dir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := putBack(list, proc.Spec{}); err == nil {
		t.Error("wrote to a directory of somebody else")
	}
	list[0].Path = filepath.Join(victim, "4711")
	if err := putBack(list, proc.Spec{}); err == nil {
		t.Error("wrote a file elsewhere")
	}
}

// What a user maps where counters of JVMs would be does not fill the memory of the
// supervisor.
func TestPerfDataIsBounded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may look at what a process has mapped")
	}
	dir, err := os.MkdirTemp("/tmp", "hsperfdata_test")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	mapped := func(number, size, times int) {
		t.Helper()
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(number)))
		if err == nil {
			defer f.Close()
			err = f.Truncate(int64(size))
		}
		for range times {
			var b []byte
			if err == nil {
				b, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Munmap(b) })
		}
	}
	tree := []linux.Stat{{PID: os.Getpid()}}
	mapped(1, maxPerfData, 100)
	mapped(2, maxPerfData+4096, 1)
	if list, err := perfDataOf(tree); err != nil || len(list) != 1 || len(list[0].Content) != maxPerfData {
		t.Fatalf("of one file that is mapped often, and one that is too large: %d, %v", len(list), err)
	}
	for i := range maxAllPerfData / maxPerfData {
		mapped(3+i, maxPerfData, 1)
	}
	if list, err := perfDataOf(tree); !errors.Is(err, proc.ErrNotCheckpointable) {
		t.Errorf("of too many: %d, %v", len(list), err)
	}
}
