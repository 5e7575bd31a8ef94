package master

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"
	"unique"

	"headrace"
	"headrace/internal/delta"
	"headrace/policy/prefetch"
)

// Load is how a node stands.
type Load struct {
	// Budget is how many bytes may be pinned there for jobs of a master.
	Budget int64
	// Speed is what its disk reads, in bytes per second; 0: not known.
	Speed float64
	// Reads is how many others read its disk at the moment.
	Reads int
}

// Ref is a block that a node is to keep for a job.
type Ref struct {
	Name
	Block             headrace.BlockID
	Generation, Bytes int64
	// At is its place in the job's own order.
	At uint32
}

// Held is a block that a node keeps for a job: Planned, Pinned or Resident.
type Held struct {
	Ref
	State State
}

// Join begins a session of a node, which tells what it keeps and for whom: all of it. Hosts are the
// names that the file system has for it, beside its own. Sessions are numbered by the
// caller, and grow. It fails with ErrStale.
func (m *Master) Join(name string, session uint64, hosts []string, load Load, jobs []Facts, held []Held, now time.Time) error {
	n := m.nodes[name]
	if n == nil {
		n = &node{name: name, wants: map[*want]struct{}{}, queued: map[*job]int64{}, resident: map[*job]int64{}, locked: map[*job]int64{}}
		m.nodes[name] = n
	} else if session <= n.session {
		return fmt.Errorf("node %s joins with session %d after %d: %w", name, session, n.session, ErrStale)
	}
	m.first += 1 << 20
	n.session, n.log = session, delta.New[*want](m.first)
	n.stands(m, load)
	m.rename(n, append([]string{name}, hosts...))
	facts := map[Name]Facts{}
	for _, f := range jobs {
		facts[f.Name] = f
	}
	told := map[*want]bool{}
	for i := range held {
		if w := m.take(n, &held[i], facts, now); w != nil {
			told[w] = true
		}
	}
	for w := range n.wants {
		if !told[w] && w.state != Resident { // of which it will say whether it is
			m.move(w, n, Planned) // it is to be done again
		}
	}
	m.freed = true
	return nil
}

// rename gives a node its names.
func (m *Master) rename(n *node, names []string) {
	for _, h := range n.hosts {
		if m.hosts[h] == n {
			delete(m.hosts, h)
		}
	}
	n.hosts = nil
	for _, name := range names {
		h := unique.Make(name)
		m.hosts[h] = n
		n.hosts = append(n.hosts, h)
	}
}

// take enters a block that a node says it keeps for a job, and returns it, or nil if it is not to. What it is not to
// keep it lets go when it asks for its orders.
func (m *Master) take(n *node, h *Held, facts map[Name]Facts, now time.Time) *want {
	if m.Ended(h.Name) || h.Bytes < 0 || h.Job == "" || h.State != Planned && h.State != Pinned && h.State != Resident {
		return nil
	}
	if j := m.jobs[h.Name]; j == nil || j.adopted {
		m.adopt(n, h, facts, now)
	}
	w := m.find(m.jobs[h.Name], keyOf(h.Block))
	if w == nil || w.node != nil && w.node != n && (w.state != Planned || h.State == Planned) || !w.again(m) {
		return nil // another node is as far, or the job has read it
	}
	if b := w.block; !slices.ContainsFunc(b.hosts, func(h unique.Handle[string]) bool { return m.hosts[h] == n }) && b.addHost(unique.Make(n.name)) {
		b.watch(m, true)
	}
	m.move(w, n, h.State)
	return w
}

// adopt enters a job and a block that only a node has told of, unless there are too many.
func (m *Master) adopt(n *node, h *Held, facts map[Name]Facts, now time.Time) {
	j := m.jobs[h.Name]
	if j == nil {
		if m.takeJob(h.Owner, 1) != nil {
			return
		}
		f := facts[h.Name]
		f.Name = h.Name
		j = m.add(f, now)
		j.adopted, j.taken = true, true
	}
	if m.find(j, keyOf(h.Block)) == nil && m.quota.Take(h.Owner, j.open()+1, 1) == nil {
		m.want(j, &headrace.Block{ID: h.Block, Generation: h.Generation, Bytes: h.Bytes, Hosts: []string{n.name}}, unnamed, h.At)
	}
}

// Leave forgets a node that is away. Its blocks are placed elsewhere by the next Look. It does
// nothing if there is none.
func (m *Master) Leave(name string) {
	n := m.nodes[name]
	if n == nil {
		return
	}
	for w := range maps.Clone(n.wants) {
		m.move(w, nil, NotFit)
	}
	m.rename(n, nil)
	n.stands(m, Load{})
	delete(m.nodes, name)
	m.freed = true // its readers run elsewhere
}

// Report is how a node stands with a block that it is to keep for a job, or that a job has read there.
// NotFit and Failed say that this node cannot keep it, and why.
type Report struct {
	Name
	Block headrace.BlockID
	// Generation is that of the replica that was looked at.
	Generation int64
	State      State
	Reason     string
}

// Reads is what a job has read of its blocks on a node while they were kept in memory, and before that, in
// bytes, since the node was started.
type Reads struct {
	Name
	Memory, Disk int64
}

// Report enters what a node reports: what has changed. It fails with ErrUnknown and ErrStale.
func (m *Master) Report(name string, session uint64, load Load, reports []Report, totals []Reads, now time.Time) error {
	n, err := m.node(name, session)
	if err != nil {
		return err
	}
	m.freed = m.freed || load.Budget > n.load.Budget
	n.stands(m, load)
	for i := range reports {
		q := &reports[i]
		if w := m.find(m.jobs[q.Name], keyOf(q.Block)); w != nil {
			m.report(n, w, q, now)
		}
	}
	for _, t := range totals {
		if j := m.jobs[t.Name]; j != nil {
			is := reads{max(0, t.Memory), max(0, t.Disk)}
			m.freed = m.freed || n.resident[j] > 0 && is.memory > max(j.reads[name].memory, n.locked[j])
			j.count(name, is, now)
		}
	}
	return nil
}

func (m *Master) report(n *node, w *want, q *Report, now time.Time) {
	switch {
	case q.State == Read:
		w.job.begun(now)
		if _, drop := prefetch.DropRef(prefetch.Ref{Implicit: w.job.Implicit, Read: true}); drop {
			m.move(w, nil, Read)
		}
	case w.node != n:
		// It is to keep it no more, and will hear.
	case q.Generation < w.block.generation:
		// It will hear that the block is another one now, and then say how it stands with that.
	case w.state == Resident && (q.State == Planned || q.State == Pinned):
		w.lockedAs(m, q.State)
	case q.State == Planned, q.State == Pinned, q.State == Resident:
		m.move(w, n, q.State)
	case q.State == NotFit, q.State == Failed:
		m.cannot(n, w, q)
	}
}

// lockedAs notes that the kernel has dropped a block that was in memory anyhow, or others keep it, so that its node locks it for
// the job. From now on it counts, and where there is no share left for it it is given back.
func (w *want) lockedAs(m *Master, s State) {
	left := m.left(w.job)
	if w.block.bytes > left.Job || w.block.bytes > left.Owner && !w.block.shares(m, w.node, w.job) {
		w.giveBack(m, prefetch.ShareUsed)
		w.locks = true
		return
	}
	m.move(w, w.node, s)
	m.yield(w.job)
}

// cannot notes that a node cannot keep a block.
func (m *Master) cannot(n *node, w *want, q *Report) {
	j := w.job
	var at uint16
	for i, h := range w.block.hosts {
		if slices.Contains(n.hosts, h) {
			at |= 1 << i
		}
	}
	if w.tried&at == 0 { // else it is the same node by a name that was not known then
		w.attempts++
	}
	w.tried |= at
	to := NotFit
	if q.State == NotFit {
		if j.why = q.Reason; w.given(m.cfg.Attempts) {
			to = refused
		}
	} else {
		if len(j.failures) < keptFailures {
			j.failures = append(j.failures, Failure{j.name(w), w.block.id(), n.name, q.Reason})
		}
		if w.near != 0 && at&(1<<(w.near-1)) != 0 {
			w.near = 0 // its reader will read another replica
		}
		if w.given(m.cfg.Attempts) {
			to = Failed
		}
	}
	m.move(w, nil, to)
}

func (j *job) name(w *want) string {
	if w.file == unnamed {
		return ""
	}
	return j.files[w.file]
}

func (j *job) begun(now time.Time) {
	if j.read.IsZero() {
		j.read = now
	}
}

// count enters what a node has read for a job.
func (j *job) count(node string, is reads, now time.Time) {
	if is == (reads{}) {
		return
	}
	j.begun(now)
	if was := j.reads[node]; is.memory < was.memory || is.disk < was.disk {
		j.before.memory += was.memory
		j.before.disk += was.disk
	}
	j.reads[node] = is
}

func (m *Master) node(name string, session uint64) (*node, error) {
	n := m.nodes[name]
	switch {
	case n == nil:
		return nil, fmt.Errorf("node %s: %w", name, ErrUnknown)
	case n.session != session:
		return nil, fmt.Errorf("node %s, session %d instead of %d: %w", name, session, n.session, ErrStale)
	}
	return n, nil
}

// Orders are what a node is to keep beside what it keeps, or instead of it.
type Orders struct {
	Seq uint64
	// Full: the node lets go at the end of all parts what is in none of them.
	Full bool
	// Add may have blocks that the node keeps already: what is said of them may have changed,
	// and the node reports once more how it stands with them.
	Add, Remove []Ref
	// Jobs are those in Add.
	Jobs []Facts
}

// Orders tells a node what has changed of what it is to keep since answer seq, 0 after it has joined, at most so
// many blocks at a time: it asks again until it gets none. It fails with ErrUnknown and ErrStale.
func (m *Master) Orders(name string, session, seq uint64, most int) (Orders, error) {
	n, err := m.node(name, session)
	if err != nil {
		return Orders{}, err
	}
	next, wants, full := n.log.Since(seq, most, n.inOrder(m))
	o := Orders{Seq: next, Full: full}
	told := map[*job]bool{}
	for _, w := range wants {
		one := Ref{Name: w.job.Name, Block: w.block.id(), Generation: w.block.generation, Bytes: w.block.bytes, At: w.at}
		// The job may have been evicted and migrated anew since, or have forgotten it and want it anew.
		if now := m.find(m.jobs[w.job.Name], w.block.key); now == nil || now.node != n {
			o.Remove = append(o.Remove, one)
			continue
		} else if now != w {
			continue // it has an entry of its own
		}
		if o.Add = append(o.Add, one); !told[w.job] {
			told[w.job] = true
			o.Jobs = append(o.Jobs, w.job.facts())
		}
	}
	return o, nil
}

// inOrder yields what a node is to keep, for the jobs in the order in which they are served.
func (n *node) inOrder(m *Master) iter.Seq[*want] {
	return func(yield func(*want) bool) {
		for _, w := range slices.SortedFunc(maps.Keys(n.wants), func(a, b *want) int {
			switch {
			case a.job == b.job:
				return cmp.Compare(a.at, b.at)
			case m.cfg.before(a.job, b.job):
				return -1
			}
			return 1
		}) {
			if !yield(w) {
				return
			}
		}
	}
}

// Ready returns what is closed when Orders has something to tell that it has not told. It fails with
// ErrUnknown and ErrStale.
func (m *Master) Ready(name string, session uint64) (<-chan struct{}, error) {
	n, err := m.node(name, session)
	if err != nil {
		return nil, err
	}
	return n.log.Ready(), nil
}
