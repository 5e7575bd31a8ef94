package master

import (
	"slices"
	"time"
	"unique"

	"headrace"
	"headrace/policy/prefetch"
)

const (
	// readFor is how long somebody counts as reading after more of what he reads was last seen to be in memory: some reports of
	// a node.
	readFor = 3 * time.Second
	// leastRead is the part of a block of which it counts: less is what readers of the block before it have read of the
	// next one.
	leastRead = 8
)

// Change is how much of a replica was in a node's memory, and is, in bytes.
type Change struct {
	Block       headrace.BlockID
	Before, Now int64
}

// Changed enters what has come into a node's memory, and gone. What comes without having been ordered there somebody reads:
// it is not read ahead for now, and nothing for the jobs that want it on that node. All of it counts as
// read by one of the jobs that want it. What goes is placed anew. It does nothing if the node is not known.
func (m *Master) Changed(name string, all []Change, now time.Time) {
	n := m.nodes[name]
	if n == nil {
		return
	}
	begun := map[*job]bool{}
	for _, c := range all {
		b := m.blocks[keyOf(c.Block)]
		switch {
		case b == nil:
		case c.Now < c.Before:
			if !prefetch.InMemory(c.Now, b.bytes) {
				b.dropped(m, n)
			}
		case c.Now > c.Before && c.Now >= b.bytes/leastRead && !b.on(n):
			b.readAt(m, n, now, begun)
			if c.Now >= b.bytes {
				b.readAll(m, now)
			}
		}
	}
	for _, w := range n.plannedFor(begun) {
		w.leave(m, now)
	}
}

// dropped notes that the kernel has dropped a block that was in a node's memory without being locked.
func (b *block) dropped(m *Master, n *node) {
	for _, w := range b.wants {
		if w.node == n && w.state == Resident {
			m.move(w, nil, NotFit)
		}
	}
}

// readAt notes that somebody reads a block on a node that is not to keep it: the jobs that want it, or one of them. The block is
// left to their own reading, wherever it is planned, and so is what is planned there for those of them that have begun: of which that is news.
func (b *block) readAt(m *Master, n *node, now time.Time, begun map[*job]bool) {
	b.read = now.UnixMilli()
	for _, w := range b.wants {
		switch w.state {
		case Read:
			continue
		case Planned:
			w.leave(m, now)
		}
		j := w.job
		was := j.readsOn(n, now)
		if j.busy == nil {
			j.busy = map[*node]time.Time{}
		}
		if j.busy[n] = now; !was {
			begun[j] = true
		}
	}
}

// plannedFor returns what a node has not read yet of what it is to keep for jobs.
func (n *node) plannedFor(jobs map[*job]bool) (all []*want) {
	if len(jobs) == 0 {
		return nil
	}
	for w := range n.wants {
		if jobs[w.job] && w.state == Planned {
			all = append(all, w)
		}
	}
	return all
}

// readsOn reports whether the input of a job is being read on a node.
func (j *job) readsOn(n *node, now time.Time) bool {
	at, known := j.busy[n]
	return known && now.Sub(at) < readFor
}

// isRead reports whether somebody reads a block.
func (b *block) isRead(now time.Time) bool { return now.UnixMilli()-b.read < readFor.Milliseconds() }

// leave has a block not be read ahead while somebody reads.
func (w *want) leave(m *Master, now time.Time) {
	m.move(w, nil, NotFit)
	w.waitFor(m, true, now)
}

// waitFor notes whether a block that no node keeps waits for those who read. If so it is tried again.
func (w *want) waitFor(m *Master, is bool, now time.Time) {
	if is && m.again.IsZero() {
		m.again = now.Add(readFor)
	}
	if w.waits != is {
		w.waits = is
		w.job.waiting += map[bool]int64{true: 1, false: -1}[is] * w.block.bytes
	}
}

// readAll notes that somebody has read all of a block where it was not kept. It cannot be known who it was: it counts for the
// first job in order that wants it still, so that after as many readers as there are jobs none does.
func (b *block) readAll(m *Master, now time.Time) {
	var first *want
	for _, w := range b.wants {
		if w.state != Read && (first == nil || m.cfg.before(w.job, first.job)) {
			first = w
		}
	}
	if first == nil {
		return
	}
	first.job.begun(now)
	if _, drop := prefetch.DropRef(prefetch.Ref{Implicit: first.job.Implicit, Read: true}); drop {
		m.move(first, nil, Read)
	}
}

// wanted reports whether a job wants a block still.
func (b *block) wanted() bool {
	return slices.ContainsFunc(b.wants, func(w *want) bool { return w.state != Read })
}

// watch has it be known what is in memory of a block, of as many replicas as are known, or not any more.
func (b *block) watch(m *Master, is bool) {
	if m.cfg.Watch == nil {
		return
	}
	var hosts []string
	if is {
		for _, h := range b.hosts {
			hosts = append(hosts, h.Value())
		}
	}
	m.cfg.Watch(b.id(), hosts)
}

// addHost notes that a host has a replica of a block, and reports whether that is news.
func (b *block) addHost(h unique.Handle[string]) bool {
	if len(b.hosts) >= maxHosts || slices.Contains(b.hosts, h) {
		return false
	}
	b.hosts = append(b.hosts, h)
	return true
}
