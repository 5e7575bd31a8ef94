package disk

import (
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

func number(major, minor uint32) ID { return ID(unix.Mkdev(major, minor)) }

func TestMountOf(t *testing.T) {
	a, b := number(8, 1), number(8, 2)
	all := []linux.Mount{
		{ID: 1, Dev: uint64(a), Root: "/", Point: "/"},
		{ID: 2, Dev: uint64(b), Root: "/", Point: "/old"},
		{ID: 3, Dev: uint64(b), Root: "/", Point: "/data"},
		{ID: 4, Dev: uint64(b), Root: "/part", Point: "/bind"},
		{ID: 5, Dev: uint64(a), Root: "/part", Point: "/bind2"},
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
		if !ok || m.Point != c.point || exact != c.exact {
			t.Errorf("mount %d or device %v: %+v, %v, %v", c.id, c.dev, m, exact, ok)
		}
	}
	if m, _, ok := mountOf(all, 0, number(8, 3)); ok {
		t.Errorf("a device that is not mounted: %+v", m)
	}
	own, err := linux.ProcFS("").Mounts("self")
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat("/", &st); err != nil {
		t.Fatal(err)
	}
	if m, _, ok := mountOf(own, 0, ID(st.Dev)); !ok || m.Type == "" {
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
