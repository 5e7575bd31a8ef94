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
	*storage
	w    *trace.Workload
	c    Reading
	jobs []int64 // the input of each
	// lanes are of each node; dirty have to look for something to warm.
	lanes []lane
	dirty []*lane
	// wishes is one for each job that has been announced and has not ended.
	wishes []*wish
	// coming are the jobs to be announced, in order; tasks those of each with inputs.
	coming []announcement
	tasks  [][]int32
	count  uint64

	// pinned is what is pinned on all nodes, since then; sum the bytes times seconds
	// until then, most the most that was on one node.
	pinned, most int64
	since        time.Duration
	sum          float64
	// ahead is what warming has read.
	ahead int64
}

// announcement is when it becomes known what a job will read.
type announcement struct {
	at  time.Duration
	job int32
}

// wish is what a job wants in memory.
type wish struct {
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

// lane is warming on one node.
type lane struct {
	n      *dataNode
	dirty  bool
	active []*share // in order of announcement
	// fetch is what is being read, one piece at a time, for want.
	fetch *fetch
	want  *want
	// pinned is what is kept in memory, and what fetch will add.
	pinned  int64
	waiting bool // for room
	// follow is for pieces that are in memory without being kept who counts on them.
	follow map[int32][]*want

	jobs   []prefetch.Job // buffers of a view
	blocks []prefetch.Block
	at     []int32 // what of its share's queue each block is
	shares []*share
}

// newWarming prepares the announcements.
func newWarming(d *storage, w *trace.Workload, c Reading, jobs []int64) warming {
	m := warming{storage: d, w: w, c: c, jobs: jobs, lanes: make([]lane, len(d.nodes))}
	for i := range m.lanes {
		m.lanes[i] = lane{n: &d.nodes[i], follow: map[int32][]*want{}}
	}
	if c.Buffer > 0 && c.Lead >= 0 {
		m.prepare(w)
	}
	return m
}

func (m *warming) prepare(w *trace.Workload) {
	m.wishes = make([]*wish, len(w.Jobs))
	m.tasks = make([][]int32, len(w.Jobs))
	known := make([]bool, len(w.Jobs))
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if t.Input > 0 {
			m.tasks[t.Job] = append(m.tasks[t.Job], int32(i))
		}
		if !known[t.Job] {
			known[t.Job] = true
			if m.jobs[t.Job] > 0 {
				m.coming = append(m.coming, announcement{max(0, t.Submit-m.c.Lead), t.Job})
			}
		}
	}
	m.nextAnnouncement()
}

// nextAnnouncement adds the event for the next job.
func (m *warming) nextAnnouncement() {
	if len(m.coming) > 0 {
		m.clock.add(event{at: m.coming[0].at, kind: evAnnounced})
	}
}

// announced: it is known what some jobs will read.
func (m *warming) announced() {
	for len(m.coming) > 0 && m.coming[0].at <= m.clock.now {
		m.announce(m.coming[0].job)
		m.coming = m.coming[1:]
	}
	m.nextAnnouncement()
}

// announce makes the wish of a job.
func (m *warming) announce(job int32) {
	m.count++
	w := &wish{name: "job " + m.w.Jobs[job], input: m.jobs[job], order: m.count}
	m.wishes[job] = w
	var all []int32
	for _, i := range m.tasks[job] {
		first, last := m.of(&m.w.Tasks[i])
		for p := first; p < last; p++ {
			all = append(all, p)
		}
	}
	order := slices.Clone(all)
	slices.Sort(all)
	for _, p := range all {
		if n := len(w.wants); n > 0 && w.wants[n-1].piece == p {
			w.wants[n-1].readers++
			continue
		}
		w.wants = append(w.wants, want{piece: p, readers: 1})
	}
	shares := map[*lane]*share{}
	var touched []*lane
	for _, p := range order {
		i, l := w.find(p), m.lane(p)
		if w.wants[i].share != nil {
			continue
		}
		s := shares[l]
		if s == nil {
			s = &share{w: w}
			shares[l] = s
			touched = append(touched, l)
		}
		w.wants[i].share = s
		s.queue = append(s.queue, int32(i))
	}
	for _, l := range touched {
		m.activate(l, shares[l])
	}
}

// find returns the index of a piece among the wants.
func (w *wish) find(piece int32) int {
	i, found := slices.BinarySearchFunc(w.wants, piece, func(x want, piece int32) int { return int(x.piece) - int(piece) })
	if !found {
		return -1
	}
	return i
}

// activate puts a share on the list of its lane.
func (m *warming) activate(l *lane, s *share) {
	if !s.active {
		s.active = true
		i, _ := slices.BinarySearchFunc(l.active, s, func(a, b *share) int { return int(a.w.order) - int(b.w.order) })
		l.active = slices.Insert(l.active, i, s)
	}
	m.look(l.n)
}

// passed: a task of a job has read a piece from memory, or has begun to read it from
// a disk. Either way it needs it in memory no more (ignem, section III.B.2: missed
// reads).
func (m *warming) passed(job, piece int32) {
	if x := m.want(job, piece); x != nil {
		x.readers--
		m.drop(x)
	}
}

// wantAgain: a task of a job will have to read a piece once more.
func (m *warming) wantAgain(job, piece int32) {
	x := m.want(job, piece)
	if x == nil {
		return
	}
	if x.readers++; x.state == dropped {
		m.ask(x)
	}
}

func (m *warming) want(job, piece int32) *want {
	if m.wishes == nil || m.wishes[job] == nil {
		return nil
	}
	w := m.wishes[job]
	if i := w.find(piece); i >= 0 {
		return &w.wants[i]
	}
	return nil
}

// ask puts a piece among those that are wanted, behind the others.
func (m *warming) ask(x *want) {
	x.state = wanted
	x.share.queue = append(x.share.queue, int32(x.share.w.find(x.piece)))
	m.activate(m.lane(x.piece), x.share)
}

// jobEnded drops all that a job wants.
func (m *warming) jobEnded(job int32) {
	if m.wishes == nil || m.wishes[job] == nil {
		return
	}
	w := m.wishes[job]
	w.ended = true
	for i := range w.wants {
		m.drop(&w.wants[i])
	}
	m.wishes[job] = nil
}

// lane returns where a piece is warmed.
func (m *warming) lane(piece int32) *lane { return &m.lanes[m.home(piece)] }

// drop lets a piece go if prefetch.DropRef says so.
func (m *warming) drop(x *want) {
	if _, drop := prefetch.DropRef(prefetch.Ref{Ended: x.share.w.ended, Implicit: true, Read: x.readers == 0}); !drop {
		return
	}
	l := m.lane(x.piece)
	switch x.state {
	case moving:
		f := l.fetch
		f.ahead = false
		m.end(l)
		m.pin(l, -f.flow.bytes)
		if len(f.readers) == 0 {
			m.cancel(f)
		}
	case pinned:
		y := l.n.cache.get(x.piece)
		l.n.cache.unpin(y)
		if y.pins == 0 {
			m.pin(l, -y.bytes)
		}
	case resident:
		l.unfollow(x)
	}
	x.state = dropped
}

// pin enters that more, or less, is pinned on l.
func (m *warming) pin(l *lane, bytes int64) {
	m.sum += float64(float64(m.pinned) * (m.clock.now - m.since).Seconds())
	m.since = m.clock.now
	m.pinned += bytes
	l.pinned += bytes
	m.most = max(m.most, l.pinned)
	if bytes < 0 {
		m.look(l.n)
	}
}

// look has warming look for something to do on n.
func (m *warming) look(n *dataNode) {
	if l := &m.lanes[n.i]; !l.dirty && len(l.active) > 0 {
		l.dirty = true
		m.dirty = append(m.dirty, l)
	}
}

// settle does on each node what there is to do.
func (m *warming) settle() {
	for i := 0; i < len(m.dirty); i++ {
		m.dirty[i].dirty = false
		m.next(m.dirty[i])
	}
	m.dirty = m.dirty[:0]
}
