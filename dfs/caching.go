package dfs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"headrace/block"
	"headrace/meta"
	"headrace/wire"
)

const (
	// mostKept is how many blocks a node keeps in memory: each takes a mapping, of which the kernel gives a process 65,530.
	mostKept = 10_000
	// mostWanted is how many blocks are considered to be kept by all nodes.
	mostWanted = 200_000
	// lookRest is for how many times as long as a look at the directives has taken there is no other one, unless they have changed.
	lookRest = 20
)

// caching is what HDFS's cache directives have nodes keep in memory, on the node that leads: it looks through the directives, says who is to keep
// what, and remembers what nodes say they keep. Nothing of it is written anywhere.
type caching struct {
	looking chan struct{} // has one while somebody looks

	mu    sync.Mutex
	last  *lastCacheLook
	nodes map[string]*keeping // what they have said
}

type lastCacheLook struct {
	*meta.CacheUses
	at   time.Time
	took time.Duration
}

// keeping is what a node keeps, and is to keep.
type keeping struct {
	budget, used int64
	kept         map[uint64]struct{}
	keep         []uint64
	told         bool // somebody has looked since this node has said something
}

func newCaching() *caching {
	return &caching{looking: make(chan struct{}, 1), nodes: map[string]*keeping{}}
}

// forget forgets all, as another node leads.
func (c *caching) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = nil
	clear(c.nodes)
}

// Cache returns how much a node may keep in memory for cache directives, and how much of that it says it keeps.
func (k *Keeper) Cache(node string) (budget, used int64) {
	c := k.caching
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.nodes[node]; of != nil {
		return of.budget, of.used
	}
	return 0, 0
}

// hear takes in what a node says, and returns what it is to keep, if that is known.
func (c *caching) hear(q *wire.KeepRequest) ([]uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.nodes[q.Node]
	if k == nil {
		k = &keeping{}
		c.nodes[q.Node] = k
	}
	k.budget, k.used, k.kept = q.Budget, q.Used, map[uint64]struct{}{}
	for _, id := range q.Kept[:min(len(q.Kept), mostKept)] {
		k.kept[id] = struct{}{}
	}
	return k.keep, k.told
}

// nodesUp returns what nodes keep that are up, each as it was said last.
func (c *caching) nodesUp(p Places) map[string]keeping {
	c.mu.Lock()
	defer c.mu.Unlock()
	up := map[string]keeping{}
	for name, k := range c.nodes {
		switch {
		case p.out(name):
			delete(c.nodes, name)
		case p.up(name):
			up[name] = *k
		}
	}
	return up
}

// order has nodes keep what they are to keep.
func (c *caching) order(known map[string]keeping, keep map[string][]uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range known {
		if k := c.nodes[name]; k != nil {
			k.keep, k.told = keep[name], true
		}
	}
}

// toKeep is a block that is to be in memory.
type toKeep struct {
	id     uint64
	size   int64 // in memory
	copies int
	at     []string // nodes with a copy
}

// assign says which nodes keep what, in the order of blocks as far as budgets go: those who keep one already, and then who has most left.
func assign(blocks []*toKeep, nodes map[string]keeping) map[string][]uint64 {
	left, keep := map[string]int64{}, map[string][]uint64{}
	for name, k := range nodes {
		left[name] = k.budget
	}
	for _, b := range blocks {
		at := slices.DeleteFunc(slices.Clone(b.at), func(name string) bool { return left[name] < b.size || len(keep[name]) >= mostKept })
		slices.SortFunc(at, func(x, y string) int {
			_, hasX := nodes[x].kept[b.id]
			_, hasY := nodes[y].kept[b.id]
			switch {
			case hasX != hasY && hasX:
				return -1
			case hasX != hasY:
				return 1
			}
			return cmp.Or(cmp.Compare(left[y], left[x]), cmp.Compare(x, y))
		})
		for _, name := range at[:min(len(at), b.copies)] {
			left[name] -= b.size
			keep[name] = append(keep[name], b.id)
		}
	}
	return keep
}

// CacheUses returns what cache directives and pools want in memory, and what of that nodes keep: as of a look that knows of the last change of them,
// and is not old. Only the node that leads knows.
func (n *Node) CacheUses(ctx context.Context) (*meta.CacheUses, error) {
	c := n.Keeper.caching
	select {
	case c.looking <- struct{}{}:
		defer func() { <-c.looking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var changes uint64
	if err := n.Query(n.root(), func(q meta.Query) error { changes = q.CacheChanges(); return nil }); err != nil {
		return nil, err
	}
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	if last != nil && last.Changes == changes && time.Since(last.at) < max(n.Config.Memory/2, lookRest*last.took) {
		return last.CacheUses, nil
	}
	return n.lookAtCache(ctx)
}

// lookAtCache looks through the directives, and says who keeps what.
func (n *Node) lookAtCache(ctx context.Context) (*meta.CacheUses, error) {
	c, began, places := n.Keeper.caching, time.Now(), n.Places()
	nodes := c.nodesUp(places)
	kept := map[uint64]int{}
	for _, k := range nodes {
		for id := range k.kept {
			kept[id]++
		}
	}
	var uses *meta.CacheUses
	var blocks []*toKeep
	known := map[uint64]*toKeep{}
	err := n.Walk(ctx, n.root(), func(q meta.Query) (err error) {
		uses, err = q.CacheUses(func(id uint64) int { return kept[id] }, func(p meta.Placed, copies int) {
			if b := known[p.ID]; b != nil {
				b.copies = max(b.copies, copies)
			} else if len(blocks) < mostWanted {
				at := slices.DeleteFunc(slices.Clone(places.names(p.LocatedBlock)), func(name string) bool { return !places.up(name) })
				b = &toKeep{p.ID, block.MemorySize(p.Size), copies, at}
				blocks, known[p.ID] = append(blocks, b), b
			}
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	c.order(nodes, assign(blocks, nodes))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = &lastCacheLook{uses, time.Now(), time.Since(began)}
	return uses, nil
}

// planCache looks through the cache directives, again and again, while this node leads.
func (n *Node) planCache() {
	n.rounds(n.Config.Memory, nil, func() {
		if !n.Leads() {
			n.Keeper.caching.forget()
			return
		}
		uses, err := n.CacheUses(n.ctx)
		if err == nil && uses.Passed > 0 {
			err = fmt.Errorf("the oldest cache directives are of so many files that %d others are not seen to", uses.Passed)
		}
		n.told("look what is to be kept in memory", err)
	})
}

func (s service) Keep(_ context.Context, q *wire.KeepRequest) (*wire.KeepResponse, error) {
	if _, member, err := s.heardFrom(q.Node); err != nil || !member {
		return &wire.KeepResponse{Unknown: true}, err
	}
	keep, known := s.k.caching.hear(q)
	return &wire.KeepResponse{Unknown: !known, Keep: keep}, nil
}
