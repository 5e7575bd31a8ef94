package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"headrace/serve"
	"headrace/wire"
)

const (
	// maxUnderWay is how many orders are carried out at once; more fail.
	maxUnderWay = 1024
	// maxSeen is how many numbers of orders are remembered, the last ones.
	maxSeen = 1 << 14
)

// orders are those that are being carried out, and the results that were not told yet.
// Safe for concurrent use.
type orders struct {
	host Host
	log  *slog.Logger
	// finished is signalled, with a capacity of 1, when there is a result.
	finished chan struct{}
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu       sync.Mutex
	seen     map[uint64]bool
	recent   []uint64 // seen, oldest first
	underWay int
	ready    []*wire.OrderResult
}

func newOrders(host Host, log *slog.Logger) *orders {
	o := &orders{host: host, log: log, finished: make(chan struct{}, 1), seen: map[uint64]bool{}}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	return o
}

// begin carries an order out, unless it was seen before.
func (o *orders) begin(order *wire.NodeOrder) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[order.Number] {
		return
	}
	o.seen[order.Number] = true
	if o.recent = append(o.recent, order.Number); len(o.recent) > maxSeen {
		delete(o.seen, o.recent[0])
		o.recent = o.recent[1:]
	}
	if o.underWay >= maxUnderWay {
		o.end(order, errors.New("too many orders are being carried out; give it again later"))
		return
	}
	o.underWay++
	o.work.Go(func() {
		began := time.Now()
		err := o.host.Do(o.ctx, order)
		o.log.Debug("order", "command", order.Command, "container", order.Container, "number", order.Number, "took", time.Since(began), "err", err)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.underWay--
		o.end(order, err)
	})
}

// end keeps the result of an order; mu must be held.
func (o *orders) end(order *wire.NodeOrder, err error) {
	r := &wire.OrderResult{Number: order.Number}
	if err != nil {
		// A text that is not UTF-8 would keep this and all later reports from being sent.
		if r.Error = serve.Shown(err.Error()); r.Error == "" {
			r.Error = "it failed"
		}
	}
	o.ready = append(o.ready, r)
	select {
	case o.finished <- struct{}{}:
	default:
	}
}

// results returns those that were not told yet.
func (o *orders) results() []*wire.OrderResult {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]*wire.OrderResult(nil), o.ready[:min(len(o.ready), maxSeen)]...)
}

// told forgets results that the manager has, the first ones.
func (o *orders) told(results []*wire.OrderResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ready = o.ready[len(results):]
}

// wait ends what is being carried out and waits for it.
func (o *orders) wait() {
	o.cancel()
	o.work.Wait()
}
