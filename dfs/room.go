package dfs

import (
	"errors"
	"slices"
	"strings"

	"headrace/block"
	"headrace/ring"
	"headrace/wire"
)

// Room is what the disks of a node have, in bytes, and how many blocks there are.
type Room struct {
	Capacity, Used, Remaining uint64
	Blocks                    int
	// Gaps is in how many parts of files of blocks nobody knows what is, SomeGaps the first of them.
	Gaps     int
	SomeGaps []Gap
	// Failed are disks that are out of use.
	Failed []FailedDisk
	// Homeless is how many blocks of segments that are to be here had no room when they were tried last: those whose places are kept, and damaged ones, are not among them.
	Homeless int
	// Unwritable are directories in use that cannot be written any more.
	Unwritable []UnwritableDir
}

// UnwritableDir is a directory of a node that cannot be written, with what that means, the reason, and what to do.
type UnwritableDir struct{ Dir, Cause string }

// FailedDisk is a disk of a node that is out of use, with the reason.
type FailedDisk struct{ Dir, Cause string }

// Gap is a part of a disk of a node that could not be read at its start: copies in it count for nothing.
type Gap struct {
	Dir string // of the disk
	block.Gap
}

// mostGaps is how many gaps, failed disks and directories that cannot be written a node tells others of.
const mostGaps = 20

// Room returns that of the disks that are in use, and tells which are not. It does not look at the blocks.
func (n *Node) Room() (r Room) {
	for _, v := range n.Blocks.Volumes() {
		if v.Cause != nil {
			if len(r.Failed) < mostGaps {
				r.Failed = append(r.Failed, FailedDisk{v.Dir, v.Cause.Error()})
			}
			continue
		}
		r.Capacity += uint64(v.Total)
		r.Remaining += uint64(max(0, v.Free))
		r.Used += uint64(v.Used)
		r.Blocks += int(v.Replicas)
		r.Gaps += len(v.Gaps)
		for _, g := range v.Gaps[:min(len(v.Gaps), mostGaps-len(r.SomeGaps))] {
			r.SomeGaps = append(r.SomeGaps, Gap{v.Dir, g})
		}
	}
	r.Unwritable = n.unwritable.all()
	r.Unwritable = r.Unwritable[:min(len(r.Unwritable), mostGaps)]
	if n.Keeper != nil {
		r.Homeless = int(n.Keeper.homeless.Load())
	}
	return r
}

// Wire returns it as nodes tell each other of it.
func (r Room) Wire() *wire.RingRoom {
	w := &wire.RingRoom{Capacity: r.Capacity, Used: r.Used, Remaining: r.Remaining, Blocks: uint64(r.Blocks), Gaps: uint64(r.Gaps), Homeless: uint64(r.Homeless)}
	for _, d := range r.Failed {
		w.Failed = append(w.Failed, &wire.RingDisk{Dir: strings.ToValidUTF8(d.Dir, "?"), Cause: strings.ToValidUTF8(d.Cause, "?")})
	}
	for _, d := range r.Unwritable {
		w.Unwritable = append(w.Unwritable, &wire.RingDisk{Dir: strings.ToValidUTF8(d.Dir, "?"), Cause: strings.ToValidUTF8(d.Cause, "?")})
	}
	for _, g := range r.SomeGaps {
		cause := "unknown"
		if g.Cause != nil {
			cause = strings.ToValidUTF8(g.Cause.Error(), "?")
		}
		w.SomeGaps = append(w.SomeGaps, &wire.RingGap{Dir: strings.ToValidUTF8(g.Dir, "?"), File: g.File, From: g.From, To: g.To, Cause: cause})
	}
	return w
}

// RoomFrom returns what Wire was made of.
func RoomFrom(w *wire.RingRoom) Room {
	r := Room{Capacity: w.GetCapacity(), Used: w.GetUsed(), Remaining: w.GetRemaining(), Blocks: int(w.GetBlocks()), Gaps: int(w.GetGaps()), Homeless: int(w.GetHomeless())}
	for _, d := range w.GetFailed()[:min(len(w.GetFailed()), mostGaps)] {
		r.Failed = append(r.Failed, FailedDisk{d.GetDir(), d.GetCause()})
	}
	for _, d := range w.GetUnwritable()[:min(len(w.GetUnwritable()), mostGaps)] {
		r.Unwritable = append(r.Unwritable, UnwritableDir{d.GetDir(), d.GetCause()})
	}
	for _, g := range w.GetSomeGaps()[:min(len(w.GetSomeGaps()), mostGaps)] {
		r.SomeGaps = append(r.SomeGaps, Gap{g.GetDir(), block.Gap{File: g.GetFile(), From: g.GetFrom(), To: g.GetTo(), Cause: errors.New(g.GetCause())}})
	}
	return r
}

// Full reports whether there is no room for new blocks: package block keeps a twentieth free. Where no disk is in use there is none.
func (r Room) Full() bool { return r.Capacity == 0 || r.Remaining < r.Capacity/20 }

// Plus adds another node's.
func (r Room) Plus(o Room) Room {
	return Room{r.Capacity + o.Capacity, r.Used + o.Used, r.Remaining + o.Remaining, r.Blocks + o.Blocks, r.Gaps + o.Gaps, slices.Concat(r.SomeGaps, o.SomeGaps),
		slices.Concat(r.Failed, o.Failed), r.Homeless + o.Homeless, slices.Concat(r.Unwritable, o.Unwritable)}
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
