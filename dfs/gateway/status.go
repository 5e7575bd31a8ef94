package gateway

import (
	"time"

	"headrace/dfs"
	"headrace/meta"
	"headrace/ring"
)

// Status is how it stands with the file system, without names of files, for whoever may reach the port: HDFS tells as much of itself.
type Status struct {
	Node, Pool, Leader string // names of nodes
	LeaderWeb          string // HOST:PORT of the leader's page; empty when this node leads, or that is not known
	Started            time.Time
	Epoch, Term        uint64
	Segments, Replicas int
	Moves, Unheld      int // segments that are being filled, and that nobody has who is up
	Nodes              []NodeStatus
	// What follows only the node that leads knows: Leads.
	Leads                         bool
	SafeMode                      bool
	Room                          dfs.Room
	Missing, Bad, Lacking         uint64 // blocks
	Open                          int    // files
	Live, Dead, Leaving, InMemory int
}

// NodeStatus is that of a node. Room and Silent are known where Heard says so.
type NodeStatus struct {
	dfs.Member
	State                string
	Leaving, Leads, Self bool
	Owns, Holds, Fills   int // segments
	Heard                bool
	Silent               time.Duration
	Room                 dfs.Room
	InMemory             int // blocks
}

// lookTime is for how long what takes a look at all blocks is told again to those who only watch.
const lookTime = time.Minute

// Status looks how it stands.
func (g *Gateway) Status() (*Status, error) {
	v := g.node.View()
	t := v.Table
	s := &Status{Node: g.node.Identity.Node, Pool: g.node.Identity.Pool, Leader: v.Leader, Started: g.began, Epoch: t.Epoch(), Term: v.Term, Segments: t.Segments(), Replicas: t.Replicas(),
		Moves: len(t.Moves()), Unheld: len(t.Missing()), Leads: g.node.Leads()}
	if m, ok := v.Members[v.Leader]; ok && !s.Leads && m.Web != 0 {
		s.LeaderWeb = m.WebAddress()
	}
	in := g.node.Keeper.Remembered()
	at := map[string]int{}
	for i, n := range t.Nodes() {
		at[n.Name] = i
		node := NodeStatus{Member: v.Members[n.Name], State: n.State.String(), Leaving: n.Leaving, Leads: n.Name == v.Leader, Self: n.Name == s.Node}
		if node.Silent, node.Heard = g.silent(n.Name); node.Heard {
			node.Room = g.node.RoomOf(n.Name)
		}
		if s.Leads {
			node.InMemory = in[n.Name]
			s.InMemory += node.InMemory
		}
		switch {
		case n.State != ring.IsUp:
			s.Dead++
		case n.Leaving:
			s.Leaving++
			s.Live++
		default:
			s.Live++
		}
		s.Nodes = append(s.Nodes, node)
	}
	for i := range t.Segments() {
		s.Nodes[at[t.Owner(uint16(i))]].Owns++
		for _, name := range t.Holders(uint16(i)) {
			s.Nodes[at[name]].Holds++
		}
	}
	for _, m := range t.Moves() {
		s.Nodes[at[m.Node]].Fills++
	}
	if !s.Leads {
		return s, nil
	}
	h, err := g.health.of(g.node, lookTime)
	if err == nil {
		s.Room, s.Missing, s.Bad, s.Lacking = h.room, h.missing, h.bad, h.lacking
		s.Open, err = g.open()
	}
	if err == nil {
		err = g.node.Query(meta.Caller{}, func(q meta.Query) error { s.SafeMode = q.SafeMode(); return nil })
	}
	return s, err
}

// mostOpen is how many open files are counted.
const mostOpen = 100_000

// open counts the files that somebody writes.
func (g *Gateway) open() (n int, err error) {
	after, more := uint64(0), true
	for more && n < mostOpen && err == nil {
		err = g.node.Query(meta.Caller{User: g.node.Identity.Owner, Super: true}, func(q meta.Query) error {
			files, rest, err := q.OpenFiles(after, "/")
			if n += len(files); len(files) > 0 {
				after = files[len(files)-1].ID
			}
			more = rest
			return err
		})
	}
	return n, err
}
