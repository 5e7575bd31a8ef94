package dfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing/synctest"
	"time"

	"headrace/block"
	"headrace/internal/vfs"
	"headrace/wire"
)

// modelDisk is one of a node's.
type modelDisk struct {
	dir   string
	mem   *vfs.Mem
	away  *vfs.Mem // what is on it while it is not mounted; nil: it is
	known bool     // it has had a store
	bad   []int64  // sectors of the file of the block that cannot be read until they are written
	fault *diskFault
	full  bool // no file of blocks grows on it
	// out: it has failed since the node began; lost: pages of it count as clean and are not on it, so that the machine ends before the node begins again, which could not know.
	out, lost       bool
	failed, mounted uint64 // how often
}

// path is where the file of the block is on it.
func (d *modelDisk) path() string { return d.dir + modelFile }

// since is the time in which nothing of it was lost.
func (d *modelDisk) since(boot uint64) uint64 { return boot<<32 + d.failed<<16 + d.mounted }

// diskFault is the failure of an operation of a kind, when so many of it have been.
type diskFault struct {
	kind string
	err  error // nil: it hangs
	left int
}

var diskFaults = []diskFault{{kind: "write", err: syscall.EIO}, {kind: "sync", err: syscall.EIO}, {kind: "syncdir", err: syscall.EIO}, {kind: "write"}, {kind: "sync"}, {kind: "read"}}

func (f *diskFault) String() string {
	if f.err == nil {
		return f.kind + " hangs"
	}
	return f.kind + ": " + f.err.Error()
}

// disks are those of a node, as one file system.
type disks struct{ n *modelNode }

func (d disks) Open(name string, flags int) (vfs.File, error) {
	return d.n.diskOf(name).mem.Open(name, flags)
}
func (d disks) MkdirAll(name string) error          { return d.n.diskOf(name).mem.MkdirAll(name) }
func (d disks) List(dir string) ([]string, error)   { return d.n.diskOf(dir).mem.List(dir) }
func (d disks) Rename(from, to string) error        { return d.n.diskOf(from).mem.Rename(from, to) }
func (d disks) Remove(name string) error            { return d.n.diskOf(name).mem.Remove(name) }
func (d disks) Lock(name string) (io.Closer, error) { return d.n.diskOf(name).mem.Lock(name) }

func (d disks) SyncDir(dir string) (err error) {
	if of := d.n.diskOf(dir); of != nil {
		return of.mem.SyncDir(dir)
	}
	for _, of := range d.n.disks { // where they are mounted
		err = errors.Join(err, of.mem.SyncDir(dir))
	}
	return err
}

func (d disks) Space(dir string) (free, total int64, err error) {
	of := d.n.diskOf(dir)
	free, total, err = of.mem.Space(dir)
	if of.full {
		free = min(free, total/200)
	}
	return free, total, err
}

// diskOf is the disk on which a name is, nil if it is on none.
func (n *modelNode) diskOf(name string) *modelDisk {
	i := slices.IndexFunc(n.disks, func(d *modelDisk) bool { return name == d.dir || strings.HasPrefix(name, d.dir+"/") })
	if i < 0 {
		return nil
	}
	return n.disks[i]
}

// files is the file system of a node, of which each operation may be the last.
func (n *modelNode) files(m *model) vfs.FS {
	var fs vfs.FS = disks{n}
	if m.fault.lazySync {
		fs = lazy{fs}
	}
	return &vfs.Faulty{FS: fs, Fail: func(op vfs.Op) error { return m.happens(n, op) }}
}

// happens is asked before each operation of a node's disks.
func (m *model) happens(n *modelNode, op vfs.Op) error {
	m.fired.Load() // nothing else orders what an operation noted that hangs
	if n.left > 0 {
		if n.left--; n.left == 0 {
			m.note("%s dies before %s", n.name, op.Kind)
			m.counts["died within"]++
			m.fall(m.oneIn(2), append(n.with, n)...)
		}
	}
	d := n.diskOf(op.Name)
	if d == nil || n.dying {
		return nil
	}
	hits := func(at int64) bool { return op.Name == d.path() && op.Off < at+modelSector && at < op.Off+op.Len }
	switch op.Kind {
	case "read":
		if slices.ContainsFunc(d.bad, hits) {
			return syscall.EIO
		}
	case "write", "punch":
		d.bad = slices.DeleteFunc(d.bad, hits)
	}
	if d.full && strings.HasPrefix(op.Name, d.dir+"/files/") && (op.Kind == "allocate" || op.Kind == "write" && op.Grows(d.mem)) {
		m.counts["full"]++
		return syscall.ENOSPC
	}
	f := d.fault
	if f == nil || op.Kind != f.kind || strings.HasSuffix(op.Name, "/VERSION") { // who looks whether a disk is there does not use it
		return nil
	}
	if f.left--; f.left > 0 {
		return nil
	}
	m.note("%s: %s: %s", n.name, op.Name, f)
	m.counts[f.String()]++
	if f.kind == "sync" && m.oneIn(2) {
		d.mem.FailSync(op.Name)
		d.lost = true
	}
	d.fault, d.out, n.struck = nil, true, true
	d.failed++
	m.fired.Add(1)
	if f.err == nil {
		<-m.hung
		return vfs.ErrDead
	}
	return f.err
}

// has notes how many bytes a node has for certain, and on which disk.
func (n *modelNode) has(kept, synced int) {
	n.kept, n.synced = kept, synced
	i, err := n.k.n.Blocks.Stat(modelBlock)
	out := slices.IndexFunc(n.disks, func(d *modelDisk) bool { return d.out })
	switch {
	case err == nil:
		n.home = n.diskOf(i.Dir)
	case errors.Is(err, block.ErrOut) && out >= 0: // it has failed when all was done
		n.home = n.disks[out]
	case !n.dying:
		panic(broken{fmt.Sprintf("%s does not have the block, which it has acknowledged: %v", n.name, err)})
	}
}

// shut reports whether the disk with what a node has cannot be used until it is begun again. The node is to say so.
func (m *model) shut(n *modelNode) bool {
	m.fired.Load()
	if n.home == nil || !n.home.out && n.home.away == nil {
		return false
	}
	if n.alive && !n.dying && !n.hurt && n.synced > 0 {
		_, err := n.k.n.Blocks.Stat(modelBlock)
		v := n.k.n.Blocks.Volumes()[slices.Index(n.disks, n.home)]
		if errors.Is(err, block.ErrNotFound) && v.Unseen == nil {
			m.fatalf("%s does not say that %s may have the block: %v", n.name, n.home.dir, err)
		}
	}
	return true
}

// excused reports whether a node need not do what is asked: a disk has failed just now, or that with the block, or it dies.
func (m *model) excused(n *modelNode) bool { return m.shut(n) || n.struck || n.dying }

// ails reports whether a disk of a node is not as it should be, or about to fail.
func (m *model) ails(n *modelNode) bool {
	m.fired.Load()
	return slices.ContainsFunc(n.disks, func(d *modelDisk) bool { return d.fault != nil || d.out || d.away != nil })
}

// diskTrouble does something to one of the disks of a node that has several. Of these one at a time cannot be used, but that one may fail while another is not mounted.
func (m *model) diskTrouble(n *modelNode) {
	d := n.disks[m.r.IntN(len(n.disks))]
	fails := slices.ContainsFunc(n.disks, func(d *modelDisk) bool { return d.fault != nil || d.out })
	away := slices.IndexFunc(n.disks, func(d *modelDisk) bool { return d.away != nil })
	switch op := m.r.IntN(13); {
	case op < 3 && !fails && d.away == nil:
		f := diskFaults[m.r.IntN(len(diskFaults))]
		f.left = 1 + m.r.IntN(8)
		d.fault = &f
		m.note("%s is to fail at %s: %s", d.dir, n.name, &f)
	case op == 3:
		if d.full = !d.full; d.full {
			m.note("%s is full at %s", d.dir, n.name)
		}
	case op == 4 && d.known && !m.ails(n):
		m.end1(n, m.oneIn(2))
		m.note("%s is not mounted at %s", d.dir, n.name)
		m.counts["not mounted"]++
		d.away, d.mem = d.mem, vfs.NewMem(64<<20, m.r.Uint64())
	case op >= 10 && n.alive && away >= 0 && n.home != nil && n.home.away == nil && !fails: // with an older one, perhaps
		other := n.disks[away]
		if m.unmount(n, n.home); n.alive {
			m.mount(n, other)
		} else {
			m.cure(n)
		}
	case op >= 8 && n.alive && away >= 0:
		m.mount(n, n.disks[away])
	case op >= 8 && n.alive && d.known && (!m.ails(n) || d.out):
		m.unmount(n, d)
	case op == 5 && m.ails(n):
		m.end1(n, m.oneIn(2))
		m.cure(n)
	case op == 6 && (!m.ails(n) || d.out || d.away != nil) && (n.home != d || !m.recorded(n) || m.spared(n)):
		m.end1(n, m.oneIn(2))
		m.replace(n, d)
		m.counts["replaced"]++
	}
}

// unmount has a disk of a node that runs be away, as one that is pulled out or has lost pages, or with all that the kernel had of it.
func (m *model) unmount(n *modelNode, d *modelDisk) {
	pulled := d.lost || m.oneIn(2)
	m.note("%s goes away at %s, pulled out %v", d.dir, n.name, pulled)
	m.counts["gone"]++
	d.mem.Kill()
	d.mem.Restart(pulled)
	if n.home == d && pulled {
		n.kept = n.synced
	}
	d.away, d.mem = d.mem, vfs.NewMem(64<<20, m.r.Uint64())
	d.fault, d.out, d.lost = nil, false, false
	n.attach()
	m.reap()
}

// mount has it be there again, while the node runs.
func (m *model) mount(n *modelNode, d *modelDisk) {
	m.note("%s comes back at %s", d.dir, n.name)
	d.mem, d.away = d.away, nil
	d.mounted++
	n.attach()
	m.finds(n)
	if !d.out && !n.dying {
		m.counts["come back"]++
	}
	m.reap()
}

// finds notes which disk has what a node has of the block, since all disks of that are there: of two copies it may have kept the other one.
func (m *model) finds(n *modelNode) {
	if m.shut(n) || n.dying {
		return
	}
	if i, err := n.k.n.Blocks.Stat(modelBlock); err == nil {
		n.home = n.diskOf(i.Dir)
	}
}

// attach has a node look which of its disks are there, until it has let go of those that are not.
func (n *modelNode) attach() {
	for range 2 {
		block.Attach(n.k.n.Blocks)
		synctest.Wait()
	}
}

// end1 ends a node, at once.
func (m *model) end1(n *modelNode, power bool) {
	m.fall(power, n)
	m.reap()
}

// cure has the disks of a node that does not run be as they were.
func (m *model) cure(n *modelNode) {
	for _, d := range n.disks {
		if d.away != nil {
			m.note("%s is mounted again at %s", d.dir, n.name)
			m.counts["mounted again"]++
			d.mem, d.away = d.away, nil
			d.mounted++
		}
		d.fault, d.full = nil, false
	}
}

// replace gives a node that does not run another disk, as its operator says.
func (m *model) replace(n *modelNode, d *modelDisk) {
	m.note("%s gets another disk for %s", n.name, d.dir)
	if *d = (modelDisk{dir: d.dir, mem: vfs.NewMem(64<<20, m.r.Uint64())}); n.home == d {
		n.hurt, n.kept, n.synced = true, 0, 0
	}
}

// spared reports whether all that was acknowledged is at another node that is recorded, and all others are well.
func (m *model) spared(n *modelNode) bool {
	good := 0
	for _, name := range m.at {
		if o := m.of(name); o != n && o.hurt {
			return false
		} else if o != n && o.kept >= m.acked {
			good++
		}
	}
	return good > 0
}

// lazy does not sync the blocks.
type lazy struct{ vfs.FS }

func (l lazy) Open(name string, flags int) (vfs.File, error) {
	f, err := l.FS.Open(name, flags)
	if err != nil || !strings.HasSuffix(name, modelFile) {
		return f, err
	}
	return lazyFile{f}, nil
}

type lazyFile struct{ vfs.File }

func (lazyFile) Sync() error { return nil }

func (n *modelNode) open(m *model) {
	c := block.Config{FS: n.files(m), OneByOne: true, Patience: time.Minute, Since: func(dir string) uint64 { return n.diskOf(dir).since(n.boot) },
		Failures: func(dir string) uint64 { return n.diskOf(dir).failed }}
	for _, d := range n.disks {
		d.out = false
		if c.Dirs = append(c.Dirs, d.dir); d.known && !m.fault.knowsNoDisk {
			c.Known = append(c.Known, d.dir)
		}
	}
	s, err := block.Open(c)
	if n.dying {
		m.note("%s dies while it starts", n.name)
		m.reap()
		return
	}
	if err != nil && n.struck && slices.ContainsFunc(n.disks, func(d *modelDisk) bool { return d.away != nil }) {
		m.note("%s has no disk: %v", n.name, err)
		m.end1(n, false)
		return
	}
	if err != nil {
		m.fatalf("open %s: %v", n.name, err)
	}
	for i, v := range s.Volumes() {
		n.disks[i].known = n.disks[i].known || v.Identified
	}
	n.k, n.alive, n.w = newKeeper(&Node{Blocks: s, ctx: context.Background(), Config: Config{}.filled()}), true, nil
	n.k.locate = func(context.Context, int64) (*wire.LocateResponse, error) {
		w := m.wanted()
		if m.fencing && m.fault.seesNothingNewer {
			w.Stamp = 0
		}
		return &wire.LocateResponse{Wanted: w, Complete: m.closed}, nil
	}
	m.note("%s is back", n.name)
	m.finds(n)
	if m.oneIn(2) { // what may have lost its end is read first, before or after others ask
		s.Scrub(context.Background(), 1<<40)
		m.reap()
	}
}

// fall ends processes, and with power their machines, all at one moment, in the middle of whatever is done there.
func (m *model) fall(power bool, nodes ...*modelNode) {
	for _, n := range nodes {
		if !n.dying {
			n.dying, n.power = true, power
			for _, d := range n.disks {
				d.mem.Kill()
				if d.away != nil {
					d.away.Kill()
				}
				n.power = n.power || d.lost
			}
		}
	}
}

// reap buries those who fell. It follows each call of a node.
func (m *model) reap() {
	m.fired.Load()
	for _, n := range m.nodes {
		n.struck = false
		if !n.dying {
			continue
		}
		for _, d := range n.disks {
			d.mem.Restart(n.power)
			if d.away != nil { // unless it was pulled out, it may still be in use elsewhere on the machine, with pages that are not on it
				d.away.Restart(n.power)
			}
			d.out, d.lost = false, false
		}
		n.dying, n.alive, n.w, n.copying, n.left = false, false, nil, nil, 0
		if n.power {
			m.counts["power lost"]++
			n.kept = n.synced
			if !m.fault.sameBoot {
				n.boot++
			}
		}
	}
}

// kill ends a node's process, and with power its machine.
func (m *model) kill(n *modelNode, power bool) {
	if m.calm {
		return
	}
	m.note("%s dies, power %v", n.name, power)
	m.fall(power, n)
	m.reap()
}

// some returns some nodes, or all.
func (m *model) some() (nodes []*modelNode) {
	for _, n := range m.nodes {
		if m.oneIn(2) {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return m.nodes
	}
	return nodes
}

// damage flips a bit of what a node has of the block, or takes a sector from it. Of those that are recorded it is one at a time.
func (m *model) damage(n *modelNode) {
	d := n.home
	if !m.spared(n) || !m.recorded(n) || m.shut(n) {
		return
	}
	f, err := d.mem.Open(d.path(), os.O_RDWR)
	if err != nil {
		return // it has lost the file with the power
	}
	size, _ := f.Size()
	all := make([]byte, size)
	if _, err := f.ReadAt(all, 0); err != nil && err != io.EOF {
		m.fatalf("%v", err)
	}
	f.Close()
	var used []int64 // sectors with something in them, that are no headers
	header := func(page []byte) bool {
		return bytes.HasPrefix(page, []byte("HRblock1")) || len(page) > 2048 && bytes.HasPrefix(page[2048:], []byte("HRblock1"))
	}
	for at := 0; at < len(all); at += modelSector {
		if s := all[at:min(at+modelSector, len(all))]; len(bytes.Trim(s, "\x00")) > 0 && !header(all[at/4096*4096:]) {
			used = append(used, int64(at))
		}
	}
	if len(used) == 0 {
		return
	}
	at := used[m.r.IntN(len(used))]
	n.hurt = true
	n.damages++
	if m.oneIn(2) {
		m.note("%s cannot read its sector at %d", n.name, at)
		d.bad = append(d.bad, at)
		m.counts["EIO"]++
		return
	}
	at += m.r.Int64N(modelSector)
	m.note("a bit of %s at %d flips", n.name, at)
	d.mem.Flip(d.path(), at, uint(m.r.IntN(8)))
	m.counts["flipped"]++
}

// read returns the bytes that a node gives of a generation of the block, which it has compared with their checksums.
func (n *modelNode) read(stamp uint64, length int64) (data []byte, err error) {
	r, err := n.k.n.Blocks.Open(block.Block{ID: modelBlock, Stamp: stamp}, 0, length)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		p, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return data[:min(int64(len(data)), length)], nil // a part ends with a chunk
		}
		if err != nil {
			return data, err
		}
		data = append(data, p.Data...)
	}
}
