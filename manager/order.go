package manager

import (
	"cmp"
	"log/slog"
	"slices"
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
	until time.Time // then it is late, unless the node is at something with the container
	last  time.Time // then it is given up
	// decision is what was answered, nil for a resume and for a page-out.
	decision *wire.PreemptDecision
	// bytes is what a checkpoint writes and dump how long that takes; swapped what was
	// in swap when memory was ordered out.
	bytes   int64
	dump    time.Duration
	swapped int64
}

// orders are those that are outstanding. At most one of each kind is for a container.
// Not safe for concurrent use.
type orders struct {
	log        *slog.Logger
	timing     *timing
	counts     *counters
	containers *containers
	all        map[uint64]*order
	last       uint64 // the number of the last that was given
}

// next returns the orders that have not been sent on the stream, by their numbers.
func (s *orders) next(on *stream) []*wire.NodeOrder {
	if !on.open() {
		return nil
	}
	var unsent []*wire.NodeOrder
	for k := range s.containers.of(on.node) {
		for _, o := range k.outstanding() {
			if o.wire.Number > on.sent {
				unsent = append(unsent, o.wire)
			}
		}
	}
	slices.SortFunc(unsent, func(a, b *wire.NodeOrder) int { return cmp.Compare(a.Number, b.Number) })
	if len(unsent) > 0 {
		on.sent = unsent[len(unsent)-1].Number
	}
	return unsent
}

// give hands an order to the node of its container, which must be there. The caller
// has put it where it belongs in the container.
func (s *orders) give(o *order) {
	s.last++
	o.wire.Number, o.wire.Container = s.last, o.of.id
	convert.SetCommand(o.wire, o.command)
	o.given = time.Now()
	o.until = o.given.Add(10*convert.Seconds(o.wire.ExpectedDelay) + s.timing.patience)
	o.last = o.until.Add(s.timing.busy)
	s.all[o.wire.Number] = o
	o.of.failed = ""
	s.counts.ordered.WithLabelValues(o.command.String()).Inc()
	s.containers.show(o.of)
	if out := o.of.node.stream; out != nil {
		out.poke()
	}
}

// fail forgets an order that is not to be given again soon; its container shows why
// unless it does what it should. how is for the metrics.
func (s *orders) fail(o *order, why, how string) {
	k, until := o.of, time.Now().Add(s.timing.spare)
	if o.decision != nil {
		if k.cannot == nil {
			k.cannot = map[headrace.Mechanism]refusal{}
		}
		k.cannot[o.command.Operation().LeavesBy()] = refusal{why, until}
	}
	if o.command == headrace.CommandArchive {
		k.stays = refusal{why, until}
	}
	s.over(o, how)
	if k.order == nil && !o.reached() {
		k.failed = o.command.String() + " failed: " + why
	}
	s.containers.show(k)
}

// over takes the order away from where it is.
func (s *orders) over(o *order, how string) {
	delete(s.all, o.wire.Number)
	if o.of.order == o {
		o.of.order = nil
	}
	if o.of.paging == o {
		o.of.paging = nil
	}
	s.counts.done.WithLabelValues(o.command.String(), how).Inc()
}

// end ends all orders for k.
func (s *orders) end(k *container, how string) {
	for _, o := range k.outstanding() {
		s.over(o, how)
	}
}

// expire ends the orders that take too long.
func (s *orders) expire(now time.Time) {
	for _, o := range s.all {
		switch {
		case !now.After(o.until):
		case o.of.busy() && now.Before(o.last):
			o.until = now.Add(min(s.timing.patience, o.last.Sub(now))) // it is being done
		case o.of.busy():
			s.giveUp(o, now)
		default:
			s.log.Warn("an order was not carried out in time", "node", o.of.node.name, "container", o.of.id, "verb", o.command, "number", o.wire.Number)
			s.fail(o, "its node has not done it in time", "late")
		}
	}
}

// giveUp forgets an order at which its node has been for too long. The container counts as one of which nothing is
// known, until the node tells something else of it.
func (s *orders) giveUp(o *order, now time.Time) {
	k := o.of
	why := k.lasts(now.Sub(o.given))
	if o == k.order {
		k.stuck = why
	}
	s.log.Warn("an order is given up", "node", k.node.name, "container", k.id, "verb", o.command, "number", o.wire.Number, "reason", why)
	s.fail(o, why, "late")
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
func (s *orders) result(n *node, r *wire.OrderResult) {
	o := s.all[r.Number]
	if o == nil || o.of.node != n {
		return // of a manager before this one, or late
	}
	k := o.of
	log := s.log.With("container", k.id, "node", n.name, "verb", o.command, "number", r.Number)
	if r.Error != "" {
		log.Warn("an order was not carried out", "err", r.Error)
		s.fail(o, r.Error, "failed")
		return
	}
	took := time.Since(o.given)
	s.counts.took.WithLabelValues(o.command.String()).Observe(took.Seconds())
	log.Info("an order was carried out", "took", took.Round(time.Millisecond))
	if o.decision != nil {
		s.containers.claim(k)
	}
	s.over(o, "done")
	if !o.reached() {
		k.failed = o.command.String() + " was carried out, but it is " + k.state.String() + " again"
	}
	s.containers.show(k)
}
