package master

import "headrace/policy/prefetch"

// owner is what all jobs of an owner have together. What several of them share on a node counts once. There is none of who has nothing.
type owner struct {
	// pinned are the bytes that are locked for one of the jobs or more. planned are those that are to be, by the first job in order that
	// waits for them, and queued all of these.
	pinned, queued int64
	planned        map[*job]int64
}

// use adds what a block on a node takes of an owner's share, or takes it away, as charge does for the node.
func (b *block) use(m *Master, n *node, name string, sign int64) {
	first, as := b.charged(m, func(w *want) bool { return w.node == n && w.job.Owner == name })
	if as != Pinned && as != Planned {
		return
	}
	o := m.owners[name]
	if o == nil {
		o = &owner{planned: map[*job]int64{}}
		m.owners[name] = o
	}
	if as == Pinned {
		o.pinned += sign * b.bytes
	} else {
		o.queued += sign * b.bytes
		if o.planned[first] += sign * b.bytes; o.planned[first] == 0 {
			delete(o.planned, first)
		}
	}
	if o.pinned == 0 && o.queued == 0 {
		delete(m.owners, name)
	}
}

// shares reports whether a block on a node takes nothing more of a job's owner: another of the owner's jobs has it locked there, or goes
// before and will have.
func (b *block) shares(m *Master, n *node, j *job) bool {
	for _, w := range b.wants {
		if w.node == n && w.job != j && w.job.Owner == j.Owner && (w.state == Pinned || w.state == Planned && m.cfg.before(w.job, j)) {
			return true
		}
	}
	return false
}

// left returns how many more bytes may be kept for a job. What has not been read yet for larger jobs of its owner is free for it.
func (m *Master) left(j *job) prefetch.Limits {
	most := int64(float64(m.budget) * m.cfg.JobShare)
	if j.Budget > 0 {
		most = min(most, j.Budget)
	}
	all := m.cfg.ownerShare(m.budget)
	if o := m.owners[j.Owner]; o != nil {
		all -= o.pinned
		for first, bytes := range o.planned {
			if first == j || m.cfg.before(first, j) {
				all -= bytes
			}
		}
	}
	return prefetch.Limits{Job: max(0, most-j.held()), Owner: max(0, all)}
}

// ownerShare returns how much of the nodes' memory an owner may have.
func (c *Config) ownerShare(budget int64) int64 { return int64(float64(budget) * c.OwnerShare) }

// yield has larger jobs of the same owner give back what has not been read for them yet, after a job has
// taken it: an owner has its share, and within it the smallest job goes first.
func (m *Master) yield(j *job) {
	over := func() bool {
		o := m.owners[j.Owner]
		return o != nil && o.pinned+o.queued > m.cfg.ownerShare(m.budget)
	}
	if !over() {
		return
	}
	var behind []*job
	for first := range m.owners[j.Owner].planned {
		if m.cfg.before(j, first) {
			behind = append(behind, first)
		}
	}
	m.sort(behind)
	for ; over() && len(behind) > 0; behind = behind[:len(behind)-1] {
		last := behind[len(behind)-1]
		for pos := len(last.wants) - 1; pos >= 0 && over(); pos-- {
			w := last.wants[pos]
			n, b := w.node, w.block
			if w.state != Planned || b.shares(m, n, last) {
				continue
			}
			for _, other := range b.wants { // those of the owner that share it come after it
				if other.node == n && other.state == Planned && other.job.Owner == j.Owner {
					other.giveBack(m, "smaller jobs of its owner go first")
				}
			}
		}
	}
}

// stands notes how a node stands.
func (n *node) stands(m *Master, l Load) {
	m.budget += max(0, l.Budget) - max(0, n.load.Budget)
	n.load = l
}
