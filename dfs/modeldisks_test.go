package dfs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"headrace/block"
	"headrace/internal/vfs"
	"headrace/wire"
)

// disk is the node's, of which each operation may be the last, and of which sectors may not be readable until they are written.
func (n *modelNode) disk(m *model) vfs.FS {
	var fs vfs.FS = n.mem
	if m.fault.lazySync {
		fs = lazy{fs}
	}
	return &vfs.Faulty{FS: fs, Fail: func(op vfs.Op) error {
		if n.left > 0 {
			if n.left--; n.left == 0 {
				m.note("%s dies before %s", n.name, op.Kind)
				m.counts["died within"]++
				m.fall(m.oneIn(2), append(n.with, n)...)
			}
		}
		hits := func(at int64) bool { return op.Name == modelPath && op.Off < at+modelSector && at < op.Off+op.Len }
		switch op.Kind {
		case "read":
			if slices.ContainsFunc(n.bad, hits) {
				return syscall.EIO
			}
		case "write", "punch":
			n.bad = slices.DeleteFunc(n.bad, hits)
		}
		return nil
	}}
}

// lazy does not sync the blocks.
type lazy struct{ vfs.FS }

func (l lazy) Open(name string, flags int) (vfs.File, error) {
	f, err := l.FS.Open(name, flags)
	if err != nil || name != modelPath {
		return f, err
	}
	return lazyFile{f}, nil
}

type lazyFile struct{ vfs.File }

func (lazyFile) Sync() error { return nil }

func (n *modelNode) open(m *model) {
	s, err := block.Open(block.Config{Dirs: []string{"/d"}, FS: n.disk(m), Patience: time.Minute, Since: func(string) uint64 { return n.boot }})
	if n.dying {
		m.note("%s dies while it starts", n.name)
		m.reap()
		return
	}
	if err != nil {
		m.fatalf("open %s: %v", n.name, err)
	}
	n.k, n.alive, n.w = newKeeper(&Node{Blocks: s, ctx: context.Background(), Config: Config{}.filled()}), true, nil
	n.k.locate = func(context.Context, int64) (*wire.LocateResponse, error) {
		return &wire.LocateResponse{Wanted: m.wanted()}, nil
	}
	m.note("%s is back", n.name)
	if m.oneIn(2) { // what may have lost its end is read first, before or after others ask
		s.Scrub(context.Background(), 1<<40)
		m.reap()
	}
}

// fall ends processes, and with power their machines, all at one moment, in the middle of whatever is done there.
func (m *model) fall(power bool, nodes ...*modelNode) {
	for _, n := range nodes {
		if !n.dying {
			n.mem.Kill()
			n.dying, n.power = true, power
		}
	}
}

// reap buries those who fell. It follows each call of a node.
func (m *model) reap() {
	for _, n := range m.nodes {
		if !n.dying {
			continue
		}
		n.mem.Restart(n.power)
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
	good := 0
	for _, name := range m.at {
		if o := m.of(name); o != n && o.hurt {
			return
		} else if o != n && o.kept >= m.acked {
			good++
		}
	}
	if good == 0 || !m.recorded(n) {
		return
	}
	f, err := n.mem.Open(modelPath, os.O_RDWR)
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
	if m.oneIn(2) {
		m.note("%s cannot read its sector at %d", n.name, at)
		n.bad = append(n.bad, at)
		m.counts["EIO"]++
		return
	}
	at += m.r.Int64N(modelSector)
	m.note("a bit of %s at %d flips", n.name, at)
	n.mem.Flip(modelPath, at, uint(m.r.IntN(8)))
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
