package dfs

// Room is what the disks of a node have, in bytes, and how many blocks there are.
type Room struct {
	Capacity, Used, Remaining uint64
	Blocks                    int
}

// Room returns that of the disks that are in use.
func (n *Node) Room() (r Room) {
	for _, v := range n.Blocks.Volumes() {
		if v.Cause == nil {
			r.Capacity += uint64(v.Total)
			r.Remaining += uint64(v.Free)
		}
	}
	for _, b := range n.Blocks.Blocks() {
		r.Used += uint64(b.Length)
		r.Blocks++
	}
	return r
}

// Full reports whether there is no room for new blocks: package block keeps a twentieth free.
func (r Room) Full() bool { return r.Capacity > 0 && r.Remaining < r.Capacity/20 }

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
