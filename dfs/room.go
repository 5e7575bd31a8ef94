package dfs

import "headrace/ring"

// Room is what the disks of a node have, in bytes, and how many blocks there are.
type Room struct {
	Capacity, Used, Remaining uint64
	Blocks                    int
}

// Room returns that of the disks that are in use. It does not look at the blocks.
func (n *Node) Room() (r Room) {
	for _, v := range n.Blocks.Volumes() {
		if v.Cause == nil {
			r.Capacity += uint64(v.Total)
			r.Remaining += uint64(max(0, v.Free))
			r.Used += uint64(v.Used)
			r.Blocks += int(v.Replicas)
		}
	}
	return r
}

// Full reports whether there is no room for new blocks: package block keeps a twentieth free. Where no disk is in use there is none.
func (r Room) Full() bool { return r.Capacity == 0 || r.Remaining < r.Capacity/20 }

// Plus adds another node's.
func (r Room) Plus(o Room) Room {
	return Room{r.Capacity + o.Capacity, r.Used + o.Used, r.Remaining + o.Remaining, r.Blocks + o.Blocks}
}

// RoomOf returns what is known of a node of the ring.
func (n *Node) RoomOf(name string) Room {
	if name == n.Identity.Node {
		return n.Room()
	}
	if n.Config.Peers == nil {
		return Room{}
	}
	r, _ := n.Config.Peers.Room(name)
	return r
}

// TotalRoom returns what is known of all nodes that are up.
func (n *Node) TotalRoom() (r Room) {
	for _, m := range n.View().Table.Nodes() {
		if m.State == ring.IsUp {
			r = r.Plus(n.RoomOf(m.Name))
		}
	}
	return r
}
