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
