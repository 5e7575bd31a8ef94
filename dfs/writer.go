package dfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"headrace/block"
	"headrace/meta"
)

// A Writer writes the end of a file, as a client of the node: it has the lease of the file, and renews it whenever it
// is given bytes. One goroutine uses it; it must be closed.
type Writer struct {
	n       *Node
	ctx     context.Context
	by      meta.Caller
	path    string
	holder  string
	file    meta.Status
	sync    bool
	renewed time.Time

	last *meta.Block   // of the file, as long as it is known to be
	w    *block.Writer // writes last; nil between blocks
	room int64         // bytes that last may have
	err  error         // after which the file is left to be recovered
}

// Create makes a file and opens it. sync makes each block durable as it ends.
func (n *Node) Create(ctx context.Context, by meta.Caller, c meta.Create, sync bool) (*Writer, error) {
	w := n.writer(ctx, by, c.Path, sync)
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
	w := n.writer(ctx, by, path, false)
	r, err := w.do(&meta.Append{Path: path, Holder: w.holder, Machine: machine, Nodes: []string{n.Identity.Node}})
	if err != nil {
		n.Wake()
		return nil, err
	}
	a := r.(*meta.Appended)
	w.file = a.Status
	if a.Block == nil {
		return w, nil
	}
	if w.err = w.reopen(a.Block.Block); w.err != nil {
		return nil, w.Close()
	}
	return w, nil
}

func (n *Node) writer(ctx context.Context, by meta.Caller, path string, sync bool) *Writer {
	// What has begun is not left half done for a client that has gone.
	return &Writer{n: n, ctx: context.WithoutCancel(ctx), by: by, path: path, sync: sync, holder: "DFSClient_" + rand.Text(), renewed: n.Config.Now()}
}

func (w *Writer) do(op meta.Op) (meta.Result, error) {
	return w.n.Propose(w.ctx, meta.Command{Caller: w.by, Op: op})
}

// reopen opens a block that is not full, under a new stamp.
func (w *Writer) reopen(old meta.Block) error {
	r, err := w.do(&meta.NewStamp{Block: old, Holder: w.holder})
	if err != nil {
		return err
	}
	b := r.(*meta.Allocated).Block
	b.Size = old.Size
	if w.w, err = w.n.Blocks.Append(block.Block{ID: int64(old.ID), Stamp: old.Stamp}, b.Stamp, old.Size); err != nil {
		return err
	}
	if _, err := w.do(&meta.UpdatePipeline{Holder: w.holder, Old: old, New: b, Nodes: []string{w.n.Identity.Node}}); err != nil {
		return err
	}
	// A block that came from a file of smaller blocks (concat) has room for no more.
	i, err := w.n.Blocks.Stat(int64(b.ID))
	w.last, w.room = &b, min(i.Capacity, w.file.BlockSize)
	return err
}

// renewTime is a third of the time after which somebody else may take the file.
const renewTime = 20 * time.Second

// Write adds bytes, which others see when their block is full or the file is closed.
func (w *Writer) Write(p []byte) (n int, err error) {
	if now := w.n.Config.Now(); w.err == nil && now.Sub(w.renewed) > renewTime {
		w.renewed = now
		_, w.err = w.do(&meta.RenewLease{Holder: w.holder})
	}
	for len(p) > 0 && w.err == nil {
		if w.w == nil {
			if w.err = w.begin(); w.err != nil {
				break
			}
		}
		at := w.w.Length()
		k := min(int64(len(p)), w.room-at)
		if w.err = w.w.Write(p[:k], at); w.err != nil {
			break
		}
		n, p = n+int(k), p[k:]
		if at+k == w.room {
			w.err = w.finish()
		}
	}
	return n, w.err
}

// begin begins the next block.
func (w *Writer) begin() error {
	r, err := w.do(&meta.AddBlock{Path: w.path, ID: w.file.ID, Holder: w.holder, Previous: w.last, Copies: w.n.Copies(w.last), Nodes: []string{w.n.Identity.Node}})
	if err != nil {
		return err
	}
	b := r.(*meta.Allocated).Block
	if w.w, err = w.n.Blocks.Create(block.Block{ID: int64(b.ID), Stamp: b.Stamp}, w.file.ID, w.file.BlockSize, false); err != nil {
		return err
	}
	w.last, w.room = &b, w.file.BlockSize
	return nil
}

// finish ends the block.
func (w *Writer) finish() error {
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
	if w.err == nil && w.w != nil {
		w.err = w.finish()
	}
	if w.err == nil {
		r, err := w.do(&meta.Complete{Path: w.path, ID: w.file.ID, Holder: w.holder, Last: w.last, Copies: w.n.Copies(w.last)})
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
	w.n.propose(&meta.RecoverLease{Path: w.path, Holder: w.holder}) // if that fails, when the lease ends
	w.n.Wake()
	return w.err
}
