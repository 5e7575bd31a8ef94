package dfs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"headrace/block"
	"headrace/meta"
	"headrace/ring"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// Peers reaches the other nodes of a file system.
type Peers interface {
	// Blocks asks a node about its blocks. It may dial when something is asked, and does not wait before.
	Blocks(Member) wireconnect.BlockServiceClient
	// Room is what a node has on its disks, as far as it is known here.
	Room(node string) (Room, bool)
}

// A Keeper keeps the copies of blocks as they are to be: those of its own node, and, while that leads the names, who has which.
type Keeper struct {
	*seen
	*memories
	n        *Node
	caching  *caching
	all      *steward
	fills    *filler
	rate     rate          // of what is fetched
	slots    chan struct{} // one for each block that is being fetched
	readings *readings
	ready    chan struct{} // closed when the node is open
	homeless atomic.Int64  // blocks of segments that are to be here and had no room when they were tried last
	locate   func(context.Context, int64) (*wire.LocateResponse, error)

	// dropping is held from asking what nobody needs until that is condemned, and while others are told what is here.
	dropping sync.Mutex

	mu        sync.Mutex
	surplus   map[int64]time.Time // copies that nobody needed in the last look, and when that was found first
	condemned map[int64]bool      // copies that are being deleted: nobody is told of them
	fetching  map[int64]bool      // blocks that are being fetched
	ordered   map[order]bool      // what others were asked to fetch and have not answered
	verifying map[order]bool      // what they were asked to verify
	verify    chan int64          // blocks that somebody says are damaged
	look      chan struct{}       // something is to be looked at before its time
}

// order is what a node was asked to do with a block.
type order struct {
	block uint64
	node  string
}

func newKeeper(n *Node) *Keeper {
	k := &Keeper{n: n, caching: newCaching(), rate: rate{bytes: n.Config.FetchRate}, slots: make(chan struct{}, mostFetches), readings: &readings{slots: make(chan struct{}, mostReadings), of: map[int64]*reading{}}, seen: &seen{of: map[int64]*mark{}}, memories: &memories{of: map[string]*memoryOf{}}, ready: make(chan struct{}), surplus: map[int64]time.Time{}, condemned: map[int64]bool{},
		fetching: map[int64]bool{}, ordered: map[order]bool{}, verifying: map[order]bool{}, verify: make(chan int64, 1000), look: make(chan struct{}, 1)}
	k.locate = k.Locate
	k.fills = &filler{Keeper: k, has: map[uint16]bool{}, noRoom: map[uint16]int64{}}
	k.all = &steward{Keeper: k, lacking: map[uint64]int{}, passing: map[uint64]int{}}
	return k
}

// Lacking returns how many copies are missing, as of the last walk over blocks whose places are kept: of how many blocks, and copies.
func (k *Keeper) Lacking() (blocks, copies int) { return k.all.missing() }

// Fetching returns how many copies are being fetched.
func (n *Node) Fetching() int {
	n.Keeper.mu.Lock()
	defer n.Keeper.mu.Unlock()
	return len(n.Keeper.fetching)
}

// Service is what this node answers to others.
func (k *Keeper) Service() wireconnect.BlockServiceHandler { return service{k} }

// at reaches a node, which may be this one.
func (k *Keeper) at(name string) (wireconnect.BlockServiceClient, error) {
	if name == k.n.Identity.Node {
		return local{service{k}}, nil
	}
	m, ok := k.n.View().Members[name]
	if !ok || k.n.Config.Peers == nil {
		return nil, fmt.Errorf("there is no node %.64q", name)
	}
	return k.n.Config.Peers.Blocks(m), nil
}

// local is this node's own service, as others see theirs.
type local struct{ service }

const (
	askTime  = 5 * time.Second  // for an answer that takes no work
	workTime = 30 * time.Second // for one that takes fsyncs, or many records
	leadTime = 20 * time.Second // until there is somebody who leads
)

// lead asks the node that leads, and waits for one when there is none.
func (k *Keeper) lead(ctx context.Context, f func(ctx context.Context, leader wireconnect.BlockServiceClient) error) error {
	ctx, cancel := context.WithTimeout(ctx, leadTime)
	defer cancel()
	for {
		changed := k.n.Changed()
		err := error(&NotLeader{})
		if name := k.n.View().Leader; name != "" {
			leader, aerr := k.at(name)
			if err = aerr; err == nil {
				one, stop := context.WithTimeout(ctx, workTime)
				err = f(one, leader)
				stop()
			}
		}
		if err == nil || !leaderless(err) {
			return err
		}
		again := time.NewTimer(100 * time.Millisecond)
		select {
		case <-ctx.Done():
			again.Stop()
			return errors.Join(err, ctx.Err())
		case <-changed:
		case <-again.C:
		}
		again.Stop()
	}
}

// leaderless reports whether an error says that another node is to be asked, or this one later.
func leaderless(err error) bool {
	if _, ok := errors.AsType[*NotLeader](err); ok {
		return true
	}
	code := connect.CodeOf(err)
	return code == connect.CodeFailedPrecondition || code == connect.CodeUnavailable
}

// Locate asks how the copies of a block are to be, and where they are.
func (k *Keeper) Locate(ctx context.Context, id int64) (*wire.LocateResponse, error) {
	var r *wire.LocateResponse
	err := k.lead(ctx, func(ctx context.Context, leader wireconnect.BlockServiceClient) (err error) {
		r, err = leader.Locate(ctx, &wire.LocateRequest{Block: uint64(id)})
		return err
	})
	return r, err
}

// Finished returns how many finished copies of a block are known, as a client describes it; more than one need not be counted. Only the node
// that leads knows whom to ask.
func (k *Keeper) Finished(ctx context.Context, b *meta.Block) uint16 {
	if b == nil {
		return 0
	}
	if finished(k.copyOf(int64(b.ID)), b) {
		return 1
	}
	if k.n.Config.Peers == nil {
		return 0
	}
	var nodes []string
	k.n.ask(func(q meta.Query) {
		if p := q.Placed(b.ID); p != nil {
			nodes = k.n.Places().names(p.LocatedBlock)
		}
	})
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	found := make(chan bool, len(nodes))
	for _, name := range nodes {
		go func() {
			copies, err := k.lookAt(ctx, name, b.ID)
			found <- err == nil && finished(copies[0], b)
		}()
	}
	for range nodes {
		if <-found {
			return 1
		}
	}
	return 0
}

func finished(c *wire.BlockCopy, b *meta.Block) bool {
	return c.GetState() == wire.BlockCopy_FINAL && c.GetStamp() == b.Stamp && c.GetLength() == b.Size
}

// lookAt asks a node for copies: one for each block.
func (k *Keeper) lookAt(ctx context.Context, node string, blocks ...uint64) ([]*wire.BlockCopy, error) {
	at, err := k.at(node)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := at.Look(ctx, &wire.LookRequest{Blocks: blocks})
	if err != nil {
		return nil, err
	}
	if len(r.Copies) != len(blocks) {
		return nil, fmt.Errorf("%d copies of %d blocks", len(r.Copies), len(blocks))
	}
	return r.Copies, nil
}

// Length returns how many bytes of a block in writing its readers may see, by whichever node has it.
func (k *Keeper) Length(ctx context.Context, l meta.LocatedBlock) (int64, bool) {
	for _, m := range k.n.Places().Readers(l, k.host()) {
		if c, err := k.lookAt(ctx, m.Name, l.ID); err == nil && c[0].State != wire.BlockCopy_NONE && c[0].Stamp >= l.Stamp {
			return c[0].Length, true
		}
	}
	return 0, false
}

// host is this node's address.
func (k *Keeper) host() string { return k.n.View().Members[k.n.Identity.Node].Host }

// copyOf is what is here of a block.
func (k *Keeper) copyOf(id int64) *wire.BlockCopy {
	i, err := k.n.Blocks.Stat(id)
	if err != nil || i.State == block.Temporary {
		return &wire.BlockCopy{Block: uint64(id)}
	}
	i.Length = k.Visible(i)
	return copyProto(i)
}

func copyProto(i block.Info) *wire.BlockCopy {
	c := &wire.BlockCopy{Block: uint64(i.ID), Stamp: i.Stamp, Length: i.Length, Damaged: i.Damaged, Capacity: i.Capacity, State: wire.BlockCopy_WRITING}
	switch {
	case i.State == block.Final:
		c.State = wire.BlockCopy_FINAL
	case i.State == block.Waiting && !i.Whole:
		c.State = wire.BlockCopy_WAITING
	}
	return c
}

// Return notes that a node is back that was down or out, with all that it still has. Only the node that leads may. How
// long the node may take to look at its disks is for ctx to say.
func (k *Keeper) Return(ctx context.Context, node string) (*View, error) {
	at, err := k.at(node)
	if err != nil {
		return nil, err
	}
	held, err := at.Held(ctx, &wire.HeldRequest{})
	if err != nil {
		return nil, err
	}
	return k.n.ChangeRing(ctx, ring.Back{Node: node, Has: segmentsOf(held.Segments)})
}

func segmentsOf(all []uint32) []uint16 {
	s := make([]uint16, len(all))
	for i, v := range all {
		s[i] = uint16(v)
	}
	return s
}

func segmentNumbers(all []uint16) []uint32 {
	s := make([]uint32, len(all))
	for i, v := range all {
		s[i] = uint32(v)
	}
	return s
}

// Next chooses the segment of the next block of an open file, and the nodes that are to write it. There is an error only when there is no
// node; what else is wrong, whoever proposes the block is told.
func (k *Keeper) Next(path string, id uint64, holder, machine string, refused func(name string) bool) (segment uint16, nodes []Member, err error) {
	next := &meta.Next{Replication: 1}
	if err := k.n.Query(k.n.root(), func(q meta.Query) error {
		if found := q.Next(path, id, holder); found != nil {
			next = found
		}
		return nil
	}); err != nil {
		return 0, nil, err
	}
	places := k.n.Places()
	segment = places.View.Table.Place(next.File, next.Index)
	nodes = places.Writers(segment, places.Copies(next.Replication), machine, refused)
	if len(nodes) == 0 {
		return 0, nil, &NoNodes{members(places.View.Table)}
	}
	return segment, nodes, nil
}

// NoNodes is the error of Next when none of so many nodes may be used.
type NoNodes struct{ Nodes int }

func (e *NoNodes) Error() string {
	return fmt.Sprintf("no node takes a new block, of %d", e.Nodes)
}
