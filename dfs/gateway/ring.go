package gateway

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/dfs"
	"headrace/hdfs/ipc"
	"headrace/meta"
	"headrace/ring"
	"headrace/wire"
)

// RingProtocol is the name of the protocol by which the superuser asks and says what is to be done about nodes: wire.RingAdmin.
const RingProtocol = "headrace.v1.RingAdmin"

// anywhere are methods that each node answers for itself.
var anywhere = map[string]bool{"getHAServiceState": true, "getServerDefaults": true}

// asksOnly is the method about nodes that changes nothing. The others are refused to whom the node that the client has reached cannot prove.
const asksOnly = "Ring"

// ringAdmin are the methods about nodes.
var ringAdmin = table{
	asksOnly: on(func(c *call, _ *wire.RingRequest) (*wire.RingResponse, error) {
		v, err := c.leading()
		if err != nil {
			return nil, err
		}
		r := c.ring(v)
		if !c.by.Super { // names of files are for who may see all
			return r, nil
		}
		return r, c.ask(func(q meta.Query) error {
			for _, n := range r.Nodes {
				for _, g := range n.GetRoom().GetSomeGaps() {
					if g.From >= 0 { // else it is of a directory
						g.Path, _ = q.PathOf(g.File)
					}
				}
			}
			return nil
		})
	}),
	"Drain": change((*wire.RingDrainRequest).GetNode, func(name string) ring.Event { return ring.Drain{Node: name} }),
	"Fill":  change((*wire.RingFillRequest).GetNode, func(name string) ring.Event { return ring.Fill{Node: name} }),
	"Remove": func(c *call, q proto.Message) (proto.Message, error) {
		if err := c.unneeded(q.(*wire.RingRemoveRequest).GetNode()); err != nil {
			return nil, err
		}
		return remove(c, q)
	},
	"Raise": on((*call).raise),
}

var remove = change((*wire.RingRemoveRequest).GetNode, func(name string) ring.Event { return ring.Remove{Node: name} })

// unneeded refuses a node that has copies which the ring does not know of, because they are not just where their segments belong.
func (c *call) unneeded(who string) error {
	if err := c.privileged(); err != nil {
		return err
	}
	v, err := c.leading()
	if err != nil {
		return err
	}
	m, err := memberOf(v, who)
	if err != nil {
		return ipc.Throw(ipc.ClassIO, "%s", err)
	}
	n, err := c.node.Keeper.Kept(m.Name)
	if err == nil && n > 0 {
		err = ipc.Throw(ipc.ClassIO, "%s is needed: copies of %d blocks are kept there", m.Name, n)
	}
	return err
}

// raise puts the newest version in force that all nodes understand which are not out.
func (c *call) raise(q *wire.RingRaiseRequest) (*wire.RingRaiseResponse, error) {
	if err := c.privileged(); err != nil {
		return nil, err
	}
	v, raised, err := c.node.Raise(c.ctx, c.understands, q.DespiteAway)
	if err != nil {
		return nil, err
	}
	if raised {
		c.log.Warn("the version in force is raised", "version", v.Version)
	}
	return &wire.RingRaiseResponse{Version: max(1, v.Version), Raised: raised}, nil
}

// understands returns the version that a node has said it understands, and false if it has not.
func (g *Gateway) understands(name string) (uint32, bool) {
	switch {
	case name == g.node.Identity.Node:
		return g.node.Understands(), true
	case g.says == nil:
		return 0, false
	}
	return g.says(name)
}

// leading returns the ring as the node that leads knows it.
func (c *call) leading() (*dfs.View, error) {
	v := c.node.View()
	if !c.node.Leads() {
		return nil, &dfs.NotLeader{Leader: v.Leader}
	}
	return v, nil
}

// change makes a method that has something happen to a node.
func change[Q proto.Message](node func(Q) string, event func(name string) ring.Event) method {
	return on(func(c *call, q Q) (*wire.RingChangeResponse, error) {
		if err := c.privileged(); err != nil {
			return nil, err
		}
		v, err := c.leading()
		if err != nil {
			return nil, err
		}
		m, err := memberOf(v, node(q))
		if err != nil {
			return nil, ipc.Throw(ipc.ClassIO, "%s", err)
		}
		if v, err = c.node.ChangeRing(c.ctx, event(m.Name)); err != nil {
			return nil, err
		}
		return &wire.RingChangeResponse{Epoch: v.Table.Epoch(), Moves: uint32(len(v.Table.Moves()))}, nil
	})
}

// memberOf finds the node that somebody means: by its name or the beginning of it, its address, or the port of RPC behind that.
func memberOf(v *dfs.View, who string) (dfs.Member, error) {
	var found []dfs.Member
	for _, n := range v.Table.Nodes() {
		m := v.Members[n.Name]
		switch {
		case n.Name == who:
			return m, nil
		case who == "":
		case strings.HasPrefix(n.Name, who), m.Host == who, m.RPC != 0 && fmt.Sprintf("%s:%d", m.Host, m.RPC) == who:
			found = append(found, m)
		}
	}
	switch len(found) {
	case 0:
		return dfs.Member{}, fmt.Errorf("there is no node %.64q", who)
	case 1:
		return found[0], nil
	}
	return dfs.Member{}, fmt.Errorf("%d nodes may be meant by %.64q", len(found), who)
}

// ring describes the nodes, in the order of the ring.
func (c *call) ring(v *dfs.View) *wire.RingResponse {
	t := v.Table
	r := &wire.RingResponse{Epoch: t.Epoch(), Term: v.Term, Leader: v.Leader, Replicas: uint32(t.Replicas()), Segments: uint32(t.Segments()),
		Missing: uint32(len(t.Missing())), Version: max(1, v.Version)}
	of, voters, differing := map[string]*wire.RingNode{}, c.node.Voters(), c.node.Differing()
	for _, n := range t.Nodes() {
		m := v.Members[n.Name]
		votes := slices.Contains(voters, n.Name)
		node := &wire.RingNode{State: n.State.String(), Leaving: n.Leaving, Leads: n.Name == v.Leader, Votes: votes, Differs: slices.Contains(differing, n.Name), Silent: -1,
			Member: &wire.RingMember{Name: n.Name, Number: m.Number, Storage: m.Storage, Host: m.Host, RpcPort: uint32(m.RPC), DataPort: uint32(m.Data),
				WebPort: uint32(m.Web), PeerPort: uint32(m.Peer), Rack: n.Rack}}
		if node.Version, _ = c.understands(n.Name); node.Version == 0 {
			node.Version = m.Version // as it was noted before
		}
		if silent, ok := c.silent(n.Name); ok {
			node.Room = c.node.RoomOf(n.Name).Wire()
			node.Silent = silent.Seconds()
		}
		of[n.Name] = node
		r.Nodes = append(r.Nodes, node)
	}
	for s := range t.Segments() {
		of[t.Owner(uint16(s))].Owns++
		for _, name := range t.Holders(uint16(s)) {
			of[name].Holds++
		}
	}
	for _, m := range t.Moves() {
		of[m.Node].Fills++
		r.Moves++
	}
	return r
}

// silent returns for how long a node was not heard, and false when it never was.
func (g *Gateway) silent(name string) (time.Duration, bool) {
	if name == g.node.Identity.Node {
		return 0, true
	}
	if g.heard == nil {
		return 0, false
	}
	return g.heard(name)
}
