package disk

import (
	"math"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// diskstat is a line of /proc/diskstats: what was completed since the device
// came.
type diskstat struct {
	id                      ID
	reads, writes           int64
	readBytes, writtenBytes int64
}

// sectorSize is the unit of diskstats, whatever the device's own is.
const sectorSize = 512

// parseDiskstats reads the text of /proc/diskstats, partitions included (Linux:
// Documentation/admin-guide/iostats.rst). Lines that make no sense are left out.
func parseDiskstats(text string) []diskstat {
	var all []diskstat
	for line := range strings.Lines(text) {
		if d, ok := parseDiskstat(strings.Fields(line)); ok {
			all = append(all, d)
		}
	}
	return all
}

// parseDiskstat reads the fields of a line: major, minor, name, reads, merged,
// sectors, ms, writes, merged, sectors, and more.
func parseDiskstat(f []string) (d diskstat, ok bool) {
	if len(f) < 14 {
		return diskstat{}, false
	}
	major, err1 := strconv.ParseUint(f[0], 10, 32)
	minor, err2 := strconv.ParseUint(f[1], 10, 32)
	if err1 != nil || err2 != nil {
		return diskstat{}, false
	}
	d.id = ID(unix.Mkdev(uint32(major), uint32(minor)))
	for _, field := range []struct {
		text string
		unit int64
		to   *int64
	}{
		{f[3], 1, &d.reads}, {f[5], sectorSize, &d.readBytes},
		{f[7], 1, &d.writes}, {f[9], sectorSize, &d.writtenBytes},
	} {
		n, err := strconv.ParseInt(field.text, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/field.unit {
			return diskstat{}, false
		}
		*field.to = n * field.unit
	}
	return d, true
}
