package policy

import (
	"fmt"
	"strings"

	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/fleet"
	"headrace/policy/internal/price"
	"headrace/policy/internal/queue"
	"headrace/policy/internal/victims"
	"headrace/policy/internal/words"
)

// A Note says, for a person, why a task that waits is not ordered to run.
type Note struct {
	Task   headrace.TaskID
	Reason string
}

// Explain returns what Decide does, with a note for every task that goes on waiting, in
// the order of the queue.
func Explain(v headrace.View, c Config) ([]headrace.Order, []Note) {
	p := NewPlanner(c)
	p.explain = true
	return p.Decide(&v), p.notes
}

func (p *Planner) note(u *books.Task, says ...string) {
	if p.explain {
		p.notes = append(p.notes, Note{u.ID, strings.Join(says, "")})
	}
}

// notePlan says what u waits for, now that room is made for it.
func (p *Planner) notePlan(u *books.Task, way *victims.Plan) {
	if !p.explain {
		return
	}
	for _, a := range way.Acts {
		if a.By == headrace.Wait {
			p.note(u, "waits for ", string(a.Task.ID), " to end on ", string(way.Node.ID), ", in about ", words.Short(price.Remaining(a.Task.TaskView).Seconds()), ": cheaper than to preempt")
			return
		}
	}
	p.note(u, "room is being made on ", string(way.Node.ID), ", in about ", words.Short(way.Cost.Delay))
}

// noteNowhere says that u can wait for no node.
func (p *Planner) noteNowhere(u *books.Task) {
	if u.Node != "" && u.Home == nil {
		p.note(u, "its node ", string(u.Node), " is not there")
		return
	}
	p.note(u, "no node is large enough for it")
}

// noteRefusal says what u waits for when nobody leaves for it: where there is a
// less urgent task, why that one does not.
func (p *Planner) noteRefusal(u *books.Task, s fleet.Spots) {
	if !p.explain {
		return
	}
	if u.NoVictims {
		p.note(u, "waits for room that is free: others have left for it in vain")
		return
	}
	for _, n := range p.fleet.List(u, s) {
		if books.Lowest(n) >= u.Priority {
			continue
		}
		p.chooser.Rank(n)
		for _, v := range n.Running {
			if !v.Settled && v.Priority < u.Priority {
				p.note(u, "waits for room: ", p.whyNot(u, v))
				return
			}
		}
	}
	p.note(u, "waits for room")
}

// whyNot says why v does not leave for u by the policy.
func (p *Planner) whyNot(u, v *books.Task) string {
	if p.c.Policy == Wait {
		return "the policy is to wait"
	}
	if v.Guard.Against(u.Aged) {
		return fmt.Sprintf("%s may not leave yet: %s", v.ID, p.ageing.Protection(v.TaskView))
	}
	suspend, checkpoint := noSuspend(u, v), noCheckpoint(v)
	switch {
	case p.c.Policy != Suspend && p.c.Policy != Checkpoint || suspend == "" || checkpoint == "":
		return fmt.Sprintf("all that may leave on %s would not make enough", v.Home.ID)
	case suspend == checkpoint:
		return fmt.Sprintf("%s can be neither suspended nor checkpointed: %s", v.ID, suspend)
	}
	return fmt.Sprintf("%s cannot be suspended (%s) and not checkpointed (%s)", v.ID, suspend, checkpoint)
}

// noSuspend says why to suspend v alone does not make room for u, empty when it does.
func noSuspend(u, v *books.Task) string {
	n := v.Home
	b := n.Balance(u).With(books.By(v, headrace.Suspend))
	switch {
	case v.NoSuspend != "":
		return v.NoSuspend
	case b.Short(n.Swap) > 0:
		return fmt.Sprintf("%s would have to be paged out, %s can be", words.Size(b.Mem), words.Size(max(0, min(n.Swap, b.Pageable))))
	case !b.Fits(n.Swap):
		return "it does not make enough room on its own"
	}
	return ""
}

// because says why the policy took this act.
func (p *Planner) because(u *books.Task, way *victims.Plan, a books.Act) string {
	switch {
	case a.Task.State == headrace.Suspended && a.By == headrace.Kill:
		return "; it is suspended and holds what is needed: cheapest: delay " + words.Short(way.Cost.Delay) + ", waste " + words.Short(way.Cost.Waste)
	case a.Task.State == headrace.Suspended:
		return "; its memory is needed and swap has no room for it"
	case p.c.Policy == Suspend && a.By == headrace.Checkpoint:
		if why := a.Task.NoSuspend; why != "" {
			return "; it cannot be suspended: " + why
		}
		return "; checkpoint instead of suspend: memory and swap would not hold all that stays"
	case p.c.Policy == Checkpoint && a.By == headrace.Suspend:
		return "; suspend instead of checkpoint: " + noCheckpoint(a.Task)
	case p.c.Policy == Adaptive:
		return whyAdaptive(u, a)
	case p.c.Policy == Cost:
		return "; cheapest: delay " + words.Short(way.Cost.Delay) + ", waste " + words.Short(way.Cost.Waste)
	}
	return ""
}

func whyAdaptive(u *books.Task, a books.Act) string {
	if !a.Task.KilledFor(u) {
		return "; it is not killed for " + u.Priority.String()
	}
	if a.By == headrace.Checkpoint {
		return "; progress " + words.Short(a.Task.Progress.Wall.Seconds()) + " exceeds the overhead of a checkpoint"
	}
	if why := noCheckpoint(a.Task); why != "" {
		return "; it cannot be checkpointed: " + why
	}
	return "; progress " + words.Short(a.Task.Progress.Wall.Seconds()) + " does not exceed the overhead of a checkpoint"
}

// refusesDump says why t cannot be checkpointed to store i.
func refusesDump(t *books.Task, i int) string {
	s := &t.Home.Stores[i]
	switch {
	case t.NoCheckpoint != "":
		return t.NoCheckpoint
	case !(s.Write > 0) || !(s.Read > 0):
		return fmt.Sprintf("the bandwidth of store %s is not known", s.Name)
	}
	return fmt.Sprintf("store %s has %s free, the checkpoint needs %s", s.Name, words.Size(s.Free), words.Size(books.DumpBytes(t.TaskView, s.StoreView)))
}

// noCheckpoint says why t cannot be checkpointed to any store; empty when it can.
func noCheckpoint(t *books.Task) string {
	if t.NoCheckpoint != "" {
		return t.NoCheckpoint
	}
	why := "there is no store"
	for i := range t.Home.Stores {
		if books.CanDump(t, i, nil) {
			return ""
		}
		why = refusesDump(t, i)
	}
	return why
}

// passing says in words why t goes before others of its job; empty when it does not.
// attracted: it has been said what of its input is on the node to which it goes.
func passing(t *queue.Waiter, attracted bool) string {
	switch {
	case !t.Passes:
		return ""
	case attracted:
		return ", so it goes before others of its job"
	case t.Local > 0:
		return "; " + words.Percent(t.Local) + " of its input is in memory, so it goes before others of its job"
	}
	return "; others of its job have theirs in memory where there is no room"
}
