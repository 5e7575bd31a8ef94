package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"headrace/disk"
	"headrace/disk/disktest"
	"headrace/internal/linux"
	"headrace/internal/testkit"
)

func newMeter(t *testing.T, o disk.MeterOptions) *disk.Meter {
	t.Helper()
	m, err := disk.NewMeter(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// meters calls test with a meter of each kind that this machine has.
func meters(t *testing.T, test func(t *testing.T, m *disk.Meter, seeks bool)) {
	for _, method := range []disk.Method{disk.BPF, disk.Diskstats} {
		t.Run(string(method), func(t *testing.T) {
			m := newMeter(t, disk.MeterOptions{NoBPF: method == disk.Diskstats})
			got, why := m.Method()
			if got != method {
				t.Skip(why)
			}
			if (why == "") != (method == disk.BPF) {
				t.Errorf("%s, because of %q", got, why)
			}
			test(t, m, method == disk.BPF)
		})
	}
}

func sample(t *testing.T, m *disk.Meter, d disk.Device) disk.Sample {
	t.Helper()
	r, err := m.Read()
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Of(d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// until waits for a count that the kernel adds just after a request is done.
func until(t *testing.T, m *disk.Meter, d disk.Device, from disk.Sample, done func(disk.Rate) bool) (r disk.Rate) {
	t.Helper()
	testkit.Await(t, "all to be counted", func() bool {
		r = sample(t, m, d).Sub(from)
		return done(r)
	}, &r)
	return r
}

// aligned is memory that may be read into past the page cache.
func aligned(n int) []byte {
	b := make([]byte, n+4096)
	return b[-uintptr(unsafe.Pointer(&b[0]))&4095:][:n]
}

// direct opens a device past the page cache.
func direct(t *testing.T, node *os.File) *os.File {
	t.Helper()
	f, err := os.OpenFile(node.Name(), os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		t.Skipf("O_DIRECT: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

const piece = 64 << 10

func TestMeterCountsReadsAndWrites(t *testing.T) {
	const pieces = 256
	node := disktest.Loop(t, disktest.Image(t, t.TempDir(), pieces*piece))
	var d disk.Devices
	dev, f := of(t, &d, node), direct(t, node)
	buf := aligned(piece)
	read := func(t *testing.T, order []int) {
		for _, i := range order {
			if _, err := f.ReadAt(buf, int64(i)*piece); err != nil {
				t.Fatal(err)
			}
		}
	}
	inOrder := make([]int, pieces)
	for i := range inOrder {
		inOrder[i] = i
	}
	backwards := make([]int, pieces/2)
	for i := range backwards {
		backwards[i] = pieces - 2 - 2*i
	}
	// No piece is behind its neighbour.
	random := rand.New(rand.NewPCG(4, 4)).Perm(pieces / 2)
	for i := range random {
		random[i] *= 2
	}

	meters(t, func(t *testing.T, m *disk.Meter, seeks bool) {
		for _, c := range []struct {
			name        string
			order       []int
			least, most int64
		}{
			{"in order", inOrder, 0, 1},
			{"backwards", backwards, pieces / 2, pieces / 2},
			{"at random", random, pieces/2 - 1, pieces / 2},
		} {
			before := sample(t, m, dev)
			read(t, c.order)
			n := int64(len(c.order))
			r := until(t, m, dev, before, func(r disk.Rate) bool { return r.Reads >= n })
			t.Logf("%s: %d reads, %d seeks, %.1f per 100 MB", c.name, r.Reads, r.Seeks, r.SeeksPer100MB())
			if r.Reads != n || r.ReadBytes != n*piece || r.Writes != 0 || r.WrittenBytes != 0 || r.Over <= 0 {
				t.Errorf("%s: %+v, want %d reads of %d bytes", c.name, r, n, piece)
			}
			if seeks && (r.Seeks < c.least || r.Seeks > c.most) || !seeks && r.Seeks != disk.UnknownSeeks {
				t.Errorf("%s: %d seeks, want %d to %d", c.name, r.Seeks, c.least, c.most)
			}
		}
		before := sample(t, m, dev)
		for i := range 8 {
			if _, err := f.WriteAt(buf, int64(i)*2*piece); err != nil {
				t.Fatal(err)
			}
		}
		r := until(t, m, dev, before, func(r disk.Rate) bool { return r.Writes >= 8 })
		if r.Writes != 8 || r.WrittenBytes != 8*piece || r.Reads != 0 || seeks && r.Seeks != 0 {
			t.Errorf("8 writes: %+v", r)
		}
	})
}

// Files are counted for the disk that they are on.
func TestMeterCountsFiles(t *testing.T) {
	const size = 8 << 20
	dir, _ := disktest.Ext4(t, 2*size)
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(bytes.Repeat([]byte("x"), size)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	var d disk.Devices
	dev := of(t, &d, f)
	meters(t, func(t *testing.T, m *disk.Meter, seeks bool) {
		testkit.Await(t, "the file to leave memory", func() bool { // what the kernel has in use for a moment stays the first time
			if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
				t.Fatal(err)
			}
			pages, err := linux.MappedPages(int(f.Fd()), 0, size)
			if err != nil {
				t.Fatal(err)
			}
			return pages == 0
		})
		before := sample(t, m, dev)
		if n, err := io.Copy(io.Discard, io.NewSectionReader(f, 0, size)); n != size || err != nil {
			t.Fatal(n, err)
		}
		r := until(t, m, dev, before, func(r disk.Rate) bool { return r.ReadBytes >= size })
		t.Logf("%+v", r)
		if r.ReadBytes < size || r.ReadBytes > size+1<<20 || r.Reads == 0 {
			t.Errorf("%+v, want %d bytes to be read", r, size)
		}
		if seeks && r.Seeks > 8 {
			t.Errorf("%d seeks in a file that was written at once", r.Seeks)
		}
	})
}

func TestNotBlock(t *testing.T) {
	meters(t, func(t *testing.T, m *disk.Meter, _ bool) {
		r, err := m.Read()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []disk.Device{
			{ID: id(0, 57), Name: "0:57", FSType: "fuse.slow", Rotational: true},
			{ID: id(0, 1), Name: "0:1", FSType: "tmpfs", Memory: true},
		} {
			if s, err := r.Of(d); !errors.Is(err, disk.ErrNotBlock) || !strings.Contains(err.Error(), d.FSType) {
				t.Errorf("%s: %+v, %v", d.Name, s, err)
			}
		}
	})
}

// TestMeterOfFiles gives the kernel's counters as files: a disk, a partition of
// it, a disk that is replaced by another one, and one that comes later.
func TestMeterOfFiles(t *testing.T) {
	tr := disktest.NewTree(t)
	tr.Disk("sda", id(8, 0), true)
	tr.Partition("sda/sda1", id(8, 1))
	tr.Disk("sdb", id(8, 16), true)
	proc := t.TempDir()
	stats := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(proc, "diskstats"), []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := disk.NewMeter(disk.MeterOptions{Proc: proc, NoBPF: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without diskstats: %v, %v", m, err)
	}
	line := func(minor, reads, sectors, writes, written int) string {
		return fmt.Sprintf("8 %d sdx %d 0 %d 0 %d 0 %d 0 0 0 0", minor, reads, sectors, writes, written)
	}
	stats(line(0, 10, 100, 1, 10), line(1, 9, 90, 1, 10), line(16, 1000, 5000, 0, 0))
	m := newMeter(t, disk.MeterOptions{Sys: tr.Sys(), Proc: proc, NoBPF: true})
	stats(line(0, 15, 200, 2, 30), line(1, 14, 190, 2, 30), line(16, 3, 7, 1, 1), line(32, 2, 4, 0, 0))
	r, err := m.Read()
	if err != nil {
		t.Fatal(err)
	}
	for minor, want := range map[uint32]disk.Sample{
		0:  {Reads: 5, ReadBytes: 100 * 512, Writes: 1, WrittenBytes: 20 * 512, Seeks: -1},
		16: {Reads: 3, ReadBytes: 7 * 512, Writes: 1, WrittenBytes: 512, Seeks: -1},
		32: {Reads: 2, ReadBytes: 4 * 512, Seeks: -1},
	} {
		got, err := r.Of(disk.Device{ID: id(8, minor)})
		want.At = got.At
		if err != nil || got != want {
			t.Errorf("8:%d: %+v, %v; want %+v", minor, got, err, want)
		}
	}
	if s, err := r.Of(disk.Device{ID: id(8, 1)}); !errors.Is(err, disk.ErrNotBlock) {
		t.Errorf("a partition: %+v, %v", s, err)
	}
	stats()
	if err := os.Remove(filepath.Join(proc, "diskstats")); err != nil {
		t.Fatal(err)
	}
	if r, err := m.Read(); err == nil {
		t.Errorf("without diskstats: %+v", r)
	}
}

// A disk without requests of its own is counted by the kernel only.
func TestMeterOfStackedDisks(t *testing.T) {
	tr := disktest.NewTree(t)
	stacked, plain := id(4000, 0), id(4000, 1)
	tr.Disk("dm-0", stacked, true)
	tr.Disk("sda", plain, true)
	tr.Set("sda", "mq/0/nr_tags", "1")
	proc := t.TempDir()
	stats := filepath.Join(proc, "diskstats")
	if err := os.WriteFile(stats, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := newMeter(t, disk.MeterOptions{Sys: tr.Sys(), Proc: proc})
	if _, why := m.Method(); why != "" {
		t.Skip(why)
	}
	if err := os.WriteFile(stats, []byte("4000 0 dm-0 2 0 8 0 0 0 0 0 0 0 0\n4000 1 sda 2 0 8 0 0 0 0 0 0 0 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := sample(t, m, disk.Device{ID: stacked})
	if want := (disk.Sample{At: got.At, Reads: 2, ReadBytes: 4096, Seeks: disk.UnknownSeeks}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	got = sample(t, m, disk.Device{ID: plain})
	if want := (disk.Sample{At: got.At}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestRates(t *testing.T) {
	now := time.Now()
	before := disk.Sample{At: now, ReadBytes: 100, WrittenBytes: 200, Reads: 1, Writes: 2, Seeks: 3}
	after := disk.Sample{At: now.Add(2 * time.Second), ReadBytes: 100 + 400e6, WrittenBytes: 200 + 50e6, Reads: 1001, Writes: 102, Seeks: 23}
	r := after.Sub(before)
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"read", r.ReadSpeed(), 200e6}, {"write", r.WriteSpeed(), 25e6}, {"requests", r.Requests(), 550},
		{"seeks per 100 MB", r.SeeksPer100MB(), 5},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	if r := before.Sub(before); r.ReadSpeed() != 0 || r.SeeksPer100MB() != 0 {
		t.Errorf("nothing at once: %+v", r)
	}
	unknown := after
	unknown.Seeks = disk.UnknownSeeks
	if r := unknown.Sub(before); r.Seeks != disk.UnknownSeeks || r.SeeksPer100MB() != -1 || r.Reads != 1000 {
		t.Errorf("unknown seeks: %+v", r)
	}
	replaced := disk.Sample{At: after.At, ReadBytes: 5, Reads: 1, Seeks: 1}
	if r := replaced.Sub(before); r.ReadBytes != 5 || r.Reads != 1 || r.Seeks != 1 || r.WrittenBytes != 0 || r.Over != 2*time.Second {
		t.Errorf("another device: %+v", r)
	}
}

// An ordinary user gets the kernel's counters, and is told why.
func TestMeterOfAnOrdinaryUser(t *testing.T) {
	if os.Getenv("DISK_TEST_METER") != "" {
		m, err := disk.NewMeter(disk.MeterOptions{})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		method, why := m.Method()
		fmt.Println(method, why)
		os.Exit(0)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestMeterOfAnOrdinaryUser$")
	cmd.Env = append(os.Environ(), "DISK_TEST_METER=1", "GORACE=atexit_sleep_ms=0")
	if os.Geteuid() == 0 {
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("an ordinary user may not run this test: %v", err)
	}
	if err != nil || !strings.HasPrefix(string(out), "diskstats counting requests to disks by BPF is not to be had: it needs CAP_BPF") {
		t.Errorf("%v: %s", err, out)
	}
}

func BenchmarkMeterRead(b *testing.B) {
	m, err := disk.NewMeter(disk.MeterOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	for b.Loop() {
		if _, err := m.Read(); err != nil {
			b.Fatal(err)
		}
	}
}
