package data

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"headrace/disk"
	"headrace/serve"
	"headrace/wire"
)

const (
	minDiskInterval = 100 * time.Millisecond
	maxDiskInterval = time.Hour
	// maxReaders is how many readers of one disk a sample tells of.
	maxReaders = 100
)

// lazyMeter begins to measure when somebody asks for the first time: until then
// it costs nothing.
type lazyMeter struct {
	open  func() (*disk.Meter, error)
	mu    sync.Mutex
	meter *disk.Meter
}

func (l *lazyMeter) get() (*disk.Meter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.meter != nil {
		return l.meter, nil
	}
	var err error
	l.meter, err = l.open()
	return l.meter, err
}

func (l *lazyMeter) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.meter == nil {
		return nil
	}
	return l.meter.Close()
}

// Disks measures the disks of this machine, whoever uses them, and tells who
// reads for the daemon. Only root is told their names.
func (s *service) Disks(ctx context.Context, q *wire.DisksRequest, stream *connect.ServerStream[wire.DisksSample]) error {
	by := serve.CallerOf(ctx)
	every, err := diskInterval(q.Interval)
	if err != nil {
		return err
	}
	meter, err := s.meter.get()
	if err != nil {
		return err
	}
	w := &diskWatch{reading: s.reading, meter: meter, named: by.Viewer().All}
	if err := w.begin(); err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		sample, err := w.next()
		if err != nil {
			return err
		}
		if err := stream.Send(sample); err != nil {
			return err
		}
	}
}

// diskInterval reads an interval in seconds.
func diskInterval(seconds float64) (time.Duration, error) {
	if seconds == 0 {
		return time.Second, nil
	}
	if math.IsNaN(seconds) || seconds < minDiskInterval.Seconds() || seconds > maxDiskInterval.Seconds() {
		return 0, serve.Refusal("an interval of %v seconds; give a number from %v to %v", seconds, minDiskInterval.Seconds(), maxDiskInterval.Seconds())
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// diskWatch makes samples of the time since the last one.
type diskWatch struct {
	*reading
	meter *disk.Meter
	// named: the names of readers are told.
	named  bool
	before disk.Reading
	at     time.Time
}

func (w *diskWatch) begin() (err error) {
	w.before, err = w.meter.Read()
	w.at = time.Now()
	return err
}

func (w *diskWatch) next() (*wire.DisksSample, error) {
	now, err := w.meter.Read()
	if err != nil {
		return nil, err
	}
	all, err := w.devices.Disks()
	if err != nil {
		return nil, err
	}
	at := time.Now()
	sample := &wire.DisksSample{AtMs: at.UnixMilli(), Interval: at.Sub(w.at).Seconds()}
	uses, hangs := w.disks.Uses(), map[disk.ID]*wire.DiskHang{}
	for _, h := range w.hanging() {
		if hangs[h.ID] == nil {
			hangs[h.ID] = wireHang(h, w.named)
		}
	}
	known := map[disk.ID]bool{}
	// Those that only the readers know are no block devices, or gone.
	for _, d := range append(all, w.disks.Devices()...) {
		if !known[d.ID] {
			known[d.ID] = true
			m := w.disk(d, now, uses[d.ID])
			m.Hang = hangs[d.ID]
			sample.Disks = append(sample.Disks, m)
		}
	}
	w.before, w.at = now, at
	return sample, nil
}

func (w *diskWatch) disk(d disk.Device, now disk.Reading, uses []disk.Use) *wire.Disk {
	m := &wire.Disk{Name: d.Name, Mount: serve.Shown(d.Mount), FsType: d.FSType, Rotational: d.Rotational, Seeks: disk.UnknownSeeks}
	method, why := w.meter.Method()
	m.Method, m.MethodWhy = string(method), why
	after, err := now.Of(d)
	if err != nil {
		m.Method, m.MethodWhy = "", cmp.Or(d.Note, "it is no block device")
	} else {
		m.TotalRead, m.TotalWritten = after.ReadBytes, after.WrittenBytes
		if before, err := w.before.Of(d); err == nil {
			rate := after.Sub(before)
			m.Read, m.Write, m.Requests, m.Seeks = rate.ReadSpeed(), rate.WriteSpeed(), rate.Requests(), rate.SeeksPer100MB()
		}
	}
	m.Readers = w.readers(uses)
	return m
}

// readers returns those that read most first.
func (w *diskWatch) readers(uses []disk.Use) []*wire.DiskReader {
	slices.SortStableFunc(uses, func(a, b disk.Use) int { return cmp.Compare(b.Bytes, a.Bytes) })
	var all []*wire.DiskReader
	for _, u := range uses[:min(len(uses), maxReaders)] {
		r := &wire.DiskReader{
			Class: u.Class.String(), Bytes: u.Bytes, Reading: u.Reading, Waiting: u.Waiting, Waited: u.Waited.Seconds(), Hangs: u.Hangs.Seconds(),
		}
		if w.named {
			r.Name = serve.Shown(u.Name)
			if u.Readers > 1 {
				r.Name = fmt.Sprintf("%s (%d)", r.Name, u.Readers)
			}
		}
		all = append(all, r)
	}
	return all
}
