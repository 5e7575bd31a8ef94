package pagecache_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"headrace/pagecache"
)

// TestReadBytes compares it with counting byte by byte, in units of a quarter of a part.
func TestReadBytes(t *testing.T) {
	const unit = pagecache.ReadPart / 4
	masks := []uint64{0, 1, 2, 1 << 63, 1<<63 | 1, 0xff00, ^uint64(0)}
	for _, first := range masks {
		for _, second := range masks {
			for _, size := range []int64{0, 1, unit, 4 * unit, 5 * unit, pagecache.BlockSize - unit, pagecache.BlockSize,
				pagecache.BlockSize + unit, pagecache.BlockSize + 9*unit, 2*pagecache.BlockSize - 1, 2 * pagecache.BlockSize, 3 * pagecache.BlockSize} {
				parts := []uint64{first, second}
				want := int64(0)
				for part := range int64(128) {
					if parts[part/64]>>(part%64)&1 != 0 {
						want += min(max(size-part*pagecache.ReadPart, 0), pagecache.ReadPart)
					}
				}
				if got := pagecache.ReadBytes(parts, size); got != want {
					t.Errorf("%x of %d bytes: %d, want %d", parts, size, got, want)
				}
			}
		}
	}
}

// TestReadsOfOthers: what another process reads is seen, whether it was in memory or not, and
// told once; what this one reads is not.
func TestReadsOfOthers(t *testing.T) {
	c := open(t, pagecache.Config{Method: pagecache.BPF})
	const size = 2*pagecache.BlockSize + 5*pagecache.ReadPart + 100
	path := diskDir(t) + "/file"
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil { // so that it can leave memory
		t.Fatal(err)
	}
	w, err := c.Watch(f)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	take := func() []uint64 {
		t.Helper()
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return w.(pagecache.ReadWatched).TakeReads()
	}
	dd := func(block, skip, count int64) {
		t.Helper()
		cmd := exec.Command("dd", "if="+path, "of=/dev/null", fmt.Sprint("bs=", block), fmt.Sprint("skip=", skip), fmt.Sprint("count=", count))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	all := pagecache.Range{Len: size}
	dd(4096, 0, 1) // nobody has asked yet
	if got := take(); got != nil {
		t.Errorf("before anybody asks: %x", got)
	}
	dd(4096, 0, 1)
	if take() == nil {
		if !pagecache.SeesReads() {
			t.Skip("this kernel does not tell of reads (mm_filemap_get_pages, Linux 6.13)")
		}
		t.Fatal("a read of a page is not seen")
	}
	read(t, f, all) // our own
	if got := take(); got != nil {
		t.Errorf("our own reading counts as that of others: %x", got)
	}
	const part = pagecache.ReadPart
	for _, x := range []struct {
		what               string
		block, skip, count int64
		want               []uint64
	}{
		{"a page", 4096, 0, 1, []uint64{1}},
		{"one over a border of parts", part, 1, 1, []uint64{2}},
		{"in pieces", 4096, part / 4096, part / 4096 * 2, []uint64{6}},
		{"the end of one block and the beginning of the next", 2 * part, 31, 2, []uint64{3 << 62, 3}},
		{"at once", size, 0, 1, []uint64{^uint64(0), ^uint64(0), 0x3f}},
		{"the end", 100, size / 100, 1, []uint64{0, 0, 0x20}},
	} {
		for _, warm := range []bool{true, false} {
			if !warm {
				if err := c.Evict(f, all); err != nil {
					t.Fatal(err)
				}
			}
			dd(x.block, x.skip, x.count)
			if got := take(); !slices.Equal(got, x.want) {
				t.Errorf("%s, in memory %t: %x, want %x", x.what, warm, got, x.want)
			}
		}
	}
	if got := take(); got != nil {
		t.Errorf("it is told again: %x", got)
	}
	cat := exec.Command("cat", path) // to a pipe: by splice or copy_file_range where cat knows them
	if out, err := cat.Output(); err != nil || len(out) != size {
		t.Fatal(err)
	}
	if got := pagecache.ReadBytes(take(), size); got != size {
		t.Errorf("of a file that was read whole %d of %d bytes are seen", got, size)
	}
}
