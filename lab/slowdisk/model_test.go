package slowdisk

import (
	"encoding/json"
	"flag"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/internal/linux"
)

func TestModelNamesItsParameters(t *testing.T) {
	fast := HardDisk()
	fast.Seek, fast.Rotation, fast.Bandwidth, fast.ReadAhead = 500*time.Microsecond, 0, 1.5e6, 128<<10
	for want, m := range map[string]Model{
		"modelled disk (8 ms seek, 4 ms rotation, 150 MB/s, read-ahead 1024 KB)":  HardDisk(),
		"modelled disk (0.5 ms seek, 0 ms rotation, 1.5 MB/s, read-ahead 128 KB)": fast,
	} {
		if got := m.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestServiceTime(t *testing.T) {
	m := HardDisk()
	for _, c := range []struct {
		bytes int64
		seek  bool
		want  time.Duration
	}{
		{0, false, 0},
		{0, true, 12 * time.Millisecond},
		{150e6, false, time.Second},
		{150e6, true, 1012 * time.Millisecond},
		{1, false, 7 * time.Nanosecond}, // 6.67, rounded up
		{1 << 20, false, 6990507 * time.Nanosecond},
		{1 << 20, true, 18990507 * time.Nanosecond},
		{15e12, false, 100000 * time.Second},
	} {
		if got := m.Service(c.bytes, c.seek); got != c.want {
			t.Errorf("%d bytes, seek %v: %v, want %v", c.bytes, c.seek, got, c.want)
		}
	}
	m.Bandwidth = maxBandwidth
	if got, want := m.Service(8e9+1, false), 888888889*time.Nanosecond; got != want {
		t.Errorf("at the greatest bandwidth: %v, want %v", got, want)
	}
}

func TestModelsThatCannotBe(t *testing.T) {
	if err := HardDisk().check(); err != nil {
		t.Error(err)
	}
	for what, spoil := range map[string]func(*Model){
		"seek":       func(m *Model) { m.Seek = -1 },
		"rotation":   func(m *Model) { m.Rotation = time.Hour },
		"bandwidth":  func(m *Model) { m.Bandwidth = 0 },
		"read-ahead": func(m *Model) { m.ReadAhead = 1000 },
		"requests":   func(m *Model) { m.MaxRequest = 2 << 20 },
		"slice":      func(m *Model) { m.Slice = -1 },
		"window":     func(m *Model) { m.Window = -1 },
		"lookahead":  func(m *Model) { m.Lookahead = -1 },
	} {
		m := HardDisk()
		spoil(&m)
		if err := m.check(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Every parameter must reach the server.
func TestArgumentsCarryTheModel(t *testing.T) {
	m := Model{Seek: 1, Rotation: 2 * time.Second, Bandwidth: 3e6, ReadAhead: 4096, MaxRequest: 8192, Slice: 5, Window: 6, Lookahead: 7 * time.Microsecond, WriteBack: true}
	var got Model
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	got.define(flags)
	if err := flags.Parse(m.args()); err != nil {
		t.Fatal(err)
	}
	if got != m {
		t.Errorf("%+v, want %+v", got, m)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	if args := m.args(); len(args) != len(fields) {
		t.Errorf("%d arguments for %d parameters", len(args), len(fields))
	}
}

func TestStatsSince(t *testing.T) {
	then := Stats{1, 2, 3, 4, 5, 6}
	now := Stats{11, 22, 33, 44, 55, 66}
	if got, want := now.Since(then), (Stats{10, 20, 30, 40, 50, 60}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	s := Stats{Seeks: 3, Read: 100e6, Written: 50e6}
	if got := s.SeeksPer100MB(); got != 2 {
		t.Errorf("%v seeks per 100 MB, want 2", got)
	}
	if got := (Stats{}).SeeksPer100MB(); !math.IsNaN(got) {
		t.Errorf("without bytes: %v", got)
	}
}

func TestMountTable(t *testing.T) {
	table := `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:39 / /tmp/a\040b rw,nosuid - fuse.headrace-slowdisk headrace-slowdisk-42-1350000000 rw,user_id=0
31 22 0:40 / /mnt rw - fuse.other headrace-slowdisk-43-1 rw
32 22 0:41 / /odd rw - fuse.headrace-slowdisk something rw
broken line
33 22 0:42 / /tmp/c rw shared:2 master:1 - fuse.headrace-slowdisk headrace-slowdisk-44-5 rw
`
	got := ourMounts(linux.ParseMounts(table))
	want := []mounted{{"/tmp/a b", 42, 1350000000}, {"/tmp/c", 44, 5}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
