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

// urgent is the priority of whoever needs the room when the scheduler does not say.
const urgent = headrace.High

// preempt decides about victims and gives the orders, unless it is only to observe.
func (c *cluster) preempt(victims []*wire.Victim, observe bool) []*wire.PreemptDecision {
	defer c.lock()()
	began := time.Now()
	scenes := map[*node]*scene{}
	decisions := make([]*wire.PreemptDecision, 0, len(victims))
	for _, v := range victims {
		d := c.decide(v, observe, scenes, began)
		c.counts.decided(d.Mechanism, observe)
		decisions = append(decisions, d)
	}
	c.counts.deciding.Observe(time.Since(began).Seconds())
	return decisions
}

// decide is about one victim.
func (c *cluster) decide(v *wire.Victim, observe bool, scenes map[*node]*scene, now time.Time) *wire.PreemptDecision {
	if c.draining {
		return &wire.PreemptDecision{Container: v.Container, Mechanism: headrace.Wait.String(), Reason: draining}
	}
	st, k := c.standing(v.Container, now)
	if st != present {
		return c.doubtful(v.Container, st, k, observe, now)
	}
	delete(c.doubts, v.Container)
	if d := k.settled(now); d != nil {
		return d
	}
	n := k.node
	s := scenes[n]
	if s == nil {
		s = c.scene(n, now)
		scenes[n] = s
	}
	priority := urgent
	if v.ForPriority > 0 {
		priority = convert.Priority(v.ForPriority)
	}
	t := &s.tasks[s.at[k.id]]
	if d := s.answers[k.id]; d != nil {
		return d
	}
	verdict := policy.GiveWay(*t, s.node, s.tasks, priority, c.cfg.Policy)
	d := k.decision(verdict)
	s.answers[k.id] = d
	c.log(k.id, k.node.name, &k.told, d, observe)
	if verdict.Mechanism == headrace.Wait {
		return d
	}
	t.Leaving, t.LeavingBy, t.PagingOut = true, verdict.Mechanism, verdict.PageOut
	s.fill(verdict.Store, verdict.Bytes, verdict.Dump)
	for _, o := range verdict.PageOuts {
		s.tasks[s.at[string(o.Task)]].PagingOut += o.PageOut
	}
	if !observe {
		c.order(k, &verdict, d)
	}
	return d
}

// settled is the answer about a container about which there is nothing to decide, else
// nil.
func (k *container) settled(now time.Time) *wire.PreemptDecision {
	wait := func(why string) *wire.PreemptDecision { return k.decision(policy.Verdict{Reason: why}) }
	switch {
	case k.order != nil && k.order.decision != nil:
		return k.order.decision
	case k.order != nil && k.order.command != headrace.CommandResume:
		return wait("it is just being released")
	case k.order != nil:
		return wait("it is just being brought back")
	}
	switch by := k.doing.LeavesBy(); {
	case by == headrace.Kill:
		return wait("it is being killed")
	case by != headrace.Wait:
		return k.decision(policy.Verdict{Mechanism: by, Reason: "somebody else has it do so already"})
	case k.doing.BringsBack():
		return wait("it is just coming to run")
	}
	switch {
	case k.state == headrace.Suspended:
		return k.decision(policy.Verdict{Mechanism: headrace.Suspend, Reason: "it is suspended already"})
	case k.state == headrace.Checkpointed:
		return k.decision(policy.Verdict{Mechanism: headrace.Checkpoint, Reason: "it is checkpointed already"})
	case now.Before(k.killed):
		return k.decision(policy.Verdict{Mechanism: headrace.Kill, Reason: "it was to be killed a moment ago"})
	}
	return nil
}

func (k *container) decision(v policy.Verdict) *wire.PreemptDecision {
	return &wire.PreemptDecision{
		Container: k.id, Mechanism: v.Mechanism.String(), Store: v.Store,
		Delay: v.Delay.Seconds(), Waste: v.Waste.Seconds(), Reason: v.Reason,
	}
}

// order gives the node what the verdict takes.
func (c *cluster) order(k *container, v *policy.Verdict, d *wire.PreemptDecision) {
	for _, p := range v.PageOuts {
		c.pageOut(c.containers[string(p.Task)], p)
	}
	if v.Mechanism == headrace.Kill {
		k.killed = time.Now().Add(c.cfg.timing.claim)
		return
	}
	k.order = &order{
		of: k, command: v.Mechanism.Command(), decision: d, bytes: v.Bytes, dump: v.Dump, swapped: k.task.GetUsage().GetSwapped(),
		wire: &wire.NodeOrder{
			Store: v.Store, PageOut: v.PageOut, Reason: v.Reason, ExpectedDelay: v.Delay.Seconds(),
		},
	}
	c.give(k.order)
}

// pageOut has memory of a suspended container written to swap, unless that is being
// done already.
func (c *cluster) pageOut(k *container, p headrace.Order) {
	if k == nil || k.paging != nil || k.order != nil || k.state != headrace.Suspended {
		return
	}
	k.paging = &order{
		of: k, command: headrace.CommandSuspend, swapped: k.task.GetUsage().GetSwapped(),
		wire: &wire.NodeOrder{PageOut: p.PageOut, Reason: p.Reason, ExpectedDelay: p.Delay.Seconds()},
	}
	c.give(k.paging)
}

// log writes a line for a decision about a container; one for several in a row that are
// to wait. told is what was written last, and is replaced.
func (c *cluster) log(id, node string, told *string, d *wire.PreemptDecision, observe bool) {
	mechanism := cmp.Or(d.Mechanism, "none")
	if observe {
		mechanism = "would " + mechanism
	}
	if mechanism == *told && (observe || d.Mechanism == headrace.Wait.String() || d.Mechanism == "") {
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
	case k.order != nil:
		return fmt.Errorf("%w: the order to %s it is not done yet; ask again when it is", errState, k.order.command)
	case k.doing.BringsBack():
		return nil
	case k.doing.LeavesBy() != headrace.Wait:
		return fmt.Errorf("%w: it is %s; ask again when that is done", errState, k.task.Doing)
	case k.state == headrace.Running:
		return nil
	case k.state != headrace.Suspended && k.state != headrace.Checkpointed:
		return fmt.Errorf("%w: it is %s", errState, k.state)
	case k.task.Held:
		return fmt.Errorf("%w: a user holds it; headrace resume %s on its machine ends that", errState, k.id)
	}
	k.order = &order{of: k, command: headrace.CommandResume, wire: &wire.NodeOrder{Reason: "its scheduler has room for it again", ExpectedDelay: c.comeBack(k).Seconds()}}
	c.give(k.order)
	c.cfg.Log.Info("resume", "container", k.id, "node", k.node.name, "state", k.state)
	return nil
}

var errState = errors.New("it cannot be resumed now")

// comeBack is how long a container is expected to take to run again.
func (c *cluster) comeBack(k *container) time.Duration {
	p := k.task.Checkpoint
	if k.state != headrace.Checkpointed || p == nil {
		if in := convert.Amount(k.node.info.SwapIn); in > 0 {
			return convert.Seconds(float64(k.task.GetUsage().GetSwapped()) / in)
		}
		return 0
	}
	for _, s := range k.node.info.Stores {
		if read := convert.Amount(s.Read); s.Name == p.Store && read > 0 {
			return convert.Seconds(s.RestoreOverhead) + convert.Seconds(float64(p.TotalBytes)/read)
		}
	}
	return 0
}
