package dfs

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"headrace/block"
	"headrace/wire"
)

// mostInMemory is how many blocks a node tells of, those of the lowest numbers.
const mostInMemory = 100_000

// tellMemory tells the node that leads which finished blocks are in memory here: all of them when another one leads, then what has changed. A
// look may take a hundredth of a processor.
func (n *Node) tellMemory() {
	t := teller{k: n.Keeper, session: rand.Uint64()}
	follow, every := block.Follow(n.Blocks), n.Config.Memory
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		}
		in, err := follow.Look(every / 100)
		if errors.Is(err, errors.ErrUnsupported) {
			n.Config.Log.Info("clients are not told what is in memory here", "err", err)
			return
		}
		n.told("look what is in memory", err)
		n.told("tell what is in memory", t.tell(in[:min(len(in), mostInMemory)]))
	}
}

// teller tells one node after the other.
type teller struct {
	k               *Keeper
	session, number uint64
	leader          string // who has heard, in which term, of which blocks
	term            uint64
	heard           []int64
}

func (t *teller) tell(in []int64) error {
	v := t.k.n.View()
	if v.Leader == "" {
		return nil
	}
	q := &wire.InMemoryRequest{Node: t.k.n.Identity.Node, Session: t.session, Whole: t.leader != v.Leader || t.term != v.Term}
	if q.Whole {
		t.leader, t.heard = "", nil
	}
	q.Come, q.Gone = differ(t.heard, in)
	if !q.Whole && len(q.Come) == 0 && len(q.Gone) == 0 {
		return nil
	}
	t.number++
	q.Number = t.number
	at, err := t.k.at(v.Leader)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.k.n.ctx, askTime)
	defer cancel()
	a, err := at.InMemory(ctx, q)
	if err != nil { // it may have heard: what was told is told again
		if leaderless(err) {
			err = nil
		}
		t.leader = ""
		return err
	}
	if a.Unknown {
		t.leader = ""
		return nil
	}
	t.leader, t.term, t.heard = v.Leader, v.Term, in
	return nil
}

// differ returns what is in one of two sorted lists alone.
func differ(was, is []int64) (come, gone []uint64) {
	for len(was) > 0 || len(is) > 0 {
		switch {
		case len(was) == 0 || len(is) > 0 && is[0] < was[0]:
			come, is = append(come, uint64(is[0])), is[1:]
		case len(is) == 0 || was[0] < is[0]:
			gone, was = append(gone, uint64(was[0])), was[1:]
		default:
			was, is = was[1:], is[1:]
		}
	}
	return come, gone
}

// memories are what the nodes say that they have in memory. Nothing of it is kept anywhere.
type memories struct {
	mu sync.RWMutex
	of map[string]*memoryOf // by node
}

type memoryOf struct {
	session, number uint64
	blocks          map[uint64]struct{}
}

// InMemory reports whether a node has said that it has a finished block in memory. Only the node that leads is told.
func (m *memories) InMemory(node string, block uint64) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	of := m.of[node]
	if of == nil {
		return false
	}
	_, in := of.blocks[block]
	return in
}

// Remembered returns how many blocks the nodes have said they have in memory.
func (m *memories) Remembered() map[string]int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := map[string]int{}
	for name, of := range m.of {
		all[name] = len(of.blocks)
	}
	return all
}

// hear takes in what a node says, and returns false when it has to say all.
func (m *memories) hear(q *wire.InMemoryRequest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.of[q.Node]
	switch {
	case was != nil && was.session == q.Session && q.Number <= was.number: // it has been overtaken
		return true
	case q.Whole:
		was = &memoryOf{session: q.Session, blocks: map[uint64]struct{}{}}
		m.of[q.Node] = was
	case was == nil || was.session != q.Session:
		return false
	}
	was.number = q.Number
	for _, id := range q.Gone {
		delete(was.blocks, id)
	}
	for _, id := range q.Come {
		if len(was.blocks) < mostInMemory {
			was.blocks[id] = struct{}{}
		}
	}
	return true
}

// keepOnly forgets nodes that the ring does not have any more.
func (m *memories) keepOnly(v *View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.of {
		if _, ok := v.Members[name]; !ok {
			delete(m.of, name)
		}
	}
}

// heardFrom tells whether a node that tells this one of itself is a member. The error is that this
// node does not lead, so that it is to tell another one.
func (s service) heardFrom(node string) (v *View, member bool, err error) {
	v = s.k.n.View()
	if v.Leader != s.k.n.Identity.Node {
		return nil, false, said(&NotLeader{Leader: v.Leader})
	}
	_, member = v.Members[node]
	return v, member, nil
}

func (s service) InMemory(_ context.Context, q *wire.InMemoryRequest) (*wire.InMemoryResponse, error) {
	v, member, err := s.heardFrom(q.Node)
	if err != nil || !member {
		return &wire.InMemoryResponse{Unknown: true}, err
	}
	s.k.memories.keepOnly(v)
	return &wire.InMemoryResponse{Unknown: !s.k.memories.hear(q)}, nil
}

// Extent tells where a finished block lies.
func (n *Node) Extent(id uint64) *wire.ExtentResponse {
	i, e, err := n.Blocks.Extent(int64(id))
	if err != nil {
		return &wire.ExtentResponse{Copy: n.Keeper.copyOf(int64(id))}
	}
	path, err := filepath.Abs(e.Path)
	if err != nil {
		path = e.Path
	}
	return &wire.ExtentResponse{Copy: copyProto(i), Path: path, Offset: e.Off, Size: e.Size}
}
