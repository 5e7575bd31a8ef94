package slowdisk

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Exactness is asked of the model's own account; by the clock only that nothing is
// faster than the disk, because others use this machine too.

// measured makes a file and a disk over it.
func measured(t testing.TB, m Model, bytes int) (*Disk, string) {
	t.Helper()
	source := t.TempDir()
	d := startDisk(t, m, source)
	makeFile(t, filepath.Join(source, "data"), bytes)
	return d, filepath.Join(d.Dir(), "data")
}

func within(t *testing.T, what string, got, want time.Duration, part float64) {
	t.Helper()
	if off := float64(got)/float64(want) - 1; off < -part || off > part {
		t.Errorf("%s: %v, want %v within %.0f %%", what, got, want, part*100)
	}
}

func TestSequentialReaderGetsTheBandwidth(t *testing.T) {
	const bytes = 64 * mib
	d, path := measured(t, HardDisk(), bytes)
	r, err := Sequential(t.Context(), d, path, 1)
	if err != nil {
		t.Fatal(err)
	}
	// One to get there; on a machine that is busy otherwise requests may come in
	// disorder.
	if r.Stated.Read != bytes || r.Stated.Seeks < 1 || r.Stated.Seeks > 8 {
		t.Errorf("%d bytes, %d seeks; want %d and one", r.Stated.Read, r.Stated.Seeks, bytes)
	}
	within(t, "busy", r.Stated.Busy-time.Duration(r.Stated.Seeks)*(d.Model().Seek+d.Model().Rotation), d.Model().Service(bytes, false), 0.01)
	if r.Took < r.Stated.Busy*97/100 {
		t.Errorf("took %v by the clock, but the head was busy for %v", r.Took, r.Stated.Busy)
	}
}

func TestRandomReadsTakeTheServiceTime(t *testing.T) {
	const pieces = 16
	d, path := measured(t, HardDisk(), 2*pieces*mib)
	var places []int64
	for _, p := range rand.New(rand.NewPCG(1, 1)).Perm(pieces) {
		places = append(places, int64(2*p)) // none follows another
	}
	r, err := Random(t.Context(), d, path, places)
	if err != nil {
		t.Fatal(err)
	}
	if r.Stated.Requests != pieces || r.Stated.Seeks != pieces {
		t.Errorf("%d requests with %d seeks, want %d each", r.Stated.Requests, r.Stated.Seeks, pieces)
	}
	within(t, "a piece", r.Stated.Busy/pieces, d.Model().Service(mib, true), 0.05)
	if r.Took < r.Stated.Busy*95/100 {
		t.Errorf("took %v by the clock, but the head was busy for %v", r.Took, r.Stated.Busy)
	}
}

// More sequential readers make the head seek, up to a seek for nearly every
// request, and it gets ever less done.
func TestReadersCollapse(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; not with -short")
	}
	const bytes = 64 * mib
	d, path := measured(t, quick(), bytes)
	var seeks []int64
	for _, readers := range []int{1, 4, 16} {
		r, err := Sequential(t.Context(), d, path, readers)
		if err != nil {
			t.Fatal(err)
		}
		// On a busy machine the kernel lets go of a page now and then before it is copied.
		if r.Stated.Read < bytes || r.Stated.Read > bytes+bytes/100 {
			t.Errorf("%d readers: %d bytes, want %d", readers, r.Stated.Read, bytes)
		}
		if want := d.Model().Service(r.Stated.Read, false) + time.Duration(r.Stated.Seeks)*(d.Model().Seek+d.Model().Rotation); r.Stated.Busy < want || r.Stated.Busy > want+time.Millisecond {
			t.Errorf("%d readers: busy for %v with %d seeks, want %v", readers, r.Stated.Busy, r.Stated.Seeks, want)
		}
		if r.Took < r.Stated.Busy*95/100 {
			t.Errorf("%d readers took %v by the clock, but the head was busy for %v", readers, r.Took, r.Stated.Busy)
		}
		seeks = append(seeks, r.Stated.Seeks)
	}
	t.Logf("1, 4 and 16 readers seek %v times for 64 MiB", seeks)
	if seeks[0] > 8 || seeks[1] < 4 || seeks[2] < 16 { // at least to each reader's part: a busy machine may have them read one after the other
		t.Errorf("1, 4 and 16 readers seek %v times for 64 MiB", seeks)
	}
}

// The kernel asks for as much at a time as it reads ahead.
func TestReadAheadIsSet(t *testing.T) {
	const bytes = 8 * mib
	for _, ahead := range []int64{128 << 10, 1 << 20} {
		m := quick()
		m.ReadAhead = ahead
		d, path := measured(t, m, bytes)
		r, err := Sequential(t.Context(), d, path, 1)
		if err != nil {
			t.Fatal(err)
		}
		if least, most := bytes/ahead, 2*bytes/ahead; r.Stated.Requests < least || r.Stated.Requests > most {
			t.Errorf("%d requests with a read-ahead of %d KB, want %d to %d", r.Stated.Requests, ahead>>10, least, most)
		}
		var st unix.Stat_t
		if err := unix.Stat(d.Dir(), &st); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(st.Dev), unix.Minor(st.Dev)))
		if want := fmt.Sprintln(ahead >> 10); err != nil || string(got) != want {
			t.Errorf("read-ahead %q, %v; want %q", got, err, want)
		}
	}
}

// Benchmark shows the disk with several readers. It wants a machine of its own.
func BenchmarkReaders(b *testing.B) {
	for _, readers := range []int{1, 4, 8, 16} {
		b.Run(fmt.Sprint(readers), func(b *testing.B) {
			d, path := measured(b, HardDisk(), 256*mib)
			var total Reading
			for b.Loop() {
				r, err := Sequential(b.Context(), d, path, readers)
				if err != nil {
					b.Fatal(err)
				}
				total.Took += r.Took
				total.Stated = d.Stats()
			}
			cpu, err := d.CPU()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(total.Stated.Read)/total.Took.Seconds()/1e6, "MB/s")
			b.ReportMetric(float64(total.Stated.Seeks)/total.Took.Seconds(), "seeks/s")
			b.ReportMetric(total.Stated.SeeksPer100MB(), "seeks/100MB")
			b.ReportMetric(cpu.Seconds()/(float64(total.Stated.Read)/1e9), "server-s/GB")
		})
	}
}
