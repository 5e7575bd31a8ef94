package sim

import (
	"slices"
	"time"

	"headrace/policy/prefetch"
	"headrace/trace"
)

// warming is what jobs want in memory before they read it (ignem, section III). What
// is read next is decided by prefetch.Next, and who gives up what by
// prefetch.DropRef. prefetch.CleanUp has nothing to do: no job ends without saying so.
type warming struct {
	// wishes is one for each job that has been announced and has not ended.
	wishes []*wish
	// coming are the jobs to be announced, in order; tasks has the inputs of each,
	// from the entry at first on.
	coming []announcement
	tasks  []int32
	first  []int32
	count  uint64

	share []*share // buffer: of each node

	// pinned is what is pinned on all nodes, since then; sum the bytes times seconds
	// until then, most the most that was on one node.
	pinned, most int64
	since        time.Duration
	sum          float64
	// read is what warming has read.
	read int64
}

// announcement is when it becomes known what a job will read.
type announcement struct {
	at  time.Duration
	job int32
}

// wish is what a job wants in memory.
type wish struct {
	job   int32
	name  string
	input int64
	order uint64
	wants []want // by piece
	ended bool
}

// want is a piece that a job wants.
type want struct {
	piece int32
	// readers is how many of its tasks have not read it yet.
	readers int32
	state   wantState
	share   *share
}

// wantState is how a job stands with a piece.
type wantState uint8

const (
	wanted   wantState = iota
	moving             // being read for this job
	pinned             // in memory, the job keeps it
	resident           // in memory, nobody keeps it for the job
	skipped            // it can never be kept
	dropped            // not wanted any more, because it has been read
)

// share is what a job wants of one node.
type share struct {
	w *wish
	// queue has what may still be wanted, as indices into the job's wants.
	queue  []int32
	active bool // it is on the list of its lane
}

// follower is a job that counts on a piece.
type follower struct {
	w *wish
	x *want
}

// lane is warming on one node.
type lane struct {
	active []*share // in order of announcement
	fetch  *fetch   // what is being read, one piece at a time
	// pinned is what is kept in memory, and what fetch will add.
	pinned  int64
	waiting bool // for room
	// follow is for pieces that are in memory without being kept who counts on them.
	follow map[int32][]follower

	jobs   []prefetch.Job // buffers of a view
	blocks []prefetch.Block
	at     []int32 // what of its share's queue each block is
	shares []*share
}

// beginWarming prepares the announcements.
func (d *files) beginWarming(w *trace.Workload) {
	if d.c.Buffer <= 0 || d.c.Lead < 0 {
		return
	}
	m := &d.warm
	m.wishes = make([]*wish, len(w.Jobs))
	m.share = make([]*share, len(d.nodes))
	m.first = make([]int32, len(w.Jobs)+1)
	known := make([]bool, len(w.Jobs))
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if t.Input > 0 {
			m.first[t.Job+1]++
		}
		if !known[t.Job] {
			known[t.Job] = true
			if d.jobs[t.Job] > 0 {
				m.coming = append(m.coming, announcement{max(0, t.Submit-d.c.Lead), t.Job})
			}
		}
	}
	for j := range w.Jobs {
		m.first[j+1] += m.first[j]
	}
	m.tasks = make([]int32, m.first[len(w.Jobs)])
	at := slices.Clone(m.first)
	for i := range w.Tasks {
		if t := &w.Tasks[i]; t.Input > 0 {
			m.tasks[at[t.Job]] = int32(i)
			at[t.Job]++
		}
	}
	for i := range d.nodes {
		d.nodes[i].lane.follow = map[int32][]follower{}
	}
	d.nextAnnouncement()
}

// nextAnnouncement adds the event for the next job.
func (d *files) nextAnnouncement() {
	if len(d.warm.coming) > 0 {
		d.e.queue.add(event{at: d.warm.coming[0].at, kind: evAnnounced})
	}
}

// announced: it is known what some jobs will read.
func (d *files) announced() {
	m := &d.warm
	for len(m.coming) > 0 && m.coming[0].at <= d.e.now {
		d.announce(m.coming[0].job)
		m.coming = m.coming[1:]
	}
	d.nextAnnouncement()
}

// announce makes the wish of a job.
func (d *files) announce(job int32) {
	m := &d.warm
	m.count++
	w := &wish{job: job, name: "job " + d.e.w.Jobs[job], input: d.jobs[job], order: m.count}
	m.wishes[job] = w
	var all []int32
	for _, i := range m.tasks[m.first[job]:m.first[job+1]] {
		first, last := d.of(&d.e.w.Tasks[i])
		for p := first; p < last; p++ {
			all = append(all, p)
		}
	}
	sorted := slices.IsSorted(all)
	order := all
	if !sorted {
		order = slices.Clone(all)
		slices.Sort(all)
	}
	for _, p := range all {
		if n := len(w.wants); n > 0 && w.wants[n-1].piece == p {
			w.wants[n-1].readers++
			continue
		}
		w.wants = append(w.wants, want{piece: p, readers: 1})
	}
	var touched []int32
	for _, p := range order {
		i := w.find(p)
		x := &w.wants[i]
		if x.share != nil {
			continue
		}
		n := d.home(p)
		if m.share[n] == nil {
			m.share[n] = &share{w: w}
			touched = append(touched, n)
		}
		x.share = m.share[n]
		x.share.queue = append(x.share.queue, int32(i))
	}
	for _, n := range touched {
		d.activate(&d.nodes[n], m.share[n])
		m.share[n] = nil
	}
}

// find is the index of a piece among the wants.
func (w *wish) find(piece int32) int {
	i, found := slices.BinarySearchFunc(w.wants, piece, func(x want, piece int32) int { return int(x.piece) - int(piece) })
	if !found {
		return -1
	}
	return i
}

// activate puts a share on the list of its lane.
func (d *files) activate(n *dataNode, s *share) {
	if !s.active {
		s.active = true
		l := &n.lane
		i, _ := slices.BinarySearchFunc(l.active, s, func(a, b *share) int { return int(a.w.order) - int(b.w.order) })
		l.active = slices.Insert(l.active, i, s)
	}
	d.look(n)
}

// passed: t has read a piece from memory, or has begun to read it from a disk. Either
// way it needs it in memory no more (ignem, section III.B.2: missed reads).
func (d *files) passed(t *task, piece int32) {
	if x, w := d.want(t, piece); x != nil {
		x.readers--
		d.drop(w, x)
	}
}

// wantAgain: t will have to read a piece once more.
func (d *files) wantAgain(t *task, piece int32) {
	x, w := d.want(t, piece)
	if x == nil {
		return
	}
	if x.readers++; x.state == dropped {
		d.ask(w, x)
	}
}

func (d *files) want(t *task, piece int32) (*want, *wish) {
	if d.warm.wishes == nil {
		return nil, nil
	}
	w := d.warm.wishes[t.spec.Job]
	if w == nil {
		return nil, nil
	}
	if i := w.find(piece); i >= 0 {
		return &w.wants[i], w
	}
	return nil, nil
}

// ask puts a piece among those that are wanted, behind the others.
func (d *files) ask(w *wish, x *want) {
	x.state = wanted
	x.share.queue = append(x.share.queue, int32(w.find(x.piece)))
	d.activate(&d.nodes[d.home(x.piece)], x.share)
}

// jobEnded drops all that a job wants.
func (d *files) jobEnded(job int32) {
	if d.warm.wishes == nil {
		return
	}
	w := d.warm.wishes[job]
	if w == nil {
		return
	}
	w.ended = true
	for i := range w.wants {
		d.drop(w, &w.wants[i])
	}
	d.warm.wishes[job] = nil
}

// drop lets a piece go if prefetch.DropRef says so.
func (d *files) drop(w *wish, x *want) {
	if _, drop := prefetch.DropRef(prefetch.Ref{Ended: w.ended, Implicit: true, Read: x.readers == 0}); !drop {
		return
	}
	n := &d.nodes[d.home(x.piece)]
	switch x.state {
	case moving:
		f := n.lane.fetch
		f.wish, f.want = nil, nil
		d.endWarming(n)
		d.pin(n, -f.flow.bytes)
		if len(f.readers) == 0 {
			d.cancel(f)
		}
	case pinned:
		y := n.cache.get(x.piece)
		n.cache.unpin(y)
		if y.pins == 0 {
			d.pin(n, -y.bytes)
		}
	case resident:
		d.unfollow(n, x)
	}
	x.state = dropped
}

// pin enters that more, or less, is pinned on n.
func (d *files) pin(n *dataNode, bytes int64) {
	m := &d.warm
	m.sum += float64(float64(m.pinned) * (d.e.now - m.since).Seconds())
	m.since = d.e.now
	m.pinned += bytes
	n.lane.pinned += bytes
	m.most = max(m.most, n.lane.pinned)
	if bytes < 0 {
		d.look(n)
	}
}
