package policy

import (
	"fmt"
	"strings"

	"headrace"
	"headrace/policy/internal/words"
)

// A Note says, for a person, why a task that waits is not ordered to run.
type Note struct {
	Task   headrace.TaskID
	Reason string
}

// Explain is Decide together with a note for every task that goes on waiting, in
// the order of the queue.
func Explain(v headrace.View, c Config) ([]headrace.Order, []Note) {
	p := NewPlanner(c)
	p.explain = true
	return p.Decide(&v), p.notes
}

func (p *Planner) note(u *task, says ...string) {
	if p.explain {
		p.notes = append(p.notes, Note{u.ID, strings.Join(says, "")})
	}
}

// notePlan says what u waits for, now that room is made for it.
func (p *Planner) notePlan(u *task, way *plan) {
	if !p.explain {
		return
	}
	for _, a := range way.acts {
		if a.mech == headrace.Wait {
			p.note(u, "waits for ", string(a.t.ID), " to end on ", string(way.n.ID), ", in about ", words.Short(remaining(a.t.TaskView).Seconds()), ": cheaper than to preempt")
			return
		}
	}
	p.note(u, "room is being made on ", string(way.n.ID), ", in about ", words.Short(way.cost.delay))
}

// noteNowhere says that u can wait for no node.
func (p *Planner) noteNowhere(u *task) {
	if u.Node != "" && u.n == nil {
		p.note(u, "its node ", string(u.Node), " is not there")
		return
	}
	p.note(u, "no node is large enough for it")
}

// noteRefusal says what u waits for when nobody leaves for it: where there is a
// less urgent task, why that one does not.
func (p *Planner) noteRefusal(u *task, s spots) {
	if !p.explain {
		return
	}
	for _, n := range p.fleet.list(u, s) {
		if n.lowest >= u.Priority {
			continue
		}
		p.chooser.rank(n)
		for _, v := range n.running {
			if !v.settled && v.Priority < u.Priority {
				p.note(u, "waits for room: ", p.whyNot(u, v))
				return
			}
		}
	}
	p.note(u, "waits for room")
}

// whyNot says why v does not leave for u by the policy.
func (p *Planner) whyNot(u, v *task) string {
	if p.c.Policy == Wait {
		return "the policy is to wait"
	}
	if v.guard.against(u.eff) {
		return fmt.Sprintf("%s may not leave yet: %s", v.ID, p.ageing.protection(v.TaskView))
	}
	suspend, checkpoint := noSuspend(u, v), noCheckpoint(v)
	switch {
	case p.c.attempts > 0 && p.attempts > p.c.attempts:
		return "others come first in looking for victims"
	case p.c.Policy != Suspend && p.c.Policy != Checkpoint || suspend == "" || checkpoint == "":
		return fmt.Sprintf("all that may leave on %s would not make enough", v.n.ID)
	case suspend == checkpoint:
		return fmt.Sprintf("%s can be neither suspended nor checkpointed: %s", v.ID, suspend)
	}
	return fmt.Sprintf("%s cannot be suspended (%s) and not checkpointed (%s)", v.ID, suspend, checkpoint)
}

// noSuspend says why to suspend v alone does not make room for u, empty when it does.
func noSuspend(u, v *task) string {
	n := v.n
	b := n.balance(u).with(act{v, headrace.Suspend, -1})
	switch {
	case v.NoSuspend != "":
		return v.NoSuspend
	case b.short(n.swap) > 0:
		return fmt.Sprintf("%s would have to be paged out, %s can be", words.Size(b.mem), words.Size(max(0, min(n.swap, b.pageable))))
	case !b.fits(n.swap):
		return "it does not make enough room on its own"
	}
	return ""
}

// because says why the policy took this act.
func (p *Planner) because(way *plan, a act) string {
	switch {
	case a.t.State == headrace.Suspended:
		return "; its memory is needed and swap has no room for it"
	case p.c.Policy == Suspend && a.mech == headrace.Checkpoint:
		if why := a.t.NoSuspend; why != "" {
			return "; it cannot be suspended: " + why
		}
		return "; checkpoint instead of suspend: memory and swap would not hold all that stays"
	case p.c.Policy == Checkpoint && a.mech == headrace.Suspend:
		return "; suspend instead of checkpoint: " + noCheckpoint(a.t)
	case p.c.Policy == Adaptive:
		return whyAdaptive(a)
	case p.c.Policy == Cost:
		return "; cheapest: delay " + words.Short(way.cost.delay) + ", waste " + words.Short(way.cost.waste)
	}
	return ""
}

func whyAdaptive(a act) string {
	if a.mech == headrace.Checkpoint {
		return "; progress " + words.Short(a.t.Progress.Wall.Seconds()) + " exceeds the overhead of a checkpoint"
	}
	if why := noCheckpoint(a.t); why != "" {
		return "; it cannot be checkpointed: " + why
	}
	return "; progress " + words.Short(a.t.Progress.Wall.Seconds()) + " does not exceed the overhead of a checkpoint"
}

// refusesDump says why t cannot be checkpointed to store i.
func refusesDump(t *task, i int) string {
	s := &t.n.stores[i]
	switch {
	case t.NoCheckpoint != "":
		return t.NoCheckpoint
	case !(s.Write > 0) || !(s.Read > 0):
		return fmt.Sprintf("the bandwidth of store %s is not known", s.Name)
	}
	return fmt.Sprintf("store %s has %s free, the checkpoint needs %s", s.Name, words.Size(s.free), words.Size(dumpBytes(t.TaskView, s.StoreView)))
}

// noCheckpoint says why t cannot be checkpointed to any store; empty when it can.
func noCheckpoint(t *task) string {
	if t.NoCheckpoint != "" {
		return t.NoCheckpoint
	}
	why := "there is no store"
	for i := range t.n.stores {
		if canDump(t, i, nil) {
			return ""
		}
		why = refusesDump(t, i)
	}
	return why
}

// passing says in words why t goes before others of its job; empty when it does not.
// attracted: it has been said what of its input is on the node to which it goes.
func passing(t *waiter, attracted bool) string {
	switch {
	case !t.passes:
		return ""
	case attracted:
		return ", so it goes before others of its job"
	case t.local > 0:
		return "; " + words.Percent(t.local) + " of its input is in memory, so it goes before others of its job"
	}
	return "; others of its job have theirs in memory where there is no room"
}
