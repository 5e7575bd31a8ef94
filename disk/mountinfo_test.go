package disk

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func number(major, minor uint32) ID { return ID(unix.Mkdev(major, minor)) }

func TestParseMounts(t *testing.T) {
	got := parseMounts(`22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 propagate_from:3 - ext4 /dev/vda rw,discard
40 27 8:17 /sub\040dir /a\011b\012c\134d\043e rw - fuse.sshfs me@host:/x\040y rw,user_id=0
41 27 259:1048575 / /nonbreaking` + "\u00a0" + `blank rw - xfs /dev/nvme0n1p1 rw
42 27 0:50 / /nothing rw - tmpfs  rw
43 27 0:51 / /short rw - tmpfs
44 27 0:52 / /dash rw tmpfs none rw
45 27 0:x / /number rw - tmpfs none rw
-1 27 0:53 / /id rw - tmpfs none rw
46 27 99999999999:0 / /large rw - tmpfs none rw

47 27 0:54 / /odd\9\08\777\1 rw - tmpfs none rw`)
	want := []mount{
		{22, number(0, 21), "/", "/proc", "proc", "proc"},
		{27, number(254, 0), "/", "/", "ext4", "/dev/vda"},
		{40, number(8, 17), "/sub dir", "/a\tb\nc\\d#e", "fuse.sshfs", "me@host:/x y"},
		{41, number(259, 1048575), "/", "/nonbreaking\u00a0blank", "xfs", "/dev/nvme0n1p1"},
		{42, number(0, 50), "/", "/nothing", "tmpfs", ""},
		{47, number(0, 54), "/", `/odd\9\08\777\1`, "tmpfs", "none"},
	}
	if len(got) != len(want) {
		t.Errorf("%d mounts, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

func TestMountOf(t *testing.T) {
	a, b := number(8, 1), number(8, 2)
	all := []mount{
		{id: 1, dev: a, root: "/", point: "/"},
		{id: 2, dev: b, root: "/", point: "/old"},
		{id: 3, dev: b, root: "/", point: "/data"},
		{id: 4, dev: b, root: "/part", point: "/bind"},
		{id: 5, dev: a, root: "/part", point: "/bind2"},
	}
	for _, c := range []struct {
		id    int
		dev   ID
		point string
		exact bool
	}{
		{4, b, "/bind", true},
		{5, number(0, 99), "/bind2", true}, // the number of a btrfs volume, say
		{0, b, "/data", false},
		{77, a, "/", false},
	} {
		m, exact, ok := mountOf(all, c.id, c.dev)
		if !ok || m.point != c.point || exact != c.exact {
			t.Errorf("mount %d or device %v: %+v, %v, %v", c.id, c.dev, m, exact, ok)
		}
	}
	if m, _, ok := mountOf(all, 0, number(8, 3)); ok {
		t.Errorf("a device that is not mounted: %+v", m)
	}
}

func TestOwnMounts(t *testing.T) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	got := parseMounts(string(text))
	if want := strings.Count(string(text), "\n"); len(got) != want {
		t.Errorf("%d mounts of %d were understood", len(got), want)
	}
	var st unix.Stat_t
	if err := unix.Stat("/", &st); err != nil {
		t.Fatal(err)
	}
	if m, _, ok := mountOf(got, 0, ID(st.Dev)); !ok || m.fsType == "" {
		t.Errorf("no mount of the root's device %v: %+v", ID(st.Dev), m)
	}
}

// What was found by an old mount table is not remembered with a new one.
func TestRememberedWithItsTable(t *testing.T) {
	var d Devices
	_, _, changes := d.lookup(7)
	d.remember(7, Device{Name: "new"}, changes)
	d.remember(7, Device{Name: "old"}, changes-1)
	if got := d.found[7]; got.Name != "new" {
		t.Errorf("%+v", got)
	}
	var st unix.Stat_t
	if err := unix.Stat("/", &st); err != nil {
		t.Fatal(err)
	}
	const unknown = 1 << 30
	d.at(ID(st.Dev), unknown)
	if got, ok := d.found[unknown]; ok {
		t.Errorf("remembered without its mount: %+v", got)
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add("27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n")
	f.Add(`40 27 8:17 /sub\040dir /a\011b\012c\134d\043e rw - fuse x rw`)
	f.Add("1 2 3:4 / /\\0 - - - -")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		all := parseMounts(text)
		if len(all) > lines {
			t.Fatalf("%d mounts in %d lines", len(all), lines)
		}
		for _, m := range all {
			if again, ok := parseNumber(m.dev.String()); !ok || again != m.dev {
				t.Errorf("%v becomes %v", m.dev, again)
			}
			// Written as the kernel writes it, it is read back.
			line := "1 2 " + m.dev.String() + " " + escape(m.root) + " " + escape(m.point) + " rw - " + escape(m.fsType) + " " + escape(m.source) + " rw\n"
			m.id = 1
			if back, ok := parseMount(line); !ok || back != m {
				t.Errorf("%q: %+v became %+v", line, m, back)
			}
		}
	})
}

func escape(s string) string {
	return strings.NewReplacer("\\", `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`, "#", `\043`).Replace(s)
}
