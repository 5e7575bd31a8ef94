package dfs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"headrace/internal/crash"
	"headrace/meta"
)

// proposal is a command on its way to be durable.
type proposal struct {
	command meta.Command
	result  meta.Result
	err     error
	done    chan struct{}
}

// mostAtOnce is how many commands one commit has.
const mostAtOnce = 512

// Propose has a command applied, and returns its answer once that is durable. The command's
// time is set here. An error of ctx says only that nobody waits any more.
func (n *Node) Propose(ctx context.Context, m meta.Command) (meta.Result, error) {
	if err := n.leads(); err != nil {
		return nil, err
	}
	p := &proposal{command: m, done: make(chan struct{})}
	select {
	case n.proposals <- p:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-n.ctx.Done():
		return nil, ErrClosed
	}
	select {
	case <-p.done:
		return p.result, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-n.ctx.Done():
	}
	select { // it may have been answered in time
	case <-p.done:
		return p.result, p.err
	default:
		return nil, ErrClosed
	}
}

// commit applies what is proposed, as much as has come at once.
func (n *Node) commit() {
	for {
		var batch []*proposal
		select {
		case p := <-n.proposals:
			batch = append(batch, p)
		case <-n.ctx.Done():
			return
		}
		for more := true; more && len(batch) < mostAtOnce; {
			select {
			case p := <-n.proposals:
				batch = append(batch, p)
			default:
				more = false
			}
		}
		n.apply(batch)
		for _, p := range batch {
			close(p.done)
		}
	}
}

// apply makes a batch of commands durable, or none of them.
func (n *Node) apply(batch []*proposal) {
	err := n.Failure()
	if err == nil {
		err = n.try(batch)
	}
	if err == nil {
		return
	}
	if len(batch) > 1 && n.Failure() == nil { // one of them cannot be written: the others need not suffer
		for i := range batch {
			n.apply(batch[i : i+1])
		}
		return
	}
	for _, p := range batch {
		p.result, p.err = nil, err
	}
}

// try applies a batch in one transaction.
func (n *Node) try(batch []*proposal) error {
	tx, err := n.db.Begin(true)
	if err != nil {
		return n.fail(err)
	}
	defer tx.Rollback()
	v := &view{reader: reader{tx.Bucket(stateBucket)}}
	for _, p := range batch {
		n.now = max(n.now, n.Config.Now().UnixMilli())
		p.command.Time = n.now
		p.result, p.err = n.one(v, p.command)
		if v.err != nil {
			return fmt.Errorf("write the state: %w", v.err)
		}
	}
	if !v.written {
		return nil
	}
	crash.Here("dfs.commit.before")
	if err := tx.Commit(); err != nil {
		return n.fail(err)
	}
	crash.Here("dfs.commit.after")
	return nil
}

// one applies a command. One that cannot be, for a mistake in package meta or a record that
// cannot be read, has written nothing, and is an error of its own.
func (n *Node) one(v *view, m meta.Command) (r meta.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			n.Config.Log.Error("a command has panicked", "op", fmt.Sprintf("%T", m.Op), "panic", p, "stack", string(debug.Stack()))
			r, err = nil, fmt.Errorf("internal error in %T", m.Op)
		}
	}()
	return meta.Apply(v, m)
}

// fail ends the node's answering.
func (n *Node) fail(err error) error {
	if errors.Is(err, ErrClosed) {
		return err
	}
	n.failure = fmt.Errorf("what was asked for could not be made durable: %w", err)
	n.Config.Log.Error("the node has failed", "err", err)
	close(n.failed)
	return n.failure
}
