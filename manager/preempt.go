package manager

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/wire"
	"headrace/wire/convert"
)

// preempt decides about victims and gives the orders, unless it is only to observe.
func (c *cluster) preempt(victims []*wire.Victim, observe bool) []*wire.PreemptDecision {
	defer c.lock()()
	began := time.Now()
	scenes := map[*node]*scene{}
	decisions := make([]*wire.PreemptDecision, 0, len(victims))
	for _, v := range victims {
		d := c.decide(v, observe, scenes, began)
		c.counts.decided(convert.MechanismName(d), observe)
		decisions = append(decisions, d)
	}
	c.counts.deciding.Observe(time.Since(began).Seconds())
	return decisions
}

// decide decides about one victim.
func (c *cluster) decide(v *wire.Victim, observe bool, scenes map[*node]*scene, now time.Time) *wire.PreemptDecision {
	if c.draining {
		return convert.SetMechanism(&wire.PreemptDecision{Container: v.Container, Reason: draining}, headrace.Wait)
	}
	st, k := c.standing(v.Container, now)
	if st != present {
		return c.doubtful(v.Container, st, k, observe, now)
	}
	delete(c.doubts, v.Container)
	if d := k.settled(now); d != nil {
		return d
	}
	s := c.sceneOf(k.node, scenes, now)
	if d := s.answers[k.id]; d != nil {
		return d
	}
	verdict := s.GiveWay(headrace.TaskID(k.id), convert.Priority(v.ForPriority), c.cfg.Policy)
	d := k.decision(verdict)
	s.answers[k.id] = d
	c.log(k.id, k.node.name, &k.told, d, observe)
	if verdict.Mechanism != headrace.Wait && !observe {
		c.order(k, &verdict, d, false)
	}
	return d
}

// sceneOf returns the scene of a node, which is made once for a list of victims.
func (c *cluster) sceneOf(n *node, scenes map[*node]*scene, now time.Time) *scene {
	s := scenes[n]
	if s == nil {
		s = c.containers.scene(n, now)
		scenes[n] = s
	}
	return s
}

// prices says what it would cost that victims give way, each alone, as the policy would have
// them. One that would not give way now has no price: it is not to be taken in the place of one
// that would. Nothing is ordered, noted or logged.
func (c *cluster) prices(victims []*wire.Victim) []*wire.ContainerPrice {
	defer c.lock()()
	now := time.Now()
	scenes := map[*node]*scene{}
	prices := make([]*wire.ContainerPrice, 0, len(victims))
	for _, v := range victims {
		p := &wire.ContainerPrice{Container: v.Container}
		prices = append(prices, p)
		st, k := c.standing(v.Container, now)
		if st != present || c.draining || k.settled(now) != nil {
			continue
		}
		would := c.sceneOf(k.node, scenes, now).Would(headrace.TaskID(k.id), convert.Priority(v.ForPriority), c.cfg.Policy)
		if would.Mechanism != headrace.Wait {
			p.Cost = &would.Cost
		}
	}
	return prices
}

// order gives the node what the verdict takes; onlySuspended: unless k goes on meanwhile.
func (c *cluster) order(k *container, v *policy.Verdict, d *wire.PreemptDecision, onlySuspended bool) {
	for _, p := range v.PageOuts {
		c.pageOut(c.containers.all[string(p.Task)], p)
	}
	if v.Mechanism == headrace.Kill {
		k.killed = time.Now().Add(c.cfg.timing.claim)
		return
	}
	k.order = &order{
		of: k, command: v.Mechanism.Command(), decision: d, bytes: v.Bytes, dump: v.Dump, swapped: k.task.GetUsage().GetSwapped(),
		wire: &wire.NodeOrder{
			Store: v.Store, PageOut: v.PageOut, Reason: v.Reason, ExpectedDelay: v.Delay.Seconds(), OnlySuspended: onlySuspended,
		},
	}
	c.orders.give(k.order)
}

// freeSuspended has the scheduler give the resources of containers to others that users have suspended on n, as soon as memory
// and swap have room for such others: the order takes nothing but what is to be written to swap for that. Until then they
// count like those that run. Nobody is to overcommit a machine by suspending.
func (c *cluster) freeSuspended(n *node, now time.Time) {
	for k := range c.containers.of(n) {
		if !k.keepsRoom() || c.draining || k.order != nil || k.busy() || now.Sub(k.seen) < c.cfg.timing.weigh || now.Sub(k.looked) < c.cfg.timing.weigh {
			continue
		}
		k.looked = now
		v := c.containers.scene(n, now).GiveWay(headrace.TaskID(k.id), 0, policy.Config{Policy: policy.Suspend, MinRun: policy.None})
		if v.Mechanism == headrace.Suspend {
			v.Reason = "a user has suspended it, and there is room for another in its place"
			d := k.decision(v)
			c.log(k.id, n.name, &k.told, d, false)
			c.order(k, &v, d, true)
		}
	}
}

// pageOut has memory of a suspended container written to swap, unless that is being
// done already.
func (c *cluster) pageOut(k *container, p headrace.Order) {
	if k == nil || k.paging != nil || k.order != nil || k.state != headrace.Suspended {
		return
	}
	k.paging = &order{
		of: k, command: headrace.CommandSuspend, swapped: k.task.GetUsage().GetSwapped(),
		wire: &wire.NodeOrder{PageOut: p.PageOut, Reason: p.Reason, ExpectedDelay: p.Delay.Seconds(), OnlySuspended: true},
	}
	c.orders.give(k.paging)
}

// log writes a line for a decision about a container; one for several in a row that are
// to wait. told is what was written last, and is replaced.
func (c *cluster) log(id, node string, told *string, d *wire.PreemptDecision, observe bool) {
	mechanism := cmp.Or(convert.MechanismName(d), "none")
	if observe {
		mechanism = "would " + mechanism
	}
	if mechanism == *told && (observe || d.By <= wire.Mechanism_MECHANISM_WAIT) {
		return
	}
	*told = mechanism
	c.cfg.Log.Info("preempt", "container", id, "node", node, "mechanism", mechanism, "store", d.Store,
		"delay", convert.Seconds(d.Delay).Round(time.Millisecond), "waste", convert.Seconds(d.Waste).Round(time.Millisecond), "reason", d.Reason)
}

// resume has a container go on.
func (c *cluster) resume(id string) error {
	defer c.lock()()
	k, err := c.reach(id)
	if err != nil {
		return err
	}
	switch {
	case k.order != nil && k.order.command == headrace.CommandResume:
		return nil
	case k.order != nil && !k.sending():
		return fmt.Errorf("%w: the order to %s it is not done yet; ask again when it is", errState, k.order.command)
	case k.doing.BringsBack():
		return nil
	case k.doing.LeavesBy() != headrace.Wait:
		return fmt.Errorf("%w: it is %v; ask again when that is done", errState, k.doing)
	case k.state == headrace.Running:
		return nil
	case k.state != headrace.Suspended && k.state != headrace.Checkpointed:
		return fmt.Errorf("%w: it is %s", errState, k.state)
	case k.task.Held:
		return fmt.Errorf("%w: a user holds it; headrace resume %s on its machine ends that", errState, k.id)
	}
	c.bringBack(k, &wire.NodeOrder{Reason: "its scheduler has room for it again"})
	return nil
}

// bringBack orders k, which is put aside, to go on. Its node calls off that its checkpoint is sent away, and takes back what is there.
func (c *cluster) bringBack(k *container, w *wire.NodeOrder) {
	if k.order != nil {
		c.orders.over(k.order, "called off")
	}
	w.ExpectedDelay = k.comeBack().Seconds()
	k.order = &order{of: k, command: headrace.CommandResume, wire: w}
	c.orders.give(k.order)
	c.cfg.Log.Info("resume", "container", k.id, "node", k.node.name, "state", k.state, "reason", w.Reason)
}

var errState = errors.New("it cannot be resumed now")
