package sim

import "time"

// input is what a task has to read, and how far it is.
type input struct {
	first, last int32 // its pieces
	place             // where it is
	saved       place // where it was in its last checkpoint

	// What it reads now: the pieces from place.at to before to, all from the same
	// place, since began. parts is what it waits for.
	to      int32
	began   time.Duration
	parts   part
	from    source
	fetch   *fetch
	net     flow
	netNode *dataNode
	// there is how many bytes of that were in memory already when it came to a fetch
	// under way.
	there int64

	nodes []int32 // those that the policy is told about
	// The policy is told of the pieces from known to before knownTo that it has read them, and
	// not yet of slow bytes from a disk.
	known, knownTo int32
	slow           int64
}

// place is how far a task has read.
type place struct {
	at  int32 // the piece
	had int64 // bytes of it
	// done is all that it has read, took how long that took, until its phase began.
	done int64
	took time.Duration
}

// part is something that a task waits for before it has what it reads now.
type part uint8

const (
	// onDisk: a disk reads it.
	onDisk part = 1 << iota
	// overNet: it comes from another node.
	overNet
	// inMemory: it is copied.
	inMemory
)

// source is where a task reads from, for the accounts.
type source struct {
	memory, warmed, remote bool
}

// beginInput is called when t is submitted.
func (d *files) beginInput(t *task) {
	if t.spec.Input == 0 {
		return
	}
	first, last := d.of(t.spec)
	t.in = &input{first: first, last: last, place: place{at: first}}
	t.in.saved = t.in.place
	t.in.net = flow{t: t, place: nowhere}
	t.v.Input.Bytes = t.spec.Input
	d.view.enter(t)
}

// reads lets t go on reading, and reports false when it has read all of its input.
func (d *files) reads(t *task) bool {
	r := t.in
	if r == nil || r.at == r.last {
		return false
	}
	if t.phase != reading {
		d.tally.turn(t, reading)
	}
	r.began, r.parts, r.fetch, r.there = d.clock.now, 0, nil, 0
	d.choose(t)
	if !r.from.memory {
		for i := r.at; i < r.to; i++ {
			d.warm.passed(t.spec.Job, i)
		}
	}
	return true
}

// choose decides where t reads what is next, and begins.
//
// What is in the memory of its own node is read there. What is kept in the memory of
// the node that has warmed it is read over the network, where that has more to give
// now than the task's own disk (ignem, section III.A.2: one replica in memory is
// enough). Otherwise a task reads from its own disk, or if there is no replica from a
// node that has one: the one that is warming it, or one chosen at random. Nobody
// knows what else is in the memory of other nodes.
func (d *files) choose(t *task) {
	r := t.in
	var buf [8]int32
	nodes := d.replicasOf(r.at, buf[:0])
	own, local := &d.nodes[t.node.i], false
	for _, n := range nodes {
		local = local || n == own.i
	}
	home := &d.nodes[nodes[0]]
	warm := home != own && home.cache.keeps(r.at)
	switch {
	case local && own.cache.get(r.at) != nil:
		d.readMemory(t, own)
	case !local && d.warm.reads(home, r.at), warm && (!local || home.net.each(len(home.net.flows)+1) > own.disk.each(len(own.disk.flows)+1)):
		d.readNet(t, home)
	case local:
		d.readDisk(t, own)
	default:
		any := mix(d.seed+uint64(t.spec.Job)<<32+uint64(r.at)) % uint64(len(nodes))
		d.readNet(t, &d.nodes[nodes[any]])
	}
}

// readMemory reads what is in the memory of t's own node.
func (d *files) readMemory(t *task, n *dataNode) {
	d.together(t, n)
	t.in.parts = inMemory
	d.copy(t, d.bytes(t.in.at, t.in.to)-t.in.had)
}

// copy lets t wait for bytes to be copied from memory.
func (d *files) copy(t *task, bytes int64) { d.clock.later(t, transfer(bytes, d.c.Memory), evRead) }

// readDisk reads from the disk of n, or waits with others for what is being read
// there.
func (d *files) readDisk(t *task, n *dataNode) {
	r := t.in
	r.parts |= onDisk
	r.from.memory = false
	if f := n.fetching[r.at]; f != nil && r.had == 0 {
		r.to = min(f.to, r.last)
		n.disk.advance(d.clock.now)
		if r.there = d.overlap(r, f); r.there > 0 {
			r.from.warmed = f.ahead
			r.parts |= inMemory
			d.copy(t, r.there)
		}
		r.fetch = f
	} else {
		d.together(t, n)
		r.fetch = d.fetch(n, r.at, r.to, r.had)
	}
	r.fetch.readers = append(r.fetch.readers, t)
	d.demand(r.fetch)
}

// readNet reads from the memory or the disk of another node. The disk and the
// network work at the same time: what takes longer counts.
func (d *files) readNet(t *task, n *dataNode) {
	r := t.in
	if n.cache.get(r.at) != nil {
		d.together(t, n)
	} else {
		d.readDisk(t, n)
		r.from.remote = true
	}
	r.parts |= overNet
	r.netNode = n
	d.touch(&n.net)
	n.net.add(&r.net, d.bytes(r.at, r.to)-r.had)
}

// together finds how many pieces of the block t reads in one go from n: those that
// are as the first one is.
func (d *files) together(t *task, n *dataNode) {
	r := t.in
	x := n.cache.get(r.at)
	r.from = source{memory: x != nil, warmed: x != nil && x.pins > 0}
	r.to = r.at
	for r.to < r.last && (r.to == r.at || r.had == 0 && d.sameBlock(r.at, r.to)) {
		y := n.cache.get(r.to)
		if (y != nil) != r.from.memory || y != nil && (y.pins > 0) != r.from.warmed || r.to > r.at && n.fetching[r.to] != nil {
			break
		}
		if y != nil {
			n.cache.use(y)
		}
		r.to++
	}
}

// overlap returns how many of the bytes that f has read so far t wants now.
func (d *files) overlap(r *input, f *fetch) int64 {
	had := f.n.disk.had(&f.flow)
	if f.skip > 0 {
		return had
	}
	before := int64(0)
	if r.at > f.from {
		before = d.bytes(f.from, r.at)
	}
	return max(0, min(had-before, d.bytes(r.at, r.to)))
}

// part notes that t has one of the things it waits for. When it has all it goes on
// with what is next.
func (d *files) part(t *task, p part) {
	r := t.in
	r.parts &^= p
	if r.parts != 0 {
		return
	}
	d.account(t, d.bytes(r.at, r.to)-r.had)
	if !d.reads(t) {
		d.goOn(t)
	}
}

// stopReading ends the reading of t where it is.
func (d *files) stopReading(t *task) {
	r := t.in
	bytes := d.bytes(r.at, r.to) - r.had
	if r.parts&onDisk != 0 {
		d.touch(&r.fetch.n.disk)
		bytes = min(bytes, d.overlap(r, r.fetch))
		d.leave(r.fetch, t)
	}
	if r.parts&inMemory != 0 {
		bytes = min(bytes, int64((d.clock.now-r.began).Seconds()*d.c.Memory))
	}
	if r.parts&overNet != 0 {
		n := r.netNode
		d.touch(&n.net)
		bytes = min(bytes, n.net.had(&r.net))
		n.net.remove(&r.net)
	}
	r.parts = 0
	d.account(t, bytes)
}

// account enters that t has read so many bytes of what it reads now.
func (d *files) account(t *task, bytes int64) {
	r := t.in
	memory := min(bytes, r.there)
	if r.from.memory {
		memory = bytes
	}
	d.r.Bytes += bytes
	d.r.FromMemory += memory
	if r.from.warmed {
		d.r.Warmed += memory
	}
	if r.from.remote {
		d.r.Remote += bytes - memory
	}
	if r.netNode != nil {
		d.r.Network += bytes
	}
	r.done += bytes
	from, slow := r.at, bytes-memory
	for bytes += r.had; r.at < r.to && bytes >= d.all[r.at].bytes; r.at++ {
		bytes -= d.all[r.at].bytes
		if r.from.memory {
			d.warm.passed(t.spec.Job, r.at)
		}
	}
	r.had = bytes
	d.view.passed(t, from, r.at, slow)
	if !r.from.memory {
		for i := r.at; i < r.to; i++ {
			d.warm.wantAgain(t.spec.Job, i)
		}
	}
	r.from, r.there, r.fetch, r.netNode = source{}, 0, nil, nil
}

// save notes that what t has read is in a checkpoint.
func (d *files) save(t *task) {
	if r := t.in; r != nil {
		r.saved = r.place
		d.view.forget(t)
	}
}

// loseReading throws away what t has read since its last checkpoint, and is how long
// that took.
func (d *files) loseReading(t *task) time.Duration {
	r := t.in
	if r == nil {
		return 0
	}
	d.view.forget(t)
	d.lost += r.done - r.saved.done
	lost := r.took - r.saved.took
	for i := r.saved.at; i < r.at; i++ {
		d.warm.wantAgain(t.spec.Job, i)
	}
	r.place = r.saved
	return lost
}

// readFor returns how long t has read in its life, and since its last checkpoint.
func (t *task) readFor(now time.Duration) (all, since time.Duration) {
	if t.in == nil {
		return 0, 0
	}
	all = t.in.took
	if t.phase == reading {
		all += now - t.since
	}
	return all, all - t.in.saved.took
}
