package solo

import (
	"errors"
	"strings"
	"testing"

	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/stream"
)

func TestBufferFor(t *testing.T) {
	const mb = 1 << 20
	machine := pagecache.Limits{Memory: 8000 * mb}
	within := func(left int64) pagecache.Limits {
		l := machine
		l.Cgroup = linux.CgroupMemory{Dir: "/small", Limit: 80 * mb, Left: left}
		return l
	}
	cases := []struct {
		name         string
		asked, usual int64
		limits       pagecache.Limits
		want         int64 // 0: refused
	}{
		{"nobody says", 0, 0, machine, stream.DefaultBuffer},
		{"the daemon says", 0, 30 * mb, machine, 30 * mb},
		{"the job says", 40 * mb, 30 * mb, machine, 40 * mb},
		{"more than the machine has", 9000 * mb, 0, machine, 0},
		{"the usual is too much for the limit", 0, 0, within(70 * mb), 35 * mb},
		{"and so is what the daemon says", 0, 50 * mb, within(70 * mb), 35 * mb},
		{"what the job says is too much", 36 * mb, 0, within(70 * mb), 0},
		{"what the job says just fits", 35 * mb, 0, within(70 * mb), 35 * mb},
		{"nothing fits", 0, 0, within(31 * mb), 0},
		{"past the limit", 0, 0, within(-mb), 0},
		{"a limit above the machine", 0, 0, within(90000 * mb), stream.DefaultBuffer},
	}
	for _, c := range cases {
		got, err := bufferFor(c.asked, c.usual, c.limits)
		if got != c.want || (err == nil) != (c.want != 0) {
			t.Errorf("%s: %d, %v; want %d", c.name, got, err, c.want)
		}
		if err != nil && (!errors.Is(err, errInput) || !strings.Contains(err.Error(), "start the daemon with more memory")) {
			t.Errorf("%s: it does not say what to do: %v", c.name, err)
		}
	}
}

func TestConfigBuffer(t *testing.T) {
	for buffer, want := range map[int64]string{0: "", stream.MinBuffer: "", stream.MinBuffer - 1: "is too small", 1: "is too small", -1: "give numbers"} {
		c := Config{StateDir: t.TempDir(), Buffer: buffer}
		err := c.complete(memoryInfo{Total: 1 << 30})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("a buffer of %d: %v; want %q", buffer, err, want)
		}
	}
}
