package data

import (
	"headrace/disk"
	"headrace/serve"
	"headrace/wire"
)

// maxHanging is how many of those that hang or wait at a disk are named.
const maxHanging = 3

// hangs tells which disks and file servers do not answer; named: also whom.
func (r *reading) hangs(named bool) (all []*wire.DiskHang) {
	for _, h := range r.hanging() {
		all = append(all, wireHang(h, named))
	}
	return all
}

func (r *reading) hanging() []disk.Hang {
	all := r.disks.Hangs()
	if r.others != nil {
		all = append(all, r.others()...)
	}
	return all
}

func wireHang(h disk.Hang, named bool) *wire.DiskHang {
	m := &wire.DiskHang{
		Disk: h.Name, Mount: serve.Shown(h.Mount), SinceMs: h.Since.UnixMilli(), Silent: h.Silent,
		Hanging: uint32(len(h.Hanging)), Waiting: uint32(len(h.Waiting)),
	}
	if named {
		m.WhoHangs, m.WhoWaits = shownNames(h.Hanging), shownNames(h.Waiting)
	}
	return m
}

func shownNames(names []string) (all []string) {
	for _, n := range names[:min(len(names), maxHanging)] {
		all = append(all, serve.Shown(n))
	}
	return all
}
