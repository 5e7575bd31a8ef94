package dfs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	"headrace/block"
	"headrace/internal/crash"
	"headrace/meta"
	"headrace/ring"
	"headrace/wire"
)

// service is what a node answers to other nodes, which have proved that they are. Blocks are named by numbers that are never given twice.
type service struct{ k *Keeper }

// said makes an error one that the other end tells from others.
func said(err error) error {
	if err == nil {
		return nil
	}
	code := connect.CodeUnknown
	_, follows := errors.AsType[*NotLeader](err)
	switch {
	case follows:
		code = connect.CodeFailedPrecondition
	case errors.Is(err, ErrClosed), errors.Is(err, block.ErrClosed):
		code = connect.CodeUnavailable
	case errors.Is(err, block.ErrNotFound):
		code = connect.CodeNotFound
	case errors.Is(err, block.ErrFull):
		code = connect.CodeResourceExhausted
	case errors.Is(err, block.ErrFenced), errors.Is(err, block.ErrState), errors.Is(err, block.ErrExists), errors.Is(err, block.ErrChanged):
		code = connect.CodeAborted
	}
	return connect.NewError(code, err)
}

// mostAsked bounds how many blocks are asked about at once.
const mostAsked = 10_000

func (s service) Look(_ context.Context, q *wire.LookRequest) (*wire.LookResponse, error) {
	if len(q.Blocks) > mostAsked {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%d blocks", len(q.Blocks)))
	}
	s.k.dropping.Lock() // what is about to be dropped by an older order is not here
	defer s.k.dropping.Unlock()
	r := &wire.LookResponse{}
	for _, id := range q.Blocks {
		c := s.k.copyOf(int64(id))
		if s.k.goes(int64(id)) {
			c = &wire.BlockCopy{Block: id}
		}
		r.Copies = append(r.Copies, c)
	}
	return r, nil
}

// goes reports whether a copy is being deleted.
func (k *Keeper) goes(id int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.condemned[id]
}

func (s service) Fence(ctx context.Context, q *wire.FenceRequest) (*wire.FenceResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime) // other recoveries wait
	defer cancel()
	c, err := s.k.fence(ctx, int64(q.Block), q.Recovery, q.Closed)
	return &wire.FenceResponse{Copy: c}, said(err)
}

// nothing returns the answer that there is no copy of a block here, or the reason why that is not known: one may be on a disk that is out of use or was
// never seen, or in a part of one that cannot be read. Of a disk that is out of use any generation is a reason, also an older one than is recorded: after a
// start without that disk nobody would know which it has, and the answer would be the same.
func (k *Keeper) nothing(id int64) (*wire.BlockCopy, error) {
	if i, err := block.Behind(k.n.Blocks, id); err != nil {
		return nil, fmt.Errorf("block %d is in %s: %w", id, i.Dir, err)
	}
	for _, v := range k.n.Blocks.Volumes() {
		if v.Unseen != nil {
			return nil, fmt.Errorf("block %d may be in %s: %w", id, v.Dir, v.Unseen)
		}
		for _, gap := range v.Gaps {
			if err := k.without(id, gap); err != nil {
				return nil, fmt.Errorf("block %d may be in %s, among the %v, which cannot be read: %w", id, v.Dir, gap, err)
			}
		}
	}
	return &wire.BlockCopy{Block: uint64(id)}, nil
}

// without returns nil if a block is not in a part of a disk that cannot be read: it has been of another file ever since. What has bytes may have come from another one, by concat.
func (k *Keeper) without(id int64, gap block.Gap) error {
	r, err := k.locate(k.n.ctx, id)
	if err != nil {
		return errors.Join(gap.Cause, err)
	}
	if r.Wanted == nil || r.Wanted.Length > 0 || gap.Has(r.Wanted.File) {
		return gap.Cause
	}
	return nil
}

func (s service) Cut(_ context.Context, q *wire.CutRequest) (*wire.CutResponse, error) {
	i, err := s.k.n.Blocks.Stat(int64(q.Block))
	if err == nil {
		err = s.k.n.Blocks.FinishRecovery(i.Block, q.Recovery, q.Length)
		crash.Here("dfs.recover.finished")
	}
	return &wire.CutResponse{}, said(err)
}

func (s service) Drop(_ context.Context, q *wire.DropRequest) (*wire.DropResponse, error) {
	var copies []block.Block
	for _, id := range q.Blocks {
		if i, err := s.k.n.Blocks.Stat(int64(id)); err == nil {
			copies = append(copies, i.Block) // of whatever stamp: no file has it
		}
	}
	err := s.k.n.Blocks.Delete(copies...)
	if errors.Is(err, block.ErrNotFound) {
		err = nil
	}
	return &wire.DropResponse{}, said(err)
}

func (s service) Fetch(ctx context.Context, q *wire.FetchRequest) (*wire.FetchResponse, error) {
	return &wire.FetchResponse{}, said(s.k.fetch(ctx, q.GetWanted(), q.From))
}

func (s service) Verify(_ context.Context, q *wire.VerifyRequest) (*wire.VerifyResponse, error) {
	select {
	case s.k.verify <- int64(q.Block):
	default: // there are enough to look at; all are read once a week
	}
	return &wire.VerifyResponse{}, nil
}

func (s service) Held(ctx context.Context, _ *wire.HeldRequest) (*wire.HeldResponse, error) {
	held, err := s.k.fills.heldSoFar(ctx)
	return &wire.HeldResponse{Segments: segmentNumbers(held)}, said(err)
}

// query asks the names, which only the node that leads can.
func (s service) query(f func(meta.Query)) error {
	return said(s.k.n.Query(s.k.n.root(), func(q meta.Query) error { f(q); return nil }))
}

func wantedProto(p *meta.Placed) *wire.WantedBlock {
	return &wire.WantedBlock{Block: p.ID, Stamp: p.Stamp, Length: p.Size, File: p.File, Capacity: p.Capacity, Segment: uint32(p.Segment), Nodes: p.Nodes}
}

func (s service) Locate(_ context.Context, q *wire.LocateRequest) (*wire.LocateResponse, error) {
	r := &wire.LocateResponse{}
	err := s.query(func(m meta.Query) {
		p := m.Placed(q.Block)
		if p == nil {
			return
		}
		r.Wanted, r.Complete, r.Nodes = wantedProto(p), p.Complete, Names(s.k.n.Places().known(s.k.n.Places().names(p.LocatedBlock)))
		if t := m.Target(q.Block); t != nil {
			r.Writable, r.Writer = t.Stamp, t.User
		}
	})
	return r, err
}

// mostListed is how many blocks one answer of Segments has, and listTime how long it takes about: of records that come from a disk one by one, it has less.
const (
	mostListed = 5000
	listTime   = 5 * time.Second
)

// Segments lists blocks segment by segment. after is a segment and a block in it.
func (s service) Segments(ctx context.Context, q *wire.SegmentsRequest) (*wire.SegmentsResponse, error) {
	var at uint16
	var from uint64
	if len(q.After) == 10 {
		at, from = binary.BigEndian.Uint16(q.After), binary.BigEndian.Uint64(q.After[2:])
	}
	s.k.all.settling.RLock()
	defer s.k.all.settling.RUnlock()
	r := &wire.SegmentsResponse{}
	began := time.Now()
	places := s.k.n.Places()
	err := s.query(func(m meta.Query) {
		m.Context = ctx
		for p := range m.InSegments(segmentsOf(q.Segments), at, from) {
			if len(p.Nodes) > 0 && places.Copies(p.Replication) < places.View.Table.Replicas() {
				continue // it is not everywhere where its segment is
			}
			if len(r.Blocks) == mostListed || len(r.Blocks) > 0 && time.Since(began) > listTime {
				r.After = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint16(nil, p.Segment), p.ID)
				return
			}
			r.Blocks = append(r.Blocks, wantedProto(&p))
		}
	})
	if err == nil && ctx.Err() != nil {
		return nil, said(ctx.Err()) // it may have been cut short
	}
	return r, err
}

// Judge compares copies of a node with what files have. Who is being written is nobody's to judge. A node asks last, before it deletes, with
// the others asked: not while it holds dropping, because two that do would wait for each other's Look.
func (s service) Judge(_ context.Context, q *wire.JudgeRequest) (*wire.JudgeResponse, error) {
	if len(q.Copies) > mostAsked {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%d copies", len(q.Copies)))
	}
	r := &wire.JudgeResponse{}
	var places Places
	var elsewhere []meta.Placed
	var only []meta.Relocation
	err := s.query(func(m meta.Query) {
		places = s.k.n.Places()
		for _, c := range q.Copies {
			p := m.Placed(c.Block)
			switch {
			case p == nil:
				r.Surplus = append(r.Surplus, c.Block)
			case !p.Complete:
			case places.alone(p, q.Node) && finished(c, &p.Block) && !c.Damaged:
				only = append(only, meta.Relocation{Block: p.ID, Stamp: p.Stamp, Nodes: append(places.expected(p), q.Node)})
			case places.belongs(p, q.Node):
				if !finished(c, &p.Block) || c.Damaged {
					w := wantedProto(p)
					// Where nobody is up that has it nobody is dialled: what can be fetched again tells the ring's next change.
					w.Nodes = slices.DeleteFunc(slices.Clone(places.names(p.LocatedBlock)), func(name string) bool { return !places.up(name) })
					r.Stale = append(r.Stale, w)
				}
			case places.wants(p, q.Node): // that it has one may be about to be noted
			case slices.ContainsFunc(places.names(p.LocatedBlock), places.up): // others have it
				elsewhere = append(elsewhere, *p)
			}
		}
	})
	s.k.all.relocate(only)
	if q.Ask && err == nil {
		elsewhere = s.k.all.unneeded(places, elsewhere, q)
	}
	for _, p := range elsewhere {
		r.Surplus = append(r.Surplus, p.ID)
	}
	return r, err
}

func (s service) Filled(ctx context.Context, q *wire.FilledRequest) (*wire.FilledResponse, error) {
	var e ring.Event = ring.Confirm{Node: q.Node, Epoch: q.Epoch, Segments: segmentsOf(q.Segments)}
	if q.Lost {
		e = ring.Lost{Node: q.Node, Segments: segmentsOf(q.Segments)}
	}
	_, err := s.k.n.ChangeRing(ctx, e)
	return &wire.FilledResponse{}, said(err)
}
