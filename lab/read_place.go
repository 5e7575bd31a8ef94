package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	disks "headrace/disk"
	"headrace/lab/slowdisk"
)

// The places where bench read reads.
const (
	placeModelled = "modelled"
	placeDevice   = "device"
)

var readPlaces = []string{placeModelled, placeDevice}

// A readPlace is a disk with counters.
type readPlace struct {
	name string
	*readingDisk

	// Of a device.
	meter  *disks.Meter
	device disks.Device
	about  string
}

// openPlace makes a disk with room for bytes.
func (h *harness) openPlace(ctx context.Context, name string, bytes int64) (*readPlace, error) {
	if name == placeModelled {
		if err := slowdisk.Check(); err != nil {
			return nil, err
		}
		d, err := h.modelledDisk(ctx)
		if err != nil {
			return nil, err
		}
		return &readPlace{name: name, readingDisk: d, about: d.String()}, nil
	}
	return h.openDevice(bytes)
}

// openDevice makes a file system of its own on a loop device over a file on the
// disk of the scratch, so that nobody else's requests are counted. The file is
// read past the page cache: else nothing would be read from the disk.
func (h *harness) openDevice(bytes int64) (p *readPlace, err error) {
	dev, err := h.disk.addDevice(placeDevice, bytes+bytes/16+64<<20, h.disk)
	if err != nil {
		return nil, err
	}
	if err := dev.pastPageCache(); err != nil {
		return nil, err
	}
	p = &readPlace{name: placeDevice, readingDisk: &readingDisk{dir: dev.dir, source: dev.dir}}
	if p.meter, err = disks.NewMeter(disks.MeterOptions{}); err != nil {
		return nil, err
	}
	dir, err := os.Open(dev.dir)
	if err == nil {
		p.device, err = (&disks.Devices{}).Of(dir)
		dir.Close()
	}
	if err != nil {
		return nil, errors.Join(err, p.meter.Close())
	}
	p.about = fmt.Sprintf("a loop device (%s, ext4, past the page cache) on the disk of %s", p.device.Name, h.dir)
	if method, why := p.meter.Method(); method != disks.BPF {
		p.about += "; seeks are not counted: " + why
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

func (p *readPlace) close() error {
	if p.meter != nil {
		return p.meter.Close()
	}
	return p.readingDisk.close()
}

// count is what the disk has done so far.
func (p *readPlace) count() (diskCount, error) {
	if p.model != nil {
		s := p.stats()
		return diskCount{Read: s.Read, Seeks: s.Seeks, Requests: s.Requests, Busy: s.Busy.Seconds()}, nil
	}
	r, err := p.meter.Read()
	if err != nil {
		return diskCount{}, err
	}
	s, err := r.Of(p.device)
	return diskCount{Read: s.ReadBytes, Seeks: s.Seeks, Requests: s.Reads}, err
}

// diskCount is what a disk has read. Seeks is disks.UnknownSeeks when nobody counts
// them.
type diskCount struct {
	Read     int64   `json:"read"`
	Seeks    int64   `json:"seeks"`
	Requests int64   `json:"requests"`
	Busy     float64 `json:"busy,omitempty"`
}

func (c diskCount) since(then diskCount) diskCount {
	d := diskCount{Read: c.Read - then.Read, Seeks: c.Seeks - then.Seeks, Requests: c.Requests - then.Requests, Busy: c.Busy - then.Busy}
	if c.Seeks == disks.UnknownSeeks {
		d.Seeks = disks.UnknownSeeks
	}
	return d
}

// instrumentCPU is the processor time of the server of a modelled disk.
func (p *readPlace) instrumentCPU() (float64, error) {
	if p.model == nil {
		return 0, nil
	}
	t, err := p.model.CPU()
	return t.Seconds(), err
}
