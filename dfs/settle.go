package dfs

import (
	"context"
	"maps"
	"slices"
	"sync"

	"connectrpc.com/connect"

	"headrace/internal/crash"
	"headrace/meta"
	"headrace/ring"
	"headrace/wire"
)

// A steward is what the Keeper of the node that leads the names does about the blocks of all.
type steward struct {
	*Keeper
	cursor   uint64         // the file where the walk over unsettled blocks goes on
	garbage  garbageWalk    // of the goroutine that collects
	fetched  []uint64       // blocks that nodes have fetched since the last round; guarded by mu
	passing  map[uint64]int // lacking, of the walk under way
	settling sync.RWMutex   // held for writing while blocks are settled, for reading while segments are listed
	lacking  map[uint64]int // copies that are to be made yet, of blocks whose places are kept; guarded by mu
}

const (
	walkedAtOnce = 2000 // files
	mostOrdered  = 32   // fetches under way
)

// settle walks over the blocks of which it is kept where they are, some in each round: it has copies made that are missing, notes who has
// one, and lets the places of a block be forgotten once it is just where its segment belongs.
func (k *steward) settle() {
	k.settling.Lock() // a list of a segment's blocks has either those from before or those from after
	defer k.settling.Unlock()
	var blocks []meta.Placed
	next := uint64(0)
	places := k.n.Places()
	k.mu.Lock()
	fetched := k.fetched
	k.fetched = nil
	k.mu.Unlock()
	k.n.ask(func(q meta.Query) {
		if q.SafeMode() {
			return
		}
		blocks, next = q.Unsettled(k.cursor, walkedAtOnce, places.View.Table.Replicas())
		for _, id := range fetched { // until the walk comes round again the node that had it may be lost
			if p := q.Placed(id); p != nil && p.Complete && len(p.Nodes) > 0 {
				blocks = append(blocks, *p)
			}
		}
	})
	k.cursor = next
	for i := range blocks { // those that fewer copies are wanted of than before are where their segments belong
		blocks[i].Nodes = places.names(blocks[i].LocatedBlock)
	}
	copies := k.lookAround(places, blocks)
	var moved []meta.Relocation
	for i := range blocks {
		if r := k.settleOne(places, &blocks[i], copies); r != nil {
			moved = append(moved, *r)
		}
	}
	k.relocate(moved)
	if next == 0 {
		k.mu.Lock()
		k.lacking, k.passing = k.passing, map[uint64]int{}
		k.mu.Unlock()
	}
}

// relocate notes where copies of blocks are.
func (k *steward) relocate(all []meta.Relocation) {
	if len(all) == 0 {
		return
	}
	var commands []*meta.Relocate
	k.n.ask(func(q meta.Query) { commands = meta.Relocates(q, all) })
	for _, o := range commands {
		k.n.propose(o)
	}
}

// census is what nodes say of copies: by node and block. A node that has not answered is not in it.
type census map[string]map[uint64]*wire.BlockCopy

func (f census) has(node string, b *meta.Block) bool {
	return finished(f[node][b.ID], b) && !f[node][b.ID].Damaged
}

// lookAround asks the nodes that are up for blocks that are there, or are to be.
func (k *steward) lookAround(places Places, blocks []meta.Placed) census {
	asked := map[string][]uint64{}
	for i := range blocks {
		b := &blocks[i]
		wanted, _ := places.wanted(b)
		for _, name := range unique(slices.Concat(places.names(b.LocatedBlock), wanted)) {
			if places.up(name) {
				asked[name] = append(asked[name], b.ID)
			}
		}
	}
	all := census{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for name, ids := range asked {
		asking.Go(func() {
			said := map[uint64]*wire.BlockCopy{}
			for part := range slices.Chunk(ids, askedAtOnce) {
				copies, err := k.lookAt(k.n.ctx, name, part...)
				if err != nil {
					k.n.told("look at copies of "+name, err)
					return
				}
				for i, c := range copies {
					said[part[i]] = c
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all[name] = said
		})
	}
	asking.Wait()
	return all
}

func unique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// settleOne decides about a block: what is noted of it anew, or nil.
func (k *steward) settleOne(places Places, b *meta.Placed, copies census) *meta.Relocation {
	wanted, all := places.wanted(b)
	var have []string // in the order in which they are kept, then in that of the table
	lost := false
	for _, name := range b.Nodes {
		switch asked := copies[name] != nil; {
		case copies.has(name, &b.Block):
			have = append(have, name)
		case asked:
			lost = true
		case !places.out(name): // it will be back, or is slow
			have = append(have, name)
		}
	}
	complete := all
	var lack []string
	for _, name := range wanted {
		switch {
		case copies[name] == nil:
			complete = false
		case copies.has(name, &b.Block):
			if !slices.Contains(have, name) {
				have = append(have, name)
			}
		default:
			complete = false
			lack = append(lack, name)
		}
	}
	// A good copy is one also where it is not noted yet: those that are may all be away.
	sources := slices.DeleteFunc(slices.Clone(have), func(name string) bool { return copies[name] == nil })
	for _, name := range lack {
		if !places.full(name) {
			k.order(b, name, sources)
		}
	}
	k.count(b, places, copies, have)
	t := places.View.Table
	few := places.Copies(b.Replication) < t.Replicas()
	nodes := have
	switch {
	case len(sources) == 0 || lost && len(have) == 0:
		return nil // nothing is known for certain
	case complete && few:
		nodes = wanted
	case complete && t.Settled(b.Segment):
		nodes = nil
	}
	if len(nodes) > 0 && slices.Equal(unique(slices.Clone(nodes)), unique(slices.Clone(b.Nodes))) {
		return nil
	}
	return &meta.Relocation{Block: b.ID, Stamp: b.Stamp, Nodes: nodes}
}

// count notes how many copies of a block are missing.
func (k *steward) count(b *meta.Placed, places Places, copies census, have []string) {
	n := 0
	for _, name := range have {
		if copies.has(name, &b.Block) {
			n++
		}
	}
	if missing := min(places.Copies(b.Replication), members(places.View.Table)) - n; missing > 0 {
		k.mu.Lock()
		k.passing[b.ID] = missing
		k.mu.Unlock()
	}
}

// members counts the nodes that copies may be at.
func members(t *ring.Table) (n int) {
	for _, node := range t.Nodes() {
		if node.State != ring.IsOut && !node.Leaving {
			n++
		}
	}
	return n
}

// order asks a node to fetch a block, in the background, unless it has been asked.
func (k *steward) order(b *meta.Placed, node string, from []string) {
	o := order{b.ID, node}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(from) == 0 || k.ordered[o] || len(k.ordered) >= mostOrdered {
		return
	}
	k.ordered[o] = true
	w := wantedProto(b)
	k.n.running.Go(func() {
		defer func() {
			k.mu.Lock()
			delete(k.ordered, o)
			k.mu.Unlock()
		}()
		at, err := k.at(node)
		if err == nil {
			ctx, cancel := context.WithTimeout(k.n.ctx, fetchTime(b.Size))
			defer cancel()
			_, err = at.Fetch(ctx, &wire.FetchRequest{Wanted: w, From: from})
		}
		k.n.told("have a block copied to "+node, err)
		if err == nil {
			k.mu.Lock()
			k.fetched = append(k.fetched, b.ID)
			k.mu.Unlock()
		}
	})
}

func (k *steward) missing() (blocks, copies int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := range maps.Values(k.lacking) {
		blocks, copies = blocks+1, copies+n
	}
	return blocks, copies
}

// Kept returns of how many blocks a copy is kept at a node, and not just because their segments are there, or is being written: before it
// is taken off the ring, they are to be elsewhere. Only the node that leads knows.
func (k *Keeper) Kept(node string) (n int, err error) {
	count := func(blocks []meta.Placed) {
		for i := range blocks {
			if slices.Contains(blocks[i].Nodes, node) {
				n++
			}
		}
	}
	// First what may be finished meanwhile.
	err = k.n.Query(k.n.root(), func(q meta.Query) error { count(q.Unfinished()); return nil })
	for from, more := uint64(0), true; more && err == nil; more = from != 0 {
		err = k.n.Query(k.n.root(), func(q meta.Query) error {
			var blocks []meta.Placed
			blocks, from = q.Unsettled(from, walkedAtOnce, 0)
			count(blocks)
			return nil
		})
	}
	return n, err
}

// A garbageWalk is one over the blocks to be deleted, from the oldest to the newest.
type garbageWalk struct {
	from   uint64          // the number where it goes on
	failed map[string]bool // nodes that could not be asked: they are again in the next one
}

// collect has the copies of some blocks deleted that belong to no file any more, and reports whether the walk over those goes on. A node that is away, or does
// not delete some, finds them itself when it looks at all that it has. What lies at one that is there and cannot be asked is passed over until the next walk: others go on.
func (k *steward) collect() (more bool) {
	w := &k.garbage
	var garbage []meta.Garbage
	k.n.ask(func(q meta.Query) { garbage = q.Garbage(w.from, atOnce) })
	if done := k.dropped(garbage); len(done) > 0 {
		crash.Here("dfs.collect.deleted")
		k.n.propose(&meta.Collected{Numbers: done})
	}
	if more = len(garbage) == atOnce; more {
		w.from = garbage[atOnce-1].Number + 1
	} else {
		*w = garbageWalk{}
	}
	return more
}

// dropped has garbage deleted at all nodes that may have some, and returns the numbers of what none of them has any more.
func (k *steward) dropped(garbage []meta.Garbage) (done []uint64) {
	places := k.n.Places()
	t := places.View.Table
	at, of := map[string][]uint64{}, make([][]string, len(garbage))
	failed := maps.Clone(k.garbage.failed)
	for i, g := range garbage {
		of[i] = unique(slices.Concat(g.Nodes, t.Holders(g.Segment), t.Targets(g.Segment)))
		for _, name := range of[i] {
			if places.up(name) && !failed[name] {
				at[name] = append(at[name], g.Block.ID)
			}
		}
	}
	var mu sync.Mutex
	var dropping sync.WaitGroup
	for name, ids := range at {
		dropping.Go(func() {
			err := k.dropAt(name, ids)
			k.n.told("delete blocks at "+name, err)
			if err != nil && name != k.n.Identity.Node && !connect.IsWireError(err) { // what it says itself it will say again
				mu.Lock()
				defer mu.Unlock()
				if failed == nil {
					failed = map[string]bool{}
				}
				failed[name] = true
			}
		})
	}
	dropping.Wait()
	k.garbage.failed = failed
	for i, g := range garbage {
		if !slices.ContainsFunc(of[i], func(name string) bool { return failed[name] }) {
			done = append(done, g.Number)
		}
	}
	return done
}

func (k *steward) dropAt(name string, ids []uint64) error {
	at, err := k.at(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(k.n.ctx, workTime)
	defer cancel()
	_, err = at.Drop(ctx, &wire.DropRequest{Blocks: ids})
	return err
}
