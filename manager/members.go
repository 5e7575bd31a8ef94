package manager

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"headrace/wire"
)

const maxNodes = 10_000

var (
	errNotJoined = errors.New("the node has not joined, or its stream was lost; it is to join again")
	errReplaced  = errors.New("another node has joined with this name; give each node a name of its own with --name")
	errLate      = errors.New("the report comes after a later one, or from another process than has joined; the node is to join again")
	errFull      = errors.New("there are too many nodes or containers; no more are taken")
	errNoNode    = errors.New("there is no node of that name; headrace cluster lists them")
)

// members are the nodes that have joined since the manager was started. They know
// nothing of what the nodes have. Not safe for concurrent use.
type members struct {
	log    *slog.Logger
	timing *timing
	all    map[string]*node
	here   uint32 // those that are not away
}

// node is one that has joined since the manager was started.
type node struct {
	name   string
	info   *wire.NodeInfo // of the last report; nil before the first
	stream *stream        // nil: there is none
	// session is the number of the process that has joined last, report that of its last report; 0: an older version.
	session, report uint64
	lost            time.Time // when the stream was lost
	heard           time.Time // the last report, or, before it, when it joined first
	away            bool      // nothing is heard of it, or no report yet
	awayMs          int64
}

// stream is a connection on which a node gets orders.
type stream struct {
	node *node
	// wake has a capacity of 1: there may be orders to send.
	wake chan struct{}
	// over is closed when the stream is to end, for the reason why.
	over chan struct{}
	why  error
	// sent is the number of the last order that was taken for sending.
	sent uint64
	// began is when the node joined.
	began time.Time
}

// end ends the stream; it is called once.
func (s *stream) end(why error) {
	s.why = why
	s.node.stream = nil
	s.node.lost = time.Now()
	close(s.over)
}

// open reports whether the stream is still that of its node.
func (s *stream) open() bool { return s.node.stream == s }

// poke tells whoever sends that there may be something.
func (s *stream) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// differing returns a node that is there and of another version than n, in their names' order; nil: there is none.
func (m *members) differing(n *node) (first *node) {
	for _, o := range m.all {
		if !o.away && o.info.Version != n.info.Version && (first == nil || o.name < first.name) {
			first = o
		}
	}
	return first
}

// join begins a stream of the node; one that it had before ends.
func (m *members) join(q *wire.JoinRequest) (*stream, error) {
	name, now := q.Node, time.Now()
	n := m.all[name]
	if n == nil {
		if len(m.all) >= maxNodes {
			return nil, errFull
		}
		n = &node{name: name, away: true, awayMs: now.UnixMilli(), heard: now}
		m.all[name] = n
	}
	if n.stream != nil {
		m.log.Info("a node has joined again, its old stream ends", "node", name)
		n.stream.end(errReplaced)
	} else {
		m.log.Info("a node has joined", "node", name, "version", clean(q.Version, maxName))
	}
	if q.Session != n.session {
		n.session, n.report = q.Session, 0
	}
	// What was last heard is not newer because it joins again: a node may do that for ever, and never report.
	n.stream = &stream{node: n, began: now, wake: make(chan struct{}, 1), over: make(chan struct{})}
	n.stream.poke()
	return n.stream, nil
}

// leave ends a stream, unless it has been ended already.
func (m *members) leave(s *stream, why error) {
	if s.open() {
		s.end(why)
		m.log.Info("a node's stream has ended", "node", s.node.name, "reason", why)
	}
}

// report enters what a node says of itself; back: it was away. A report that was given up may still come, when its
// connection is mended: what it says is not true any more.
func (m *members) report(r *wire.NodeReport, now time.Time) (n *node, back bool, err error) {
	n = m.all[r.Node]
	switch {
	case n == nil, n.stream == nil:
		return nil, false, errNotJoined
	case r.Session != n.session, r.Session != 0 && r.Report <= n.report:
		return nil, false, errLate
	}
	n.heard, n.info, n.report = now, r.Info, r.Report
	if n.info == nil {
		n.info = &wire.NodeInfo{}
	}
	if back = n.away; back {
		n.away, n.awayMs = false, 0
		m.here++
	}
	return n, back, nil
}

// expire finds the nodes that count as away from now on, and those to be forgotten.
func (m *members) expire(now time.Time) (lost, forgotten []*node) {
	for _, n := range m.all {
		silent := now.Sub(n.heard) > m.timing.silent
		switch {
		case n.away && n.stream == nil && now.Sub(n.lost) > m.timing.forget:
			forgotten = append(forgotten, n)
			continue
		case silent && n.stream != nil && now.Sub(n.stream.began) > m.timing.silent:
			m.log.Warn("a node reports no more; it counts as away", "node", n.name)
			n.stream.end(fmt.Errorf("no report for %v", m.timing.silent))
		case silent && !n.away:
			m.log.Warn("a node joins again and does not report; it counts as away", "node", n.name)
		case !n.away && n.stream == nil && now.Sub(n.lost) > m.timing.away:
			m.log.Warn("a node has not come back; it counts as away", "node", n.name)
		default:
			continue
		}
		if !n.away {
			n.away, n.awayMs = true, time.Now().UnixMilli()
			m.here--
			lost = append(lost, n)
		}
	}
	return lost, forgotten
}

// absent finds a node that may be forgotten.
func (m *members) absent(name string) (*node, error) {
	n := m.all[name]
	switch {
	case n == nil:
		return nil, errNoNode
	case !n.away || n.stream != nil:
		return nil, fmt.Errorf("node %s is here; stop its daemon first", name)
	}
	return n, nil
}

// forget takes out a node that is away.
func (m *members) forget(n *node, why string) {
	m.log.Info("a node is forgotten", "node", n.name, "reason", why)
	delete(m.all, n.name)
}

// list returns all nodes by their names.
func (m *members) list() []*wire.ManagedNode {
	var all []*wire.ManagedNode
	for _, name := range slices.Sorted(maps.Keys(m.all)) {
		n := m.all[name]
		all = append(all, &wire.ManagedNode{Name: name, Info: n.info, AwayMs: n.awayMs})
	}
	return all
}
