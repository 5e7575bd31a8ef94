package dfs

import (
	"log/slog"
	"sync"
	"time"

	"headrace/block"
	"headrace/meta"
)

const (
	atOnce        = 1000
	indexInterval = 5 * time.Minute
	// attachInterval is how long a disk has to be away at least to be taken for one that was.
	attachInterval = 2 * time.Second
	// scrubInterval is the time between the beginnings of two passes over a disk's blocks, scrubTime how long one may take: the rest is for what is written
	// meanwhile, and for others who want the disk.
	scrubInterval = 7 * 24 * time.Hour
	scrubTime     = 6 * 24 * time.Hour
	// restTime is between two rounds at least: one does for all who asked meanwhile, such as a thousand deletions. longRest is the most: a round that takes so long
	// waits for other nodes.
	restTime = 20 * time.Millisecond
	longRest = 2 * time.Second
)

// Wake has upkeep look soon for what somebody waits for, or leaves behind: recoveries and deletions.
func (n *Node) Wake() {
	poke(n.unclosed)
	poke(n.left)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// rounds calls f at regular times, and soon after somebody has asked for it, if there is a channel for that. It rests for as long as a round took: where rounds take
// longer than they are apart, as on a busy machine, that leaves half of a processor to others.
func (n *Node) rounds(every time.Duration, asked <-chan struct{}, f func()) {
	next := time.NewTimer(every)
	defer next.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-next.C:
		case <-asked:
		}
		began := time.Now()
		f()
		select {
		case <-n.ctx.Done():
			return
		case <-time.After(max(restTime, min(time.Since(began), longRest))):
		}
		next.Reset(every - time.Since(began))
	}
}

// upkeep does what nobody asks for while this node leads the names.
func (n *Node) upkeep() {
	n.rounds(n.Config.Upkeep, nil, func() {
		if n.Leads() {
			n.expire()
			n.Keeper.all.settle()
		}
	})
}

// clear deletes what calls leave behind while this node leads the names, beside the rest: while clients delete all the time it has no end.
func (n *Node) clear() {
	n.rounds(n.Config.Upkeep, n.left, func() {
		for more := true; more && n.Leads() && n.ctx.Err() == nil; {
			swept := n.sweep()
			more = n.Keeper.all.collect() || swept
		}
	})
}

// recoverBlocks has blocks recovered while this node leads the names, beside the rest: somebody waits for that, and a node that is slow to delete
// is not to keep them waiting.
func (n *Node) recoverBlocks() {
	n.rounds(n.Config.Upkeep, n.unclosed, func() {
		if n.Leads() {
			n.Keeper.all.recoverBlocks()
		}
	})
}

// keepIndex writes the index of blocks every few minutes, which on a busy disk takes as long.
func (n *Node) keepIndex() {
	n.rounds(indexInterval, nil, func() {
		n.told("write the index of blocks", n.Blocks.Snapshot())
		n.Keeper.forget(n.Blocks)
		n.Keeper.readings.forget(n.Blocks)
	})
}

// told logs an error that is nobody's.
func (n *Node) told(what string, err error) {
	if err == nil || n.ctx.Err() != nil {
		return
	}
	level := slog.LevelDebug
	if n.news.is(what, err, time.Now()) {
		level = slog.LevelWarn
	}
	n.Config.Log.Log(n.ctx, level, "upkeep", "what", what, "err", err)
}

// news tells what was told a moment ago: upkeep asks a node that is away several times a second. It may be used by several
// goroutines.
type news struct {
	mu   sync.Mutex
	told map[string]told // by what it was about
}

type told struct {
	err string
	at  time.Time
}

const (
	oldNews  = time.Minute
	mostNews = 1000
)

// is reports whether an error differs from the last one about the same, or comes again after a minute.
func (n *news) is(what string, err error, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if last, ok := n.told[what]; ok && last.err == err.Error() && now.Sub(last.at) < oldNews {
		return false
	}
	if len(n.told) >= mostNews || n.told == nil {
		n.told = map[string]told{}
	}
	n.told[what] = told{err.Error(), now}
	return true
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

// mostAhead is by how much later than this node's clock a lease may have been renewed that is left as it is, ms: the clocks of those who lead differ.
const mostAhead = 2 * 60_000

// expire ends leases that were not renewed; when the clock of a node that led before was wrong, nobody knows which those are, and all are (when this one's
// was set: see names.Group). Nothing is proposed when there are none: whatever is proposed is written.
func (n *Node) expire() {
	due, ahead := false, false
	look := func(q meta.Query) { due, ahead = q.Expired(), q.LastRenewed() > q.Time+mostAhead }
	n.ask(look)
	if ahead {
		n.propose(&meta.RenewLeases{Set: true})
		return
	}
	for i := 0; due && i < atOnce; i += meta.MostExpired {
		n.propose(&meta.ExpireLeases{Most: meta.MostExpired})
		poke(n.unclosed)
		due = false
		n.ask(look)
	}
}

// sweep takes apart some of the directories that were deleted, and reports whether there are more.
func (n *Node) sweep() bool {
	due := false
	n.ask(func(q meta.Query) { due = q.Orphaned() })
	if !due {
		return false
	}
	more, ok := n.propose(&meta.Sweep{Most: atOnce}).(*meta.Flag)
	return ok && bool(*more)
}

// attachDisks takes disks out that are not mounted any more, and back in that are there again. All copies are looked at then, and what came back is read: its
// end may be missing.
func (n *Node) attachDisks() {
	n.rounds(attachInterval, nil, func() {
		for _, dir := range block.Attach(n.Blocks) {
			n.Config.Log.Warn("a disk is in use again", "dir", dir)
			n.Keeper.lookSoon()
			if n.Config.ScrubRate > 0 {
				n.running.Go(func() {
					n.told("read the blocks of a disk that is back", n.scrubOnce(dir))
				})
			}
		}
	})
}

// scrub reads all blocks of a disk again and again.
func (n *Node) scrub(dir string) {
	for {
		began := time.Now()
		n.told("read all blocks of "+dir, n.scrubOnce(dir))
		select {
		case <-n.ctx.Done():
			return
		case <-time.After(scrubInterval - time.Since(began)):
		}
	}
}

func (n *Node) scrubOnce(dir string) error {
	return n.Blocks.Scrub(n.ctx, scrubRate(n.Config.ScrubRate, n.Blocks.Volumes(), dir), dir)
}

// scrubRate is how many bytes a second of a disk are read, that all of it is within a week; least at least.
func scrubRate(least int64, volumes []block.Volume, dir string) int64 {
	for _, v := range volumes {
		if v.Dir == dir {
			least = max(least, v.Used/int64(scrubTime/time.Second))
		}
	}
	return least
}
