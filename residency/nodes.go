package residency

import (
	"fmt"
	"iter"
	"slices"

	"headrace"
	"headrace/internal/delta"
)

// node is one that has joined.
type node struct {
	name    string
	session uint64
	told    bool // it has told its whole state in this session
	hosts   []*host
	log     *delta.Log[key] // of what it is to watch
}

// watches reports whether the node is to watch a block.
func (n *node) watches(b *block) bool {
	return slices.ContainsFunc(n.hosts, func(h *host) bool { _, ok := h.watch[b]; return ok })
}

// watched are all blocks that the node is to watch, some of them several times.
func (n *node) watched() iter.Seq[*block] {
	return func(yield func(*block) bool) {
		for _, h := range n.hosts {
			for b := range h.watch {
				if !yield(b) {
					return
				}
			}
		}
	}
}

// Resident is how much of a replica is in memory.
type Resident struct {
	Block headrace.BlockID
	// Resident bytes of the replica's Bytes; 0: none is, or the replica has gone.
	Resident, Bytes int64
}

// Join begins a session of a node: hosts are the names that the file system has for it, beside
// its own. Sessions are numbered by the caller, and grow. What was known of the node stays until
// it has told its whole state. A host that is another node's becomes this one's. It
// fails with ErrStale.
func (m *Map) Join(name string, session uint64, hosts []string) error {
	n := m.nodes[name]
	if n == nil {
		n = &node{name: name}
		m.nodes[name] = n
	} else if session <= n.session {
		return fmt.Errorf("node %s joins with session %d after %d: %w", name, session, n.session, ErrStale)
	}
	n.session, n.told, n.log = session, false, delta.New[key](m.number())
	names := append([]string{name}, hosts...)
	for _, h := range slices.Clone(n.hosts) {
		if !slices.Contains(names, h.name) {
			m.unbind(h)
		}
	}
	for _, name := range names {
		if h := m.host(name); h.node != n {
			if h.node != nil {
				h.node.log = delta.New[key](m.number())
				m.unbind(h)
				h = m.host(name)
			}
			h.node = n
			n.hosts = append(n.hosts, h)
		}
	}
	return nil
}

// unbind takes a name from its node.
func (m *Map) unbind(h *host) {
	n := h.node
	h.node = nil
	n.hosts = slices.DeleteFunc(n.hosts, func(o *host) bool { return o == h })
	for b := range h.watch {
		if !n.watches(b) {
			b.set(n, 0, 0)
		}
	}
	m.tidy(h)
}

// Remove forgets a node, and what was in its memory.
func (m *Map) Remove(name string) {
	n := m.nodes[name]
	if n == nil {
		return
	}
	for len(n.hosts) > 0 {
		m.unbind(n.hosts[0])
	}
	delete(m.nodes, name)
}

// Report enters what is in memory on a node, as far as it is to watch that: everything, if full,
// else what has changed. The first report of a session must be full. It fails with ErrUnknown
// and ErrStale.
func (m *Map) Report(name string, session uint64, full bool, reports []Resident) error {
	n, err := m.node(name, session)
	if err != nil {
		return err
	}
	if !full && !n.told {
		return fmt.Errorf("node %s: %w", name, ErrStale)
	}
	var told map[*block]struct{}
	if full {
		n.told, told = true, make(map[*block]struct{}, len(reports))
	}
	for _, r := range reports {
		b := m.blocks[keyOf(r.Block)]
		if b == nil || !n.watches(b) {
			m.passed++
			continue
		}
		size := max(0, r.Bytes)
		b.set(n, min(max(0, r.Resident), size), size)
		if full {
			told[b] = struct{}{}
		}
	}
	if full {
		for b := range n.watched() {
			if _, ok := told[b]; !ok {
				b.set(n, 0, 0)
			}
		}
	}
	return nil
}

func (m *Map) node(name string, session uint64) (*node, error) {
	n := m.nodes[name]
	switch {
	case n == nil:
		return nil, fmt.Errorf("node %s: %w", name, ErrUnknown)
	case n.session != session:
		return nil, fmt.Errorf("node %s, session %d instead of %d: %w", name, session, n.session, ErrStale)
	}
	return n, nil
}

// Watch is what a node is to watch beside what it watches, or instead of it.
type Watch struct {
	Seq uint64
	// Full: the node forgets all that it watches first.
	Full bool
	// Add may have blocks that the node watches already: it reports them once more.
	Add, Remove []headrace.BlockID
}

// Watch tells a node what has changed of what it is to watch since answer seq, at most so many
// blocks at a time: it asks again until it gets none. It fails with ErrUnknown and ErrStale.
func (m *Map) Watch(name string, session, seq uint64, most int) (Watch, error) {
	n, err := m.node(name, session)
	if err != nil {
		return Watch{}, err
	}
	all := func(yield func(key) bool) {
		n.watched()(func(b *block) bool { return yield(b.key) })
	}
	next, keys, full := n.log.Since(seq, most, all)
	w := Watch{Seq: next, Full: full}
	for _, k := range keys {
		if b := m.blocks[k]; b != nil && n.watches(b) {
			w.Add = append(w.Add, k.id())
		} else {
			w.Remove = append(w.Remove, k.id())
		}
	}
	return w, nil
}

// WatchReady returns what is closed when Watch has something to tell that it has not told.
// It fails with ErrUnknown and ErrStale.
func (m *Map) WatchReady(name string, session uint64) (<-chan struct{}, error) {
	n, err := m.node(name, session)
	if err != nil {
		return nil, err
	}
	return n.log.Ready(), nil
}

// WatchDue enters, for each node that is to watch some of these blocks, the number of the answer of Watch
// with which it has been told of them, unless there is too much for one answer.
func (m *Map) WatchDue(blocks []headrace.Block, due map[string]uint64) {
	for i := range blocks {
		b := m.blocks[keyOf(blocks[i].ID)]
		if b == nil {
			continue
		}
		for _, in := range b.interests {
			for _, h := range in.hosts {
				if h.node != nil {
					due[h.node.name] = h.node.log.Next()
				}
			}
		}
	}
}
