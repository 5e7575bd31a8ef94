package sim

import (
	"fmt"
	"slices"
	"time"
)

// storage is the part of all nodes in the file system: their disks, networks and page
// caches. It knows who reads what, and not why.
type storage struct {
	*pieces
	clock *clock
	nodes []dataNode
	above watcher
	// touched need an event.
	touched []*bandwidth
	done    []*flow // buffer
	read    int64   // what all disks have read
}

// watcher is told what happens in storage.
type watcher interface {
	// changed: bytes of a piece are in the memory of n; negative: they are there no more.
	changed(n *dataNode, piece int32, bytes int64)
	// warmed: what was read ahead is in memory.
	warmed(f *fetch)
	// free: the disk of n may have less to do than before.
	free(n *dataNode)
}

// dataNode is the part of a node in the file system.
type dataNode struct {
	i     int32
	disk  bandwidth
	net   bandwidth // what other nodes read from this one
	cache *cache
	// fetching is what is being read from the disk, by its pieces.
	fetching map[int32]*fetch
}

// fetch is pieces of one block, one after the other, that are being read from a
// node's disk: for those who wait for them, for warming, or for both.
type fetch struct {
	n        *dataNode
	from, to int32 // pieces
	// skip is how much of the first piece is not read, because its reader has it. Such
	// a fetch is its reader's alone, and nothing of it enters the cache.
	skip    int64
	flow    flow
	readers []*task
	ahead   bool // warming wants it
}

func newStorage(at *clock, p *pieces, c *Config, above watcher) *storage {
	d := &storage{pieces: p, clock: at, nodes: make([]dataNode, c.Nodes), above: above}
	for i := range d.nodes {
		n := &d.nodes[i]
		*n = dataNode{
			i:        int32(i),
			disk:     bandwidth{alone: c.Reading.Disk, shared: c.Reading.Shared, who: int32(i), kind: evDisk},
			net:      bandwidth{alone: c.Node.Net, shared: c.Node.Net, who: int32(i), kind: evNet},
			fetching: map[int32]*fetch{},
			cache:    newCache(c.Reading.Cache, func(piece int32, bytes int64) { above.changed(n, piece, -bytes) }),
		}
	}
	return d
}

// touch brings b up to date, before it is changed, and sees that its event follows.
func (d *storage) touch(b *bandwidth) {
	b.advance(d.clock.now)
	if !b.touched {
		b.touched = true
		d.touched = append(d.touched, b)
	}
}

// settle adds the events of what was touched.
func (d *storage) settle() {
	for _, b := range d.touched {
		b.touched = false
		b.gen++
		if after, ok := b.next(); ok {
			d.clock.in(after, event{who: b.who, gen: b.gen, kind: b.kind})
		}
	}
	d.touched = d.touched[:0]
}

// due returns what has ended on a disk or network of n, until the next call. All of it
// is in memory before anybody goes on, so that nobody waits for what has ended.
func (d *storage) due(ev event) []*flow {
	n := &d.nodes[ev.who]
	b := &n.disk
	if ev.kind == evNet {
		b = &n.net
	}
	if b.gen != ev.gen {
		return nil
	}
	d.touch(b)
	d.done = b.ended(d.done[:0])
	for _, f := range d.done {
		if f.f != nil {
			d.load(f.f)
		}
	}
	return d.done
}

// fetch begins to read pieces from the disk of n, for readers or for warming.
func (d *storage) fetch(n *dataNode, from, to int32, skip int64) *fetch {
	f := &fetch{n: n, from: from, to: to, skip: skip, flow: flow{place: nowhere}}
	f.flow.f = f
	if skip == 0 {
		for i := from; i < to; i++ {
			n.fetching[i] = f
		}
	}
	return f
}

// bytes returns how much of some pieces is read.
func (d *storage) bytes(from, to int32) int64 {
	last := &d.all[to-1]
	return last.start + last.bytes - d.all[from].start
}

// demand puts f among those that somebody waits for.
func (d *storage) demand(f *fetch) {
	d.touch(&f.n.disk)
	switch f.flow.place {
	case nowhere:
		f.n.disk.add(&f.flow, d.bytes(f.from, f.to)-f.skip)
	case isBehind:
		f.n.disk.promote(&f.flow)
	}
}

// leave takes t off the readers of f.
func (d *storage) leave(f *fetch, t *task) {
	f.readers = slices.DeleteFunc(f.readers, func(r *task) bool { return r == t })
	if len(f.readers) > 0 {
		return
	}
	d.touch(&f.n.disk)
	if f.ahead {
		f.n.disk.demote(&f.flow)
		return
	}
	d.cancel(f)
}

// cancel ends f, which nobody wants any more.
func (d *storage) cancel(f *fetch) {
	d.touch(&f.n.disk)
	d.read += f.n.disk.had(&f.flow)
	f.n.disk.remove(&f.flow)
	d.unregister(f)
	d.above.free(f.n)
}

func (d *storage) unregister(f *fetch) {
	if f.skip == 0 {
		for i := f.from; i < f.to; i++ {
			delete(f.n.fetching, i)
		}
	}
}

// load enters f, which has been read, into memory.
func (d *storage) load(f *fetch) {
	d.read += f.flow.bytes
	d.unregister(f)
	if f.skip == 0 {
		for i := f.from; i < f.to; i++ {
			if f.n.cache.get(i) == nil && f.n.cache.put(i, d.all[i].bytes) {
				d.above.changed(f.n, i, d.all[i].bytes)
			}
		}
	}
	if f.ahead {
		d.above.warmed(f)
	}
	d.above.free(f.n)
}

// busy returns how long all disks have been busy.
func (d *storage) busy() time.Duration {
	var sum time.Duration
	for i := range d.nodes {
		d.nodes[i].disk.advance(d.clock.now)
		sum += d.nodes[i].disk.busy
	}
	return sum
}

// verify checks the invariants of memory and disks that hold at any time.
func (d *storage) verify() error {
	for i := range d.nodes {
		n := &d.nodes[i]
		var bytes, kept int64
		pins := 0
		for piece, x := range n.cache.entries {
			bytes += x.bytes
			if x.piece != piece || x.bytes != d.all[piece].bytes || x.pins < 0 || (x.pins == 0) != (x.at != nil) {
				return fmt.Errorf("piece %d in the memory of node %d is not what it should be", piece, i+1)
			}
			if x.pins > 0 {
				kept += x.bytes
				pins++
			}
		}
		if bytes != n.cache.bytes || bytes > n.cache.size || kept != n.cache.pinned || pins != n.cache.pins {
			return fmt.Errorf("node %d has %d bytes in memory, counted as %d, of %d; %d are kept, counted as %d",
				i+1, bytes, n.cache.bytes, n.cache.size, kept, n.cache.pinned)
		}
		for _, f := range n.disk.flows {
			if len(f.f.readers) == 0 {
				return fmt.Errorf("node %d reads something before others that nobody waits for", i+1)
			}
		}
		if f := n.disk.behind; f != nil && (len(f.f.readers) > 0 || !f.f.ahead) {
			return fmt.Errorf("node %d reads ahead what somebody waits for, or nobody wants", i+1)
		}
	}
	return nil
}
