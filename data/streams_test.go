package data

import (
	"errors"
	"strings"
	"testing"

	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/serve"
	"headrace/stream"
	"headrace/wire"
)

func TestBufferFor(t *testing.T) {
	const mb = 1 << 20
	machine := pagecache.Limits{Memory: 8000 * mb}
	within := func(left int64) pagecache.Limits {
		l := machine
		l.Cgroup = linux.CgroupMemory{Dir: "/small", Limit: 80 * mb, Free: left}
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
		if err != nil && (!errors.Is(err, serve.ErrInput) || !strings.Contains(err.Error(), "start the daemon with more memory")) {
			t.Errorf("%s: it does not say what to do: %v", c.name, err)
		}
	}
}

func TestRecordsThatNeverFit(t *testing.T) {
	for _, c := range []struct {
		record, buffer, usual int64
		ok                    bool
	}{
		{1 << 40, 0, 0, false}, {200 << 20, 0, 0, false}, {200 << 20, 300 << 20, 0, true}, {200 << 20, 0, 300 << 20, true},
		{200 << 20, 100 << 20, 300 << 20, false}, {100, 0, 0, true},
	} {
		err := checkRecord(&wire.Input{Split: wire.Split_SPLIT_FIXED, RecordSize: c.record, Buffer: c.buffer}, c.usual)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, serve.ErrInput) {
			t.Errorf("records of %d, buffer %d, usually %d: %v", c.record, c.buffer, c.usual, err)
		}
	}
}
