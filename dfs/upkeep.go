package dfs

import (
	"errors"
	"time"

	"headrace/block"
	"headrace/internal/crash"
	"headrace/meta"
)

const (
	atOnce        = 1000
	strayInterval = time.Hour
	indexInterval = 5 * time.Minute
	scrubInterval = 7 * 24 * time.Hour
)

// Wake has upkeep begin at once, for something that somebody waits for.
func (n *Node) Wake() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// upkeep does what nobody asks for.
func (n *Node) upkeep() {
	tick := time.NewTicker(n.Config.Upkeep)
	defer tick.Stop()
	strays, index := time.NewTicker(strayInterval), time.NewTicker(indexInterval)
	defer strays.Stop()
	defer index.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-strays.C:
			if n.Leads() { // who does not cannot ask
				n.dropStrays()
			}
		case <-index.C:
			n.told("write the index of blocks", n.Blocks.Snapshot())
		case <-tick.C:
			if n.Leads() {
				n.propose(&meta.ExpireLeases{Most: atOnce})
			}
			n.round()
		case <-n.wake:
			n.round()
		}
	}
}

// round looks after the names, which is the leader's work.
func (n *Node) round() {
	if !n.Leads() {
		return
	}
	n.recoverBlocks()
	n.sweep()
	n.collect()
}

// told logs an error that is nobody's.
func (n *Node) told(what string, err error) {
	if err != nil && n.ctx.Err() == nil {
		n.Config.Log.Warn("upkeep", "what", what, "err", err)
	}
}

// propose proposes in the name of the node.
func (n *Node) propose(op meta.Op) meta.Result {
	r, err := n.Propose(n.ctx, meta.Command{Caller: n.root(), Op: op})
	n.told("propose", err)
	return r
}

// ask queries in the name of the node.
func (n *Node) ask(f func(meta.Query)) {
	n.told("ask", n.Query(n.root(), func(q meta.Query) error { f(q); return nil }))
}

// sweep takes apart directories that were deleted.
func (n *Node) sweep() {
	for n.ctx.Err() == nil {
		if more, ok := n.propose(&meta.Sweep{Most: atOnce}).(*meta.Flag); !ok || !bool(*more) {
			return
		}
	}
}

// collect deletes the copies of blocks that belong to no file any more. What cannot be deleted is
// a stray, if it comes back.
func (n *Node) collect() {
	for n.ctx.Err() == nil {
		var garbage []meta.Garbage
		n.ask(func(q meta.Query) { garbage = q.Garbage(atOnce) })
		if len(garbage) == 0 {
			return
		}
		var copies []block.Block
		done := &meta.Collected{}
		for _, g := range garbage {
			done.Numbers = append(done.Numbers, g.Number)
			if i, err := n.Blocks.Stat(int64(g.Block.ID)); err == nil {
				copies = append(copies, i.Block) // of whatever stamp: no file has it
			}
		}
		if err := n.Blocks.Delete(copies...); !errors.Is(err, block.ErrNotFound) {
			n.told("delete blocks", err)
		}
		crash.Here("dfs.collect.deleted")
		n.propose(done)
	}
}

// dropStrays deletes copies of which no file knows: their block was allocated before they
// were made, so it was deleted. It wants to find them twice.
func (n *Node) dropStrays() {
	copies := n.Blocks.Blocks() // first: what is made now may be allocated now
	found := map[int64]bool{}
	var drop []block.Block
	n.ask(func(q meta.Query) {
		for _, c := range copies {
			if q.Has(uint64(c.ID)) {
				continue
			}
			if found[c.ID] = true; n.strays[c.ID] {
				drop = append(drop, c.Block)
			}
		}
	})
	n.strays = found
	if len(drop) > 0 {
		n.Config.Log.Warn("copies of blocks that no file has are deleted", "number", len(drop))
		n.told("delete strays", n.Blocks.Delete(drop...))
	}
}

// scrub reads all blocks again and again.
func (n *Node) scrub() {
	for {
		n.told("read all blocks", n.Blocks.Scrub(n.ctx, n.Config.ScrubRate))
		select {
		case <-n.ctx.Done():
			return
		case <-time.After(scrubInterval):
		}
	}
}
