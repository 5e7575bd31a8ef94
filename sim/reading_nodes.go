package sim

import (
	"time"

	"headrace/policy"
	"headrace/trace"
)

// files is the distributed file system that inputs lie in: where they lie, and the
// part of every node in it. The engine has none when nothing is to be read.
type files struct {
	*pieces
	e     *engine
	c     Reading
	nodes []dataNode
	warm  warming
	view  readingView

	// jobs is the input of each job in bytes.
	jobs []int64
	// touched need an event, dirty have to look for something to warm.
	touched []*bandwidth
	dirty   []*dataNode
	ended   []*flow // buffer

	r ReadingResult
	// disks is what all disks have read, lost what was read for tasks whose reading
	// was thrown away.
	disks, lost int64
	sizes       [len(sizeNames)]sizeTally
}

// dataNode is the part of a node in the file system.
type dataNode struct {
	*pieces
	i int32
	// budget is how much may be pinned.
	budget int64
	disk   bandwidth
	net    bandwidth // what other nodes read from this one
	cache  *cache
	// fetching is what is being read from the disk, by its pieces.
	fetching map[int32]*fetch
	lane     lane
	dirty    bool
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
	// wish and want are what it is warmed for, nil when nothing.
	wish *wish
	want *want
}

// openFiles prepares the reading of inputs, if there are any and disks have a speed.
func (e *engine) openFiles() error {
	if e.c.Reading.Disk == 0 {
		return nil
	}
	jobs, any := jobInputs(e.w)
	if !any {
		return nil
	}
	p, err := cut(e.w, e.c)
	if err != nil {
		return err
	}
	if !e.c.Reading.ByResidency {
		how := e.c.Policy
		how.NoResidencyOrder = true
		e.planner = policy.NewPlanner(how)
	}
	d := &files{pieces: p, e: e, c: e.c.Reading, nodes: make([]dataNode, e.c.Nodes), jobs: jobs}
	for i := range d.nodes {
		n := &d.nodes[i]
		*n = dataNode{
			pieces:   p,
			i:        int32(i),
			budget:   d.c.Buffer,
			disk:     bandwidth{alone: d.c.Disk, shared: d.c.Shared, who: int32(i), kind: evDisk},
			net:      bandwidth{alone: e.c.Node.Net, shared: e.c.Node.Net, who: int32(i), kind: evNet},
			fetching: map[int32]*fetch{},
		}
		n.cache = newCache(d.c.Cache, func(piece int32, bytes int64) { d.evicted(n, piece, bytes) })
	}
	d.beginView()
	d.beginWarming(e.w)
	e.files = d
	return nil
}

// jobInputs is how many bytes each job reads, and whether any does.
func jobInputs(w *trace.Workload) (jobs []int64, any bool) {
	jobs = make([]int64, len(w.Jobs))
	for i := range w.Tasks {
		jobs[w.Tasks[i].Job] += w.Tasks[i].Input
		any = any || w.Tasks[i].Input > 0
	}
	return jobs, any
}

// touch brings b up to date, before it is changed, and sees that its event follows.
func (d *files) touch(b *bandwidth) {
	b.advance(d.e.now)
	if !b.touched {
		b.touched = true
		d.touched = append(d.touched, b)
	}
}

// look has warming look for something to do on n.
func (d *files) look(n *dataNode) {
	if !n.dirty && len(n.lane.active) > 0 {
		n.dirty = true
		d.dirty = append(d.dirty, n)
	}
}

// settle does what is left to be done after something has happened.
func (d *files) settle() {
	for i := 0; i < len(d.dirty); i++ {
		d.dirty[i].dirty = false
		d.warmNext(d.dirty[i])
	}
	d.dirty = d.dirty[:0]
	for _, b := range d.touched {
		b.touched = false
		b.gen++
		if after, ok := b.next(); ok {
			d.e.queue.add(event{at: d.e.now + after, who: b.who, gen: b.gen, kind: b.kind})
		}
	}
	d.touched = d.touched[:0]
}

// due: something has ended on b. All of it is in memory before anybody goes on, so
// that nobody waits for what has ended.
func (d *files) due(b *bandwidth, gen uint32) {
	if b.gen != gen {
		return
	}
	d.touch(b)
	d.ended = b.ended(d.ended[:0])
	for _, f := range d.ended {
		if f.f != nil {
			d.fetched(f.f)
		}
	}
	for _, f := range d.ended {
		if f.f == nil {
			d.part(f.t, overNet)
			continue
		}
		for _, t := range f.f.readers {
			d.part(t, onDisk)
		}
	}
}

// fetch begins to read pieces from the disk of n, for t or for warming.
func (d *files) fetch(n *dataNode, from, to int32, skip int64) *fetch {
	f := &fetch{n: n, from: from, to: to, skip: skip, flow: flow{place: nowhere}}
	f.flow.f = f
	if skip == 0 {
		for i := from; i < to; i++ {
			n.fetching[i] = f
		}
	}
	return f
}

// bytes is how much of some pieces is read.
func (d *files) bytes(from, to int32) int64 {
	last := &d.all[to-1]
	return last.start + last.bytes - d.all[from].start
}

// demand puts f among those that somebody waits for.
func (d *files) demand(f *fetch) {
	d.touch(&f.n.disk)
	switch f.flow.place {
	case nowhere:
		f.n.disk.add(&f.flow, d.bytes(f.from, f.to)-f.skip)
	case isBehind:
		f.n.disk.promote(&f.flow)
	}
}

// leave takes t off the readers of f.
func (d *files) leave(f *fetch, t *task) {
	for i, r := range f.readers {
		if r == t {
			f.readers = append(f.readers[:i], f.readers[i+1:]...)
			break
		}
	}
	if len(f.readers) > 0 {
		return
	}
	d.touch(&f.n.disk)
	if f.wish != nil {
		f.n.disk.demote(&f.flow)
		return
	}
	d.cancel(f)
}

// cancel ends f, which nobody wants any more.
func (d *files) cancel(f *fetch) {
	d.touch(&f.n.disk)
	d.disks += f.n.disk.had(&f.flow)
	f.n.disk.remove(&f.flow)
	d.unregister(f)
	d.look(f.n)
}

func (d *files) unregister(f *fetch) {
	if f.skip == 0 {
		for i := f.from; i < f.to; i++ {
			delete(f.n.fetching, i)
		}
	}
}

// fetched: f has been read, and is in memory now.
func (d *files) fetched(f *fetch) {
	n := f.n
	d.disks += f.flow.bytes
	d.unregister(f)
	if f.skip == 0 {
		for i := f.from; i < f.to; i++ {
			if n.cache.get(i) == nil && n.cache.put(i, d.all[i].bytes) {
				d.view.changed(d, n, i, d.all[i].bytes)
			}
		}
	}
	if f.wish != nil {
		d.warmed(f)
	}
	d.look(n)
}

// evicted: a piece has left the memory of n.
func (d *files) evicted(n *dataNode, piece int32, bytes int64) {
	d.view.changed(d, n, piece, -bytes)
	d.dropped(n, piece)
}

// busy is how long all disks have been busy.
func (d *files) busy() time.Duration {
	var sum time.Duration
	for i := range d.nodes {
		d.nodes[i].disk.advance(d.e.now)
		sum += d.nodes[i].disk.busy
	}
	return sum
}
