package policy

import (
	"fmt"

	"headrace"
)

// A Note says, for a person, why a task that waits is not ordered to run.
type Note struct {
	Task   headrace.TaskID
	Reason string
}

// Explain is Decide together with a note for every task that goes on waiting, in
// the order of the queue.
func Explain(v headrace.View, c Config) ([]headrace.Order, []Note) {
	d := decide(&v, c, true)
	return d.orders, d.notes
}

func (d *decision) note(u *task, format string, args ...any) {
	if d.explain {
		d.notes = append(d.notes, Note{u.ID, fmt.Sprintf(format, args...)})
	}
}

// notePlan says what u waits for, now that room is made for it.
func (d *decision) notePlan(u *task, p *plan) {
	if !d.explain {
		return
	}
	for _, a := range p.acts {
		if a.mech == headrace.Wait {
			d.note(u, "waits for %s to end on %s, in about %s: cheaper than to preempt", a.t.ID, p.n.ID, short(remaining(a.t.TaskView).Seconds()))
			return
		}
	}
	d.note(u, "room is being made on %s, in about %s", p.n.ID, short(p.cost.delay))
}

func (d *decision) nowhere(u *task) string {
	if u.Node != "" && u.n == nil {
		return fmt.Sprintf("its node %s is not there", u.Node)
	}
	return "no node is large enough for it"
}

// noteRefusal says what u waits for when nobody leaves for it: where there is a
// less urgent task, why that one does not.
func (d *decision) noteRefusal(u *task, spots []*node) {
	if !d.explain {
		return
	}
	for _, n := range spots {
		if n.lowest >= u.Priority {
			continue
		}
		for _, v := range n.running {
			if !v.settled && v.Priority < u.Priority {
				d.note(u, "waits for room: %s", d.whyNot(u, v))
				return
			}
		}
	}
	d.note(u, "waits for room")
}

// whyNot says why v does not leave for u by the policy.
func (d *decision) whyNot(u, v *task) string {
	if d.c.Policy == Wait {
		return "the policy is to wait"
	}
	if d.c.protected(v.TaskView, u.eff) {
		return fmt.Sprintf("%s may not leave yet: %s", v.ID, d.c.protection(v.TaskView))
	}
	a := act{v, headrace.Suspend, -1}
	suspend, checkpoint := d.refusal(u, a, d.balance(u, v.n).with(a)), d.noCheckpoint(v)
	switch {
	case d.c.Attempts > 0 && d.attempts > d.c.Attempts:
		return "others come first in looking for victims"
	case d.c.Policy != Suspend && d.c.Policy != Checkpoint || suspend == "" || checkpoint == "":
		return fmt.Sprintf("all that may leave on %s would not make enough", v.n.ID)
	case suspend == checkpoint:
		return fmt.Sprintf("%s can be neither suspended nor checkpointed: %s", v.ID, suspend)
	}
	return fmt.Sprintf("%s cannot be suspended (%s) and not checkpointed (%s)", v.ID, suspend, checkpoint)
}
