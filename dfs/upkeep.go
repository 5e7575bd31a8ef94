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
	scrubInterval  = 7 * 24 * time.Hour
	// restTime is between two rounds that somebody has asked for: one round does for all who asked meanwhile, such as a thousand deletions.
	restTime = 20 * time.Millisecond
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

// rounds calls f at regular times, with true, and soon after somebody has asked for it, if there is a channel for that.
func (n *Node) rounds(every time.Duration, asked <-chan struct{}, f func(all bool)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
			f(true)
		case <-asked:
			f(false)
			select {
			case <-n.ctx.Done():
			case <-time.After(restTime):
			}
		}
	}
}

// upkeep does what nobody asks for, or calls leave behind, while this node leads the names.
func (n *Node) upkeep() {
	var set lastLook
	n.rounds(n.Config.Upkeep, n.left, func(all bool) {
		if !n.Leads() {
			set = lastLook{}
			return
		}
		if all {
			n.expire(set.since(n.Config.Now()).Abs() > mostSet)
		}
		n.sweep()
		n.Keeper.all.collect()
		if all {
			n.Keeper.all.settle()
		}
	})
}

// recoverBlocks has blocks recovered while this node leads the names, beside the rest: somebody waits for that, and a node that is slow to delete
// is not to keep them waiting.
func (n *Node) recoverBlocks() {
	n.rounds(n.Config.Upkeep, n.unclosed, func(bool) {
		if n.Leads() {
			n.Keeper.all.recoverBlocks()
		}
	})
}

// keepIndex writes the index of blocks every few minutes, which on a busy disk takes as long.
func (n *Node) keepIndex() {
	n.rounds(indexInterval, nil, func(bool) {
		n.told("write the index of blocks", n.Blocks.Snapshot())
		n.Keeper.forget(n.Blocks)
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

// A lastLook is what time it was when it was looked at last.
type lastLook struct{ last time.Time }

// mostSet is by how much a clock may be set, between two rounds, that still is the same.
const mostSet = 5 * time.Second

// since returns by how much it was set since then: by how much the time of day has gone on more than the time since the machine's start.
func (c *lastLook) since(now time.Time) time.Duration {
	last := c.last
	c.last = now
	if last.IsZero() {
		return 0
	}
	return now.Round(0).Sub(last.Round(0)) - now.Sub(last)
}

// expire ends leases that were not renewed; when the clock was set nobody knows which those are, and all are. Nothing is proposed when
// there are none: whatever is proposed is written.
func (n *Node) expire(set bool) {
	if set {
		n.propose(&meta.RenewLeases{Set: true})
		return
	}
	due := false
	n.ask(func(q meta.Query) { due = q.Expired() })
	if due {
		n.propose(&meta.ExpireLeases{Most: atOnce})
		poke(n.unclosed)
	}
}

// sweep takes apart directories that were deleted.
func (n *Node) sweep() {
	due := false
	n.ask(func(q meta.Query) { due = q.Orphaned() })
	for due && n.ctx.Err() == nil {
		if more, ok := n.propose(&meta.Sweep{Most: atOnce}).(*meta.Flag); !ok || !bool(*more) {
			return
		}
	}
}

// attachDisks takes disks out that are not mounted any more, and back in that are there again. All copies are looked at then, and what came back is read: its
// end may be missing.
func (n *Node) attachDisks() {
	n.rounds(attachInterval, nil, func(bool) {
		for _, dir := range block.Attach(n.Blocks) {
			n.Config.Log.Warn("a disk is in use again", "dir", dir)
			n.Keeper.lookSoon()
			if n.Config.ScrubRate > 0 {
				n.running.Go(func() {
					n.told("read the blocks of a disk that is back", n.Blocks.Scrub(n.ctx, n.Config.ScrubRate, dir))
				})
			}
		}
	})
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
