package solo

import (
	"context"
	"sync"
	"time"

	"headrace/serve"
	"headrace/solo/board"
)

// driver does outside the loop what may take time, and brings the loop what comes of
// it. Its methods may be called from anywhere.
type driver struct {
	mail chan func()
	dead chan struct{} // closed when the loop has ended
	// stands, if set, says why the loop stands still and a call must not wait for it.
	stands func(*call) error
	// ctx ends when the daemon ends; wg counts what runs under it.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func newDriver() *driver {
	d := &driver{mail: make(chan func(), 256), dead: make(chan struct{})}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// post sends f to the loop; it is dropped when the loop has ended.
func (d *driver) post(f func()) {
	select {
	case d.mail <- f:
	case <-d.dead:
	}
}

// offer sends f to the loop, unless too much waits for that already; it does not wait itself.
func (d *driver) offer(f func()) {
	select {
	case d.mail <- f:
	default:
	}
}

// run runs work outside the loop and what it returns inside.
func (d *driver) run(work func(ctx context.Context) func()) {
	d.wg.Go(func() {
		if finish := work(d.ctx); finish != nil {
			d.post(finish)
		}
	})
}

// await has the loop do something that answers a call, and waits for that.
func (d *driver) await(ctx context.Context, c *call, do func()) (*board.Task, error) {
	if d.stands != nil {
		if err := d.stands(c); err != nil {
			return nil, err
		}
	}
	c.reply = make(chan reply, 1)
	d.post(do)
	select {
	case r := <-c.reply:
		return r.task, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-d.dead:
		select {
		case r := <-c.reply: // it was among the last
			return r.task, r.err
		default:
		}
		return nil, serve.ErrStopping
	}
}

// wait waits for what still runs, but not for ever: a file system on the network may
// not answer. It reports whether all has ended.
func (d *driver) wait(limit time.Duration) bool {
	over := make(chan struct{})
	go func() {
		d.wg.Wait()
		close(over)
	}()
	select {
	case <-over:
		return true
	case <-time.After(limit):
		return false
	}
}
