package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	disks "headrace/disk"
	"headrace/lab/slowdisk"
	"headrace/lab/work"
)

// The places where bench read reads.
const (
	Modelled = "modelled"
	Device   = "device"
)

var DiskNames = []string{Modelled, Device}

// A Disk is where the files of an experiment on reading lie: a directory on a disk
// with counters, a modelled one or a device of the machine.
type Disk struct {
	Name  string
	About string // for captions
	// Dir is where the files are read; source where they are made, which takes no
	// time of a model.
	Dir, source string

	Model *slowdisk.Disk // nil: a device

	meter  *disks.Meter
	device disks.Device
}

// OpenDisk makes a disk with room for bytes.
func (h *Bench) OpenDisk(ctx context.Context, name string, bytes int64) (*Disk, error) {
	if name == Modelled {
		if err := slowdisk.Check(); err != nil {
			return nil, err
		}
		return h.modelledDisk(ctx)
	}
	return h.openDevice(bytes)
}

// modelledDisk returns one in the scratch, with a hard disk in front of it.
func (h *Bench) modelledDisk(ctx context.Context) (*Disk, error) {
	d := &Disk{Name: Modelled, Dir: filepath.Join(h.Disk.Dir, "modelled"), source: filepath.Join(h.Disk.Dir, "source")}
	for _, dir := range []string{d.Dir, d.source} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	// The path to the scratch is for root alone, and so are the files.
	var err error
	if d.Model, err = slowdisk.Start(ctx, slowdisk.Options{Source: d.source, Mount: d.Dir, Program: h.Programs.Lab}); err != nil {
		return nil, err
	}
	d.About = d.Model.Model().String()
	return d, nil
}

// openDevice makes a file system of its own on a loop device over a file on the
// disk of the scratch, so that nobody else's requests are counted. The file is
// read past the page cache: else nothing would be read from the disk.
func (h *Bench) openDevice(bytes int64) (p *Disk, err error) {
	dev, err := h.Disk.AddDevice(Device, bytes+bytes/16+64<<20, h.Disk)
	if err != nil {
		return nil, err
	}
	if err := dev.pastPageCache(); err != nil {
		return nil, err
	}
	p = &Disk{Name: Device, Dir: dev.Dir, source: dev.Dir}
	if p.meter, err = disks.NewMeter(disks.MeterOptions{}); err != nil {
		return nil, err
	}
	dir, err := os.Open(dev.Dir)
	if err == nil {
		p.device, err = (&disks.Devices{}).Of(dir)
		dir.Close()
	}
	if err != nil {
		return nil, errors.Join(err, p.meter.Close())
	}
	p.About = fmt.Sprintf("a loop device (%s, ext4, past the page cache) on the disk of %s", p.device.Name, h.Dir)
	if method, why := p.meter.Method(); method != disks.BPF {
		p.About += "; seeks are not counted: " + why
	}
	return p, nil
}

// pastPageCache makes the loop device read its file with O_DIRECT.
func (d *device) pastPageCache() error {
	link, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%s", d))
	if err != nil {
		return err
	}
	node, err := os.Open("/dev/" + link[strings.LastIndexByte(link, '/')+1:])
	if err != nil {
		return err
	}
	defer node.Close()
	if err := unix.IoctlSetInt(int(node.Fd()), unix.LOOP_SET_DIRECT_IO, 1); err != nil {
		return fmt.Errorf("make %s read past the page cache: %w", node.Name(), err)
	}
	return nil
}

// Close ends counting and the model. Nobody may read any more.
func (p *Disk) Close() error {
	if p.meter != nil {
		return p.meter.Close()
	}
	return p.Model.Close()
}

// Count returns what the disk has done so far.
func (p *Disk) Count() (DiskCount, error) {
	if p.Model != nil {
		s := p.Model.Stats()
		return DiskCount{Read: s.Read, Seeks: s.Seeks, Requests: s.Requests, Busy: s.Busy.Seconds()}, nil
	}
	r, err := p.meter.Read()
	if err != nil {
		return DiskCount{}, err
	}
	s, err := r.Of(p.device)
	return DiskCount{Read: s.ReadBytes, Seeks: s.Seeks, Requests: s.Reads}, err
}

// DiskCount is what a disk has read. Seeks is disks.UnknownSeeks when nobody counts
// them.
type DiskCount struct {
	Read     int64   `json:"read"`
	Seeks    int64   `json:"seeks"`
	Requests int64   `json:"requests"`
	Busy     float64 `json:"busy,omitempty"`
}

// Since returns what was read after then.
func (c DiskCount) Since(then DiskCount) DiskCount {
	d := DiskCount{Read: c.Read - then.Read, Seeks: c.Seeks - then.Seeks, Requests: c.Requests - then.Requests, Busy: c.Busy - then.Busy}
	if c.Seeks == disks.UnknownSeeks {
		d.Seeks = disks.UnknownSeeks
	}
	return d
}

// InstrumentCPU returns the processor time of the server of a modelled disk.
func (p *Disk) InstrumentCPU() (float64, error) {
	if p.Model == nil {
		return 0, nil
	}
	t, err := p.Model.CPU()
	return t.Seconds(), err
}

// DiskNamed takes the modelled disk if no other is named.
func DiskNamed(place *string) error {
	if *place == "" {
		*place = Modelled
	}
	if !slices.Contains(DiskNames, *place) {
		return fmt.Errorf("place %q: want %s", *place, strings.Join(DiskNames, " or "))
	}
	return nil
}

// MakeRecords makes one on a disk, where it takes no time of a model.
func (d *Disk) MakeRecords(name string, bytes int64, first uint32) (work.RecordFile, error) {
	source := filepath.Join(d.source, name)
	all, err := work.WriteRecords(source, bytes, first)
	return work.RecordFile{Path: filepath.Join(d.Dir, name), Bytes: bytes / work.RecordBytes * work.RecordBytes, All: all}, err
}
