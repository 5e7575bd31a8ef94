package disk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Method is how a meter counts.
type Method string

const (
	// BPF counts requests as they are issued, and seeks.
	BPF Method = "bpf"
	// Diskstats reads the kernel's own counters, which know no seeks.
	Diskstats Method = "diskstats"
)

// ErrNotBlock: no requests of such a device are seen: it is memory, or a file
// system without a block device (network, FUSE).
var ErrNotBlock = errors.New("not a block device")

// UnknownSeeks stands for a number of seeks that nobody counts.
const UnknownSeeks = -1

// MeterOptions are those of NewMeter. The zero value works.
type MeterOptions struct {
	// Sys and Proc are where sysfs and procfs are; empty means /sys and /proc.
	Sys, Proc string
	// NoBPF leaves BPF untried.
	NoBPF bool
}

// Meter counts what the block devices of this machine do from its making on, on
// behalf of anybody. Its methods may be called from any goroutine.
type Meter struct {
	sys, diskstats string
	// issued is nil without BPF; then why says why.
	issued *issued
	why    string
	begun  map[ID]diskstat
}

// NewMeter begins to count, by BPF where that is allowed. It fails where not even
// /proc/diskstats can be read. The caller closes the meter.
func NewMeter(o MeterOptions) (*Meter, error) {
	m := &Meter{sys: cmp.Or(o.Sys, "/sys"), diskstats: filepath.Join(cmp.Or(o.Proc, "/proc"), "diskstats")}
	begun, err := m.completed()
	if err != nil {
		return nil, fmt.Errorf("count what disks do: %w", err)
	}
	m.begun = begun
	if o.NoBPF {
		m.why = "BPF is turned off"
		return m, nil
	}
	if m.issued, err = countIssued(); err != nil {
		m.why = err.Error()
	}
	return m, nil
}

// Method returns how it counts, and why not by something better.
func (m *Meter) Method() (method Method, why string) {
	if m.issued == nil {
		return Diskstats, m.why
	}
	return BPF, ""
}

// Close ends it.
func (m *Meter) Close() error {
	if m.issued == nil {
		return nil
	}
	return m.issued.close()
}

// Sample is what a device has done since its meter was made.
type Sample struct {
	At                      time.Time
	ReadBytes, WrittenBytes int64
	// Reads and Writes are requests to the device, merged ones counting as one.
	Reads, Writes int64
	// Seeks are reads that did not begin where the request before them ended, or
	// UnknownSeeks.
	Seeks int64
}

// Reading is a sample of all block devices at one time.
type Reading struct {
	samples map[ID]Sample
}

// Of returns the sample of one device. The error is ErrNotBlock if there can be none.
func (r Reading) Of(d Device) (Sample, error) {
	s, ok := r.samples[d.ID]
	if !ok {
		kind := cmp.Or(d.FSType, d.Note, "no file system")
		return Sample{}, fmt.Errorf("%s (%s): %w", d.Name, kind, ErrNotBlock)
	}
	return s, nil
}

// Read takes a sample of all block devices that there are now. Partitions count
// for their disks.
func (m *Meter) Read() (Reading, error) {
	completed, err := m.completed()
	if err != nil {
		return Reading{}, err
	}
	now := time.Now()
	samples := make(map[ID]Sample, len(completed))
	for id, d := range completed {
		if before := m.begun[id]; !d.before(before) {
			d = d.minus(before)
		}
		samples[id] = Sample{At: now, ReadBytes: d.readBytes, WrittenBytes: d.writtenBytes,
			Reads: d.reads, Writes: d.writes, Seeks: UnknownSeeks}
	}
	if m.issued == nil {
		return Reading{samples}, nil
	}
	issued, complete, err := m.issued.read()
	if err != nil {
		return Reading{}, fmt.Errorf("read the counters of requests: %w", err)
	}
	for id := range samples {
		// Devices that are made of others (dm, md) and compressed memory get no
		// requests of their own; the kernel's counters are right about them.
		if _, err := os.Stat(filepath.Join(sysfs(m.sys).path(id), "mq")); err == nil && complete {
			samples[id] = Sample{At: now}
		}
	}
	for id, s := range issued {
		s.At = now
		samples[id] = s
	}
	return Reading{samples}, nil
}

// before reports whether a counter is below what it was before: the device has
// gone and another one has come.
func (d diskstat) before(o diskstat) bool {
	return d.reads < o.reads || d.writes < o.writes || d.readBytes < o.readBytes || d.writtenBytes < o.writtenBytes
}

func (d diskstat) minus(o diskstat) diskstat {
	d.reads -= o.reads
	d.writes -= o.writes
	d.readBytes -= o.readBytes
	d.writtenBytes -= o.writtenBytes
	return d
}

// completed reads the kernel's counters of whole disks.
func (m *Meter) completed() (map[ID]diskstat, error) {
	text, err := os.ReadFile(m.diskstats)
	if err != nil {
		return nil, err
	}
	all := map[ID]diskstat{}
	for _, d := range parseDiskstats(string(text)) {
		if _, err := os.Stat(filepath.Join(sysfs(m.sys).path(d.id), "partition")); err != nil {
			all[d.id] = d
		}
	}
	return all, nil
}

// Rate is what a device did over some time.
type Rate struct {
	Over                    time.Duration
	ReadBytes, WrittenBytes int64
	Reads, Writes           int64
	// Seeks may be UnknownSeeks.
	Seeks int64
}

// Sub returns what was done after an earlier sample of the same device. If the device
// was replaced meanwhile, it is what the new one has done.
func (s Sample) Sub(earlier Sample) Rate {
	e := earlier
	if s.Reads < e.Reads || s.Writes < e.Writes || s.ReadBytes < e.ReadBytes || s.WrittenBytes < e.WrittenBytes {
		e = Sample{At: e.At}
	}
	r := Rate{Over: s.At.Sub(e.At), ReadBytes: s.ReadBytes - e.ReadBytes, WrittenBytes: s.WrittenBytes - e.WrittenBytes,
		Reads: s.Reads - e.Reads, Writes: s.Writes - e.Writes, Seeks: UnknownSeeks}
	if s.Seeks >= 0 && e.Seeks >= 0 {
		r.Seeks = s.Seeks - e.Seeks
	}
	return r
}

// ReadSpeed returns bytes per second.
func (r Rate) ReadSpeed() float64 { return r.perSecond(r.ReadBytes) }

// WriteSpeed returns bytes per second.
func (r Rate) WriteSpeed() float64 { return r.perSecond(r.WrittenBytes) }

// Requests returns how many there were per second.
func (r Rate) Requests() float64 { return r.perSecond(r.Reads + r.Writes) }

// SeeksPer100MB returns how many seeks there were for 100 MB that were read; negative
// if nobody counts them, and 0 if nothing was read.
func (r Rate) SeeksPer100MB() float64 {
	switch {
	case r.Seeks < 0:
		return UnknownSeeks
	case r.ReadBytes <= 0:
		return 0
	}
	return float64(r.Seeks) / (float64(r.ReadBytes) / 100e6)
}

func (r Rate) perSecond(n int64) float64 {
	if r.Over <= 0 {
		return 0
	}
	return float64(n) / r.Over.Seconds()
}
