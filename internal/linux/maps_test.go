package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const someMaps = `00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/dbus-daemon
00651000-00652000 rw-p 00051000 08:02 173521                             /usr/bin/dbus-daemon
00e03000-00e24000 rw-p 00000000 00:00 0                                  [heap]
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
7f0000021000-7f0000022000 ---p 00000000 00:00 0 
7f1000000000-7f1000010000 rw-s 00000000 00:05 99                         /dev/zero (deleted)
7f1000010000-7f1000020000 rw-s 00001000 fe:1 9                           /tmp/with two  spaces\012and a line 
7ffd00000000-7ffd00002000 r--p 00000000 00:00 0                          [vvar]
7ffd00002000-7ffd00003000 r-xp 00000000 00:00 0                          [vdso]
`

func TestParseMaps(t *testing.T) {
	want := []Mapping{
		{Range{0x400000, 0x452000}, "r-xp", 0, "08:02", 173521, "/usr/bin/dbus-daemon"},
		{Range{0x651000, 0x652000}, "rw-p", 0x51000, "08:02", 173521, "/usr/bin/dbus-daemon"},
		{Range{0xe03000, 0xe24000}, "rw-p", 0, "00:00", 0, "[heap]"},
		{Range{0x7f0000000000, 0x7f0000021000}, "rw-p", 0, "00:00", 0, ""},
		{Range{0x7f0000021000, 0x7f0000022000}, "---p", 0, "00:00", 0, ""},
		{Range{0x7f1000000000, 0x7f1000010000}, "rw-s", 0, "00:05", 99, "/dev/zero (deleted)"},
		{Range{0x7f1000010000, 0x7f1000020000}, "rw-s", 0x1000, "fe:1", 9, "/tmp/with two  spaces\nand a line "},
		{Range{0x7ffd00000000, 0x7ffd00002000}, "r--p", 0, "00:00", 0, "[vvar]"},
		{Range{0x7ffd00002000, 0x7ffd00003000}, "r-xp", 0, "00:00", 0, "[vdso]"},
	}
	anonymous, i := []int{1, 2, 3, 4}, 0
	for m, err := range ParseMaps([]byte(someMaps)) {
		if err != nil || m != want[i] || m.anonymous() != slices.Contains(anonymous, i) {
			t.Errorf("%+v, anonymous %v, %v; want %+v", m, m.anonymous(), err, want[i])
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d mappings, want %d", i, len(want))
	}
	for _, bad := range []string{
		"", "x", "1-2 rw-p 0 0:0", "2-1 rw-p 0 0:0 0", "z-1 rw-p 0 0:0 0", "1 rw-p 0 0:0 0", "1-2 rw 0 0:0 0", "1-2 rwxx 0 0:0 0", "1-2 rw-p z 0:0 0",
		"1-2 rw-p 0 0 0", "1-2 rw-p 0 0:0 z", "10000000000000000-2 rw-p 0 0:0 0",
	} {
		good := 0
		var last error
		for _, err := range ParseMaps([]byte(someMaps + bad + "\n" + someMaps)) {
			if last = err; err == nil {
				good++
			}
		}
		if last == nil || good != len(want) {
			t.Errorf("%q: %d mappings, %v", bad, good, last)
		}
	}
}

// TestMaps looks at this process, which has mapped a file.
func TestMaps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a\nfile  of two lines")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, 7, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	var procs ProcFS
	var found []Mapping
	for m, err := range procs.Maps(os.Getpid()) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(m.Path, path) {
			found = append(found, m)
		}
	}
	if len(found) != 1 || !found[0].Shared() || !found[0].Writable() || found[0].anonymous() {
		t.Fatalf("%+v", found)
	}
	if os.Geteuid() == 0 { // others may not look there
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(procs.Mapped(os.Getpid(), found[0])); err != nil || string(text) != "content" {
			t.Errorf("the file that is mapped: %q, %v", text, err)
		}
	}
	for m, err := range procs.Maps(1 << 30) {
		if !Gone(err) {
			t.Errorf("of a process that cannot be: %+v, %v", m, err)
		}
	}
}

// FuzzParseMaps: whatever the text, what is read of it can be written and read again.
func FuzzParseMaps(f *testing.F) {
	f.Add([]byte(someMaps))
	f.Add([]byte("1-2 rw-p 0 0:0 0  a\\012b"))
	f.Add([]byte("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for m, err := range ParseMaps(text) {
			if err != nil {
				continue
			}
			line := fmt.Sprintf("%08x-%08x %s %08x %s %d      %s", m.Start, m.End, m.Rights, m.Offset, m.Dev, m.Inode, strings.ReplaceAll(m.Path, "\n", `\012`))
			again, err := parseMapping(line)
			if err != nil || again != m || m.Len() < 0 && m.End-m.Start < 1<<63 {
				t.Errorf("%+v, written as %q, is %+v, %v", m, line, again, err)
			}
		}
	})
}
