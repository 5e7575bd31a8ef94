package master

import (
	"maps"
	"slices"
	"time"

	"headrace/policy/prefetch"
)

// planning is what one call of prefetch.Place is given.
type planning struct {
	m      *Master
	j      *job
	now    time.Time
	nodes  []*node
	index  map[*node]int
	hosts  []prefetch.Host
	wants  []*want
	blocks []prefetch.Replicated
	work   int // tryWork for each block, and how many entries of accounts were looked at
}

// tryWork is how many entries of accounts are as much work as to try to find a node for a block.
const tryWork = 50

// plan finds nodes for the blocks of a job that are on none, beginning with the want at from, for at
// most so many. It returns at which want it stopped, and for how many it has tried; where there are very many jobs
// one may count as several.
func (m *Master) plan(j *job, from, most int, now time.Time) (next, tried int) {
	p := planning{m: m, j: j, now: now, index: map[*node]int{}}
	next = from
	for ; next < len(j.wants) && p.work < most*tryWork; next++ {
		if w := j.wants[next]; w.state == NotFit {
			p.add(w)
		}
	}
	if len(p.wants) == 0 {
		return next, 0
	}
	if o := m.owners[j.Owner]; o != nil {
		p.work += len(o.planned)
	}
	took := false
	for i, c := range prefetch.Place(p.blocks, p.hosts, m.left(j)) {
		w := p.wants[i]
		w.waitFor(m, c.Do == prefetch.Wait, now)
		switch {
		case c.Do == prefetch.Wait:
		case c.Do == prefetch.Skip:
			j.why, j.full = c.Reason, j.full || len(p.blocks[i].Copies) > 0
		case c.Do == prefetch.Refer && !p.kept(i, c.Host):
			m.move(w, p.nodes[c.Host], Resident)
		default:
			m.move(w, p.nodes[c.Host], Planned)
			took = true
		}
	}
	if took {
		m.yield(j)
	}
	return next, (p.work + tryWork - 1) / tryWork
}

// kept reports whether the copy of a block on a host is kept for other jobs.
func (p *planning) kept(block, host int) bool {
	return slices.ContainsFunc(p.blocks[block].Copies, func(c prefetch.Copy) bool { return c.Host == host && c.Kept })
}

// add enters a block with its replicas that may be tried.
func (p *planning) add(w *want) {
	b := w.block
	one := prefetch.Replicated{ID: b.id(), Bytes: b.bytes, Busy: b.isRead(p.now)}
	for i, name := range b.hosts {
		n, near := p.m.hosts[name], int(w.near) == i+1
		one.Bound = one.Bound || near && n != nil
		if n != nil && w.tried&(1<<i) == 0 {
			one.Copies = append(one.Copies, prefetch.Copy{Host: p.host(n), Near: near})
		}
	}
	at := func(n *node) *prefetch.Copy {
		for i := range one.Copies {
			if n != nil && p.nodes[one.Copies[i].Host] == n {
				return &one.Copies[i]
			}
		}
		return nil
	}
	if p.m.cfg.Resident != nil {
		p.m.cfg.Resident(one.ID, func(name string, bytes int64) {
			if c := at(p.m.nodes[name]); c != nil {
				c.Resident = max(c.Resident, bytes)
				c.Kept = c.Kept || w.locks && prefetch.InMemory(c.Resident, b.bytes)
			}
		})
	}
	p.work += tryWork + len(b.wants) - 1
	for _, o := range b.wants {
		c := at(o.node)
		if c != nil {
			c.Own = c.Own || o.job.Owner == p.j.Owner && (o.state == Pinned || o.state == Planned && p.m.cfg.before(o.job, p.j))
		}
		switch {
		case c == nil:
		case o.state == Pinned:
			c.Kept, c.Resident = true, b.bytes
		case o.state == Planned, !prefetch.InMemory(c.Resident, b.bytes):
			c.Kept = true // it was resident there for the other job, or will be in memory for it
		}
	}
	p.wants = append(p.wants, w)
	p.blocks = append(p.blocks, one)
}

// host returns the index of a node. Its queue is what goes before the job: blocks of jobs behind
// it do not hold it up, and room that they have not taken yet is free.
func (p *planning) host(n *node) int {
	if i, ok := p.index[n]; ok {
		return i
	}
	p.work += len(n.queued) + len(n.resident)
	var queued int64
	for j, bytes := range n.queued {
		if j == p.j || p.m.cfg.before(j, p.j) {
			queued += bytes
		}
	}
	i := len(p.hosts)
	p.index[n] = i
	p.nodes = append(p.nodes, n)
	p.hosts = append(p.hosts, prefetch.Host{
		Name: n.name, Queued: queued, Room: n.load.Budget - n.pinned - queued - n.unread(p.m, p.j), Speed: n.load.Speed, Reads: n.load.Reads, Busy: p.j.readsOn(n, p.now),
	})
	return i
}

// unread returns how much of what is in a node's memory unpinned is to stay there before more is read for a job: what it, and jobs
// before it, have not read yet. Of each other owner's, or of the job's owner's other jobs, that is no more than an owner's share, and nothing of what
// users hold, of which nobody knows when it will be read.
func (n *node) unread(m *Master, j *job) (sum int64) {
	others := map[string]int64{}
	for o, bytes := range n.resident {
		if !o.Implicit { // else what was read is in the account no more
			// The node tells what was read from memory, pinned or not: the most of it that may have been pinned frees nothing here.
			bytes -= min(bytes, max(0, o.reads[n.name].memory-n.locked[o]))
		}
		switch {
		case o == j:
			sum += bytes
		case !o.Hold && m.cfg.before(o, j):
			others[o.Owner] += bytes
		}
	}
	for _, bytes := range others {
		sum += min(bytes, int64(float64(n.load.Budget)*m.cfg.OwnerShare))
	}
	return sum
}

// giveBack has a job give back a block that has not been read for it yet.
func (w *want) giveBack(m *Master, why string) {
	m.move(w, nil, NotFit)
	w.job.why, w.job.full = why, true
}

// relieve has what waits on a node that has no room for it any more, because others have come before it or its memory
// has become less, be placed anew: that of the jobs that come last.
func (n *node) relieve(m *Master) {
	over := n.pinned - n.load.Budget
	for _, bytes := range n.queued {
		over += bytes
	}
	if over <= 0 {
		return
	}
	jobs := slices.Collect(maps.Keys(n.queued))
	m.sort(jobs)
	for ; over > 0 && len(jobs) > 0; jobs = jobs[:len(jobs)-1] {
		o := jobs[len(jobs)-1]
		for pos := len(o.wants) - 1; pos >= 0 && over > 0; pos-- {
			b := o.wants[pos].block
			if first, state := n.charged(m, b); first != o || state != Planned {
				continue
			}
			over -= b.bytes
			for _, w := range b.wants { // the others come after it
				if w.node == n && w.state == Planned {
					w.giveBack(m, "the node that was to keep it has no room any more")
				}
			}
		}
	}
}

// sort brings jobs into the order in which they are served.
func (m *Master) sort(jobs []*job) {
	slices.SortFunc(jobs, func(a, b *job) int {
		if m.cfg.before(a, b) {
			return -1
		}
		return 1
	})
}

// triedAtOnce is for how many blocks a Look tries to find a node at most, or does as much work: tenths of a second. The next one goes on.
const triedAtOnce = 50_000

// Look ends what has ended without saying so, if memory is short, and finds nodes for blocks that
// have none if something has changed since it did that last: jobs with the smallest input first. It is to be
// called every second or so.
func (m *Master) Look(now time.Time) {
	m.cleanUp(now, false)
	m.ended.forget(now, m.cfg.Remember)
	for _, j := range m.jobs {
		j.forget(m)
	}
	for _, n := range m.nodes {
		n.relieve(m)
	}
	if !m.again.IsZero() && !now.Before(m.again) {
		m.freed, m.again = true, time.Time{}
	}
	if !m.freed && m.resume == nil {
		return
	}
	var order []*job
	for _, j := range m.jobs {
		if j.blocks[NotFit] > 0 && j.entering == 0 {
			order = append(order, j)
		}
	}
	m.sort(order)
	first, from := slices.Index(order, m.resume), m.from
	if m.resume == nil {
		m.freed = false
	}
	if first < 0 {
		first, from = 0, 0 // all from the beginning
	}
	m.resume = nil
	rest := m.tries
	for _, j := range order[first:] {
		if from == 0 {
			j.full = false
		}
		next, tried := m.plan(j, from, rest, now)
		rest -= tried
		if next < len(j.wants) {
			m.resume, m.from = j, next
			return
		}
		from, j.untried = 0, false
	}
}

// manyEnded is of how many of an owner's jobs it is remembered for as long as Config.Remember that they have ended.
const manyEnded = 10_000

// ended are jobs that have ended, and when.
type ended map[Name]time.Time

// forget forgets those of a while ago: of an owner with very many after a shorter time.
func (e ended) forget(now time.Time, remember time.Duration) {
	of := map[string]int64{}
	for name := range e {
		of[name.Owner]++
	}
	for name, at := range e {
		if now.Sub(at) > remember/time.Duration(1+of[name.Owner]/manyEnded) {
			delete(e, name)
		}
	}
}

// cleanUp ends the jobs that nobody knows any more, if memory is short (ignem, section III.A.4) or
// at any rate, and reports whether there were any.
func (m *Master) cleanUp(now time.Time, anyway bool) bool {
	room := prefetch.Room{Waiting: anyway}
	for _, n := range m.nodes {
		room.Budget += n.load.Budget
		room.Pinned += n.pinned
		for _, bytes := range n.queued {
			room.Pinned += bytes
		}
		room.Blocks += len(n.wants)
	}
	var jobs []*job
	for _, j := range m.jobs {
		jobs = append(jobs, j)
		room.Waiting = room.Waiting || j.full && j.blocks[NotFit] > 0
	}
	if anyway {
		room.Blocks = max(1, room.Blocks)
	}
	if !prefetch.NeedsCleanUp(room) {
		return false
	}
	m.sort(jobs)
	holders := make([]prefetch.Holder, len(jobs))
	for i, j := range jobs {
		alive := j.Hold || now.Sub(j.since) < m.cfg.Grace || m.cfg.Alive(j.Name)
		holders[i] = prefetch.Holder{Job: j.Job, Keep: j.Hold, Alive: alive, Pinned: j.held()}
	}
	drops := prefetch.CleanUp(room, holders)
	for _, d := range drops {
		m.end(jobs[d.Holder], now)
	}
	return len(drops) > 0
}
