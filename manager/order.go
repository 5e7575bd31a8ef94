package manager

import (
	"time"

	"headrace"
	"headrace/wire"
	"headrace/wire/convert"
)

// order is something that a node was told to do and of which no result is known.
type order struct {
	command headrace.Command
	// wire is what the node is told; give fills in the command, the container and a
	// number.
	wire  *wire.NodeOrder
	of    *container
	given time.Time
	until time.Time
	// decision is what was answered, nil for a resume and for a page-out.
	decision *wire.PreemptDecision
	// bytes is what a checkpoint writes and dump how long that takes; swapped what was
	// in swap when memory was ordered out.
	bytes   int64
	dump    time.Duration
	swapped int64
}

// give hands an order to the node of its container, which must be there. The caller
// has put it where it belongs in the container.
func (c *cluster) give(o *order) {
	c.lastOrder++
	o.wire.Number, o.wire.Container, o.wire.Verb = c.lastOrder, o.of.id, o.command.String()
	o.given = time.Now()
	o.until = o.given.Add(10*convert.Seconds(o.wire.ExpectedDelay) + c.cfg.timing.patience)
	c.orders[o.wire.Number] = o
	o.of.failed = ""
	c.counts.ordered.WithLabelValues(o.wire.Verb).Inc()
	c.show(o.of)
	if s := o.of.node.stream; s != nil {
		s.poke()
	}
}

// drop forgets an order; its container shows why unless it does what it should. how
// is for the metrics.
func (c *cluster) drop(o *order, why, how string) {
	c.over(o, how)
	if o.of.order == nil && !o.reached() {
		o.of.failed = why
	}
	c.show(o.of)
}

// fail is drop for an order that is not to be given again soon.
func (c *cluster) fail(o *order, why, how string) {
	k := o.of
	if o.decision != nil {
		if k.cannot == nil {
			k.cannot = map[headrace.Mechanism]refusal{}
		}
		k.cannot[o.command.Operation().LeavesBy()] = refusal{why, time.Now().Add(c.cfg.timing.spare)}
	}
	if o.command == headrace.CommandArchive {
		k.stays = refusal{why, time.Now().Add(c.cfg.timing.spare)}
	}
	c.drop(o, o.wire.Verb+" failed: "+why, how)
}

// over takes the order away from where it is.
func (c *cluster) over(o *order, how string) {
	delete(c.orders, o.wire.Number)
	if o.of.order == o {
		o.of.order = nil
	}
	if o.of.paging == o {
		o.of.paging = nil
	}
	c.counts.done.WithLabelValues(o.wire.Verb, how).Inc()
}

// reached reports whether the container is in the state that the order was for.
func (o *order) reached() bool {
	switch o.command {
	case headrace.CommandSuspend:
		return o.of.state == headrace.Suspended
	case headrace.CommandCheckpoint:
		return o.of.state == headrace.Checkpointed
	case headrace.CommandArchive:
		return o.of.task.Archived
	}
	return o.of.state == headrace.Running
}

// result enters what has become of an order of n.
func (c *cluster) result(n *node, r *wire.OrderResult) {
	o := c.orders[r.Number]
	if o == nil || o.of.node != n {
		return // of a manager before this one, or late
	}
	k := o.of
	log := c.cfg.Log.With("container", k.id, "node", n.name, "verb", o.wire.Verb, "number", r.Number)
	if r.Error != "" {
		log.Warn("an order was not carried out", "err", r.Error)
		c.fail(o, r.Error, "failed")
		return
	}
	took := time.Since(o.given)
	c.counts.took.WithLabelValues(o.wire.Verb).Observe(took.Seconds())
	log.Info("an order was carried out", "took", took.Round(time.Millisecond))
	if o.decision != nil {
		c.claimed(k)
	}
	c.over(o, "done")
	if !o.reached() {
		k.failed = o.wire.Verb + " was carried out, but it is " + k.state.String() + " again"
	}
	c.show(k)
}
