package disk

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestParseDiskstats(t *testing.T) {
	got := parseDiskstats(`   7       0 loop0 7600 18281 10881086 5734 23823 1402 26575526 25451 0 4648 31497 0 0 0 0 3106 311
 259   65536 nvme0n1 1 2 3 4 5 6 7 8 9 10 11
   8       1 sda1 10 20 30 40
   8       2 sda2 -1 2 3 4 5 6 7 8 9 10 11
   8       3 sda3 1 2 x 4 5 6 7 8 9 10 11
   8       4 sda4 1 2 3 4 5 6 18014398509481984 8 9 10 11
   x       5 sda5 1 2 3 4 5 6 7 8 9 10 11
   8       6 sda6 1 2 3 4 5 6 18014398509481983 8 9 10 11 a b c d
`)
	want := []diskstat{
		{id: number(7, 0), reads: 7600, readBytes: 10881086 * 512, writes: 23823, writtenBytes: 26575526 * 512},
		{id: number(259, 65536), reads: 1, readBytes: 3 * 512, writes: 5, writtenBytes: 7 * 512},
		{id: number(8, 6), reads: 1, readBytes: 3 * 512, writes: 5, writtenBytes: math.MaxInt64 &^ 511},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestOwnDiskstats(t *testing.T) {
	text, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(parseDiskstats(string(text))), strings.Count(string(text), "\n"); got != want {
		t.Errorf("%d lines of %d were understood", got, want)
	}
}

func FuzzParseDiskstats(f *testing.F) {
	f.Add(" 7 0 loop0 7600 18281 10881086 5734 23823 1402 26575526 25451 0 4648 31497 0 0 0 0 3106 311\n")
	f.Add("259 65536 nvme0n1 1 2 3 4 5 6 7 8 9 10 11")
	f.Fuzz(func(t *testing.T, text string) {
		all := parseDiskstats(text)
		if len(all) > strings.Count(text, "\n")+1 {
			t.Fatalf("%d devices", len(all))
		}
		for _, d := range all {
			if d.before(diskstat{}) || d.readBytes%512 != 0 || d.writtenBytes%512 != 0 {
				t.Errorf("%+v", d)
			}
			if zero := d.minus(d); zero != (diskstat{id: d.id}) {
				t.Errorf("%+v less itself is %+v", d, zero)
			}
		}
	})
}
