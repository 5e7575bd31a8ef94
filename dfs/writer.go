package dfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"headrace/block"
	"headrace/hdfs/pb"
	"headrace/meta"
)

// A Writer writes the end of a file, as a client of the node: it has the lease of the file, and renews it whenever it
// is given bytes. One goroutine uses it; it must be closed. Blocks of one copy, which is here, are written without a
// detour; others as any client writes them.
type Writer struct {
	n       *Node
	ctx     context.Context
	by      meta.Caller
	path    string
	holder  string
	machine string
	file    meta.Status
	sync    bool
	renewed time.Time

	last *meta.Block     // of the file, as long as it is known to be
	w    *block.Writer   // writes last; nil between blocks, and when others do
	far  *pipeline       // in its place
	bad  map[string]bool // nodes that could not be reached
	err  error           // after which the file is left to be recovered
}

// Create makes a file and opens it. sync makes each block durable as it ends.
func (n *Node) Create(ctx context.Context, by meta.Caller, c meta.Create, sync bool) (*Writer, error) {
	w := n.writer(ctx, by, c.Path, c.Machine, sync)
	c.Holder = w.holder
	r, err := w.do(&c)
	if err != nil {
		n.Wake() // what is refused may have begun a recovery
		return nil, err
	}
	w.file = *r.(*meta.Status)
	return w, nil
}

// Append opens a file that is there at its end.
func (n *Node) Append(ctx context.Context, by meta.Caller, path, machine string) (*Writer, error) {
	w := n.writer(ctx, by, path, machine, false)
	a, nodes, err := n.Keeper.Append(w.ctx, &meta.Append{Path: path, Holder: w.holder, Machine: machine}, w.do)
	if err != nil {
		n.Wake()
		return nil, err
	}
	w.file = a.Status
	if a.Block == nil {
		return w, nil
	}
	if w.err = w.reopen(a.Block, nodes); w.err != nil {
		return nil, w.Close()
	}
	return w, nil
}

func (n *Node) writer(ctx context.Context, by meta.Caller, path, machine string, sync bool) *Writer {
	// What has begun is not left half done for a client that has gone.
	return &Writer{n: n, ctx: context.WithoutCancel(ctx), by: by, path: path, machine: machine, sync: sync, holder: "DFSClient_" + rand.Text(),
		renewed: n.Config.Now(), bad: map[string]bool{}}
}

func (w *Writer) do(op meta.Op) (meta.Result, error) {
	return w.n.Propose(w.ctx, meta.Command{Caller: w.by, Op: op})
}

// Append proposes to open a file at its end, and returns where its last block can be gone on with. That is asked before; when the file has
// another last block by then, once more.
func (k *Keeper) Append(ctx context.Context, o *meta.Append, propose func(meta.Op) (meta.Result, error)) (a *meta.Appended, nodes []Member, err error) {
	for range mostTries {
		nodes = k.appendable(ctx, o)
		var r meta.Result
		if r, err = propose(o); err == nil {
			return r.(*meta.Appended), nodes, nil
		}
		if e, ok := errors.AsType[*meta.Error](err); !ok || e.Class != classRetriable {
			break
		}
	}
	return nil, nil, err
}

const (
	classRetriable     = "org.apache.hadoop.ipc.RetriableException"
	classNotReplicated = "org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException"
)

// appendable notes the last block of a file, the nodes that have it finished, and how many bytes it may have there. It returns the nodes.
func (k *Keeper) appendable(ctx context.Context, o *meta.Append) (nodes []Member) {
	var last *meta.Placed
	k.n.ask(func(q meta.Query) { last = q.LastBlock(o.Path) })
	o.Block, o.Stamp, o.Room, o.Nodes = 0, 0, 0, nil
	if last == nil {
		return nil
	}
	o.Block, o.Stamp, o.Room = last.ID, last.Stamp, last.Capacity
	places := k.n.Places()
	for _, m := range places.Readers(last.LocatedBlock, k.host()) {
		if len(nodes) == places.Copies(last.Replication) {
			break
		}
		c, err := k.lookAt(ctx, m.Name, last.ID)
		if err == nil && finished(c[0], &last.Block) && !c[0].Damaged {
			nodes, o.Room = append(nodes, m), min(o.Room, c[0].Capacity)
		}
	}
	o.Nodes = Names(nodes)
	return nodes
}

// Truncation returns the command that cuts a file to a length, with the nodes that are to cut its last block. Wake has them do it.
func (n *Node) Truncation(path string, size int64, holder, machine string) *meta.Truncate {
	o := &meta.Truncate{Path: path, Size: size, Holder: holder, Machine: machine}
	n.ask(func(q meta.Query) {
		if b := q.BlockAt(path, size); b != nil {
			o.Block, o.Nodes = b.ID, n.Places().names(b.LocatedBlock)
		}
	})
	return o
}

// reopen opens a block that is not full, under a new stamp.
func (w *Writer) reopen(l *meta.LocatedBlock, nodes []Member) error {
	old := l.Block
	b, err := w.next(old)
	if err != nil {
		return err
	}
	if w.here(nodes) {
		w.w, err = w.n.Blocks.Append(block.Block{ID: int64(old.ID), Stamp: old.Stamp}, b.Stamp, old.Size)
	} else {
		p := w.pipeline(old, l.Segment, nodes)
		p.at, p.acked = old.Size, old.Size
		for {
			var bad int
			if bad, err = p.build(pb.OpWriteBlockProto_PIPELINE_SETUP_APPEND_RECOVERY, b.Stamp, old.Size, old.Size); err == nil || len(p.nodes) == 1 {
				break
			}
			p.blame(bad, err)
			if b, err = w.next(old); err != nil { // some may have this one
				break
			}
		}
		p.b, w.far, nodes = b, p, p.nodes
	}
	w.last = &b
	if err != nil {
		return fmt.Errorf("block %d cannot be opened again: %w", old.ID, err)
	}
	_, err = w.do(&meta.UpdatePipeline{Holder: w.holder, Old: old, New: b, Nodes: Names(nodes)})
	return err
}

// next takes a new stamp for a block.
func (w *Writer) next(old meta.Block) (meta.Block, error) {
	r, err := w.do(&meta.NewStamp{Block: old, Holder: w.holder})
	if err != nil {
		return meta.Block{}, err
	}
	b := r.(*meta.Allocated).Block
	b.Size = old.Size
	return b, nil
}

// here reports whether nodes are just this one.
func (w *Writer) here(nodes []Member) bool {
	return len(nodes) == 1 && nodes[0].Name == w.n.Identity.Node
}

// renewTime is a third of the time after which somebody else may take the file.
const renewTime = 20 * time.Second

// Write adds bytes, which others see when their block is full or the file is closed.
func (w *Writer) Write(p []byte) (n int, err error) {
	if now := w.n.Config.Now(); w.err == nil && now.Sub(w.renewed) > renewTime {
		w.renewed = now
		_, w.err = w.do(&meta.RenewLease{Holder: w.holder})
		if w.err == nil && w.far != nil { // nodes give up who sends nothing, and so few bytes may not be a packet in that time
			w.err = w.far.flush(false)
		}
	}
	for len(p) > 0 && w.err == nil {
		if w.w == nil && w.far == nil {
			if w.err = w.begin(); w.err != nil {
				break
			}
		}
		at := w.length()
		k := min(int64(len(p)), w.file.BlockSize-at)
		if w.far != nil {
			w.err = w.far.write(p[:k])
		} else {
			w.err = w.w.Write(p[:k], at)
		}
		if w.err != nil {
			break
		}
		n, p = n+int(k), p[k:]
		if at+k == w.file.BlockSize {
			w.err = w.finish()
		}
	}
	return n, w.err
}

func (w *Writer) length() int64 {
	if w.far != nil {
		return w.far.length()
	}
	return w.w.Length()
}

// Flush has all that was written be where readers see it, on all nodes.
func (w *Writer) Flush() error {
	switch {
	case w.err != nil:
	case w.far != nil:
		w.err = w.far.flush(false)
	case w.w != nil:
		w.err = w.w.Flush()
	}
	return w.err
}

// begin begins the next block. Nodes that cannot be reached are left out.
func (w *Writer) begin() error {
	for range mostTries {
		segment, nodes, err := w.n.Keeper.Next(w.path, w.file.ID, w.holder, w.machine, func(name string) bool { return w.bad[name] })
		if err != nil {
			return err
		}
		r, err := w.ended(func(copies uint16) meta.Op {
			return &meta.AddBlock{Path: w.path, ID: w.file.ID, Holder: w.holder, Previous: w.last, Copies: copies, Segment: segment, Nodes: Names(nodes)}
		})
		if err != nil {
			return err
		}
		b := r.(*meta.Allocated).Block
		if w.here(nodes) {
			if w.w, err = w.n.Blocks.Create(block.Block{ID: int64(b.ID), Stamp: b.Stamp}, w.file.ID, w.file.BlockSize, false); err != nil {
				return err
			}
		} else {
			p := w.pipeline(b, segment, nodes)
			bad, err := p.build(pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE, b.Stamp, 0, 0)
			if err != nil {
				w.bad[nodes[bad].Name] = true
				p.close()
				w.n.told("begin a block at "+nodes[bad].Name, err)
				if _, err := w.do(&meta.AbandonBlock{Path: w.path, ID: w.file.ID, Holder: w.holder, Block: b}); err != nil {
					return err
				}
				continue
			}
			w.far = p
		}
		w.last = &b
		return nil
	}
	return fmt.Errorf("%s: the next block can be begun nowhere", w.path)
}

// A writer asks again for a finished copy of a block that it has ended, as often and as long as Hadoop's clients: who has one may be slow to say so.
const (
	firstWait = 400 * time.Millisecond
	lastWait  = 16 * firstWait
)

// ended proposes what says that the last block has ended, until a finished copy of it is known.
func (w *Writer) ended(op func(copies uint16) meta.Op) (r meta.Result, err error) {
	for wait := firstWait; ; wait *= 2 {
		r, err = w.do(op(w.n.Keeper.Finished(w.ctx, w.last)))
		e, refused := errors.AsType[*meta.Error](err)
		done, said := r.(*meta.Flag)
		if !(refused && e.Class == classNotReplicated || said && !bool(*done)) || wait > lastWait {
			return r, err
		}
		select {
		case <-w.n.ctx.Done():
			return r, err
		case <-time.After(wait):
		}
	}
}

// finish ends the block.
func (w *Writer) finish() error {
	if p := w.far; p != nil {
		w.far = nil
		err := p.finish(w.sync)
		*w.last = p.b
		return err
	}
	b := w.w
	w.w, w.last.Size = nil, b.Length()
	var err error
	if w.sync {
		err = b.Sync()
	}
	if err == nil {
		err = b.Finalize(w.last.Size)
	}
	return errors.Join(err, b.Close())
}

// Close closes the file at what was written. When that fails, or something has before, the node closes it, at what it has of it.
func (w *Writer) Close() error {
	if w.err == nil && (w.w != nil || w.far != nil) {
		w.err = w.finish()
	}
	if w.err == nil {
		r, err := w.ended(func(copies uint16) meta.Op {
			return &meta.Complete{Path: w.path, ID: w.file.ID, Holder: w.holder, Last: w.last, Copies: copies}
		})
		if done, ok := r.(*meta.Flag); err == nil && (!ok || !bool(*done)) {
			err = fmt.Errorf("%s cannot be closed: there is no finished copy of its last block", w.path)
		}
		w.err = err
	}
	if w.err == nil {
		return nil
	}
	if w.w != nil {
		w.w.Close()
		w.w = nil
	}
	if w.far != nil {
		w.far.close()
		w.far = nil
	}
	own := false // somebody else may have it by now, or another file be at its path
	w.n.ask(func(q meta.Query) { own = q.Next(w.path, w.file.ID, w.holder) != nil })
	if own {
		w.n.propose(&meta.RecoverLease{Path: fmt.Sprintf("/.reserved/.inodes/%d", w.file.ID), Holder: w.holder}) // if that fails, when the lease ends
		w.n.Wake()
	}
	return w.err
}
